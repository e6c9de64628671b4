#!/usr/bin/env bash
# services.sh {start|stop|restart|kill|status} [service …]: our own services, as background processes on the `main` stack.
#
# Without names it means all of them; `start` then migrates first, and leaves out what needs Kafka if there is none.
# `kill` is SIGKILL at once: it is how the demo crashes one. Pid files are in .local/run, logs in .local/log.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile main
source "$LOCAL_DIR/binaries.sh"

READY_SECONDS=60
# Longer than a service's own limit for finishing what is in hand.
STOP_SECONDS=30

pid_file() { printf '%s/%s.pid' "$RUN_DIR" "$1"; }
log_file() { printf '%s/%s.log' "$LOG_DIR" "$1"; }
# The path of the program is the argument by which we know our process.
running() { alive "$(pid_file "$1")" "$BIN_DIR/$1"; }
ready() { http_ok "${ADMIN_PORT[$1]}" /readyz; }

# A service sees its own settings and the shared ones. Another service's database password, and above all the owner's,
# would undo what the database roles are for.
only_own_settings() {
  local variable own=${1//-/_}
  own=ONCEPAY_${own^^}__
  for variable in $(compgen -e ONCEPAY_); do
    if [[ $variable == *__* && $variable != "$own"* ]]; then unset "$variable"; fi
  done
  unset PAYMENT_DATABASE_URL LEDGER_DATABASE_URL TEST_DATABASE_URL
}

# Was the program built anew since it was started? Then the one that runs has no name any more.
outdated() { [[ $(readlink "/proc/$(<"$(pid_file "$1")")/exe") == *' (deleted)' ]]; }

start_one() {
  local service=$1
  binary "$service" >/dev/null
  if running "$service"; then
    outdated "$service" || return 0
    say "$service: built anew, restarting"
    stop_one "$service"
  fi
  if [[ -v SERVICE_PORT[$service] ]]; then port_free "${SERVICE_PORT[$service]}" "$service" ONCEPAY_SERVICE_PORT_BASE; fi
  port_free "${ADMIN_PORT[$service]}" "$service, admin" ONCEPAY_SERVICE_PORT_BASE
  only_own_settings "$service"
  spawn "$(pid_file "$service")" "$(log_file "$service")" "$BIN_DIR/$service" "$BIN_DIR/$service"
}

start() {
  local service
  [[ -f $ENV_FILE ]] || die "the stack has no addresses yet: run deploy/local/up.sh"
  # shellcheck source=/dev/null
  source "$ENV_FILE"
  if ((all)); then
    "$LOCAL_DIR/migrate.sh" main
    if [[ -z $KAFKA_BROKERS ]]; then
      say "no Kafka: outbox-relay and ledger-consumer are left out (name them to start them)"
      drop outbox-relay ledger-consumer
    fi
  fi
  # All at once, then wait for each: none of them needs another one to become ready.
  for service in "${names[@]}"; do with_lock "$service" start_one; done
  for service in "${names[@]}"; do
    wait_ready "$READY_SECONDS" "$service" "$(pid_file "$service")" "$BIN_DIR/$service" "$(log_file "$service")" ready "$service"
  done
  status
}

stop_one() { stop_process "$1" "$(pid_file "$1")" "$BIN_DIR/$1" TERM "$STOP_SECONDS"; }

# Each takes its time to finish what is in hand, so they finish together.
stop() {
  local service jobs=() job failed=false
  for service in "${names[@]}"; do
    with_lock "$service" stop_one & jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=true; done
  if $failed; then die "not every service could be stopped"; fi
}

kill_one() {
  local pid
  if ! running "$1"; then die "$1 is not running"; fi
  pid=$(<"$(pid_file "$1")")
  kill -s KILL "$pid"
  wait_gone "$(pid_file "$1")" "$BIN_DIR/$1" 10 || die "$1 (pid $pid) cannot be killed"
  rm -f "$(pid_file "$1")"
  say "$1: killed (pid $pid)"
}

# One line for each service; fails if one of them does not answer.
status() {
  local service state pid address failed=0
  for service in "${names[@]}"; do
    pid=-
    state=stopped
    if running "$service"; then
      pid=$(<"$(pid_file "$service")")
      if ready "$service"; then state=ready; else state="not ready"; fi
    fi
    address=-
    if [[ -v SERVICE_PORT[$service] ]]; then address=http://127.0.0.1:${SERVICE_PORT[$service]}; fi
    printf '%-18s %-9s %-24s admin http://127.0.0.1:%s  pid %s\n' "$service" "$state" "$address" "${ADMIN_PORT[$service]}" "$pid"
    [[ $state == ready ]] || failed=1
  done
  return "$failed"
}

# with_lock <service> <function>: in a subshell, so that the lock and the trimmed environment end with it.
with_lock() {
  (
    lock "service-$1"
    "$2" "$1"
  )
}

# drop <service …>: from the list of names.
drop() {
  local service kept=()
  for service in "${names[@]}"; do
    [[ " $* " == *" $service "* ]] || kept+=("$service")
  done
  names=("${kept[@]}")
}

command=${1:-}
shift || true
names=("$@")
all=0
if (($# == 0)); then
  names=("${SERVICES[@]}")
  all=1
fi
for name in "${names[@]}"; do
  [[ -v ADMIN_PORT[$name] ]] || die "no service '$name': there are ${SERVICES[*]}"
done

case $command in
  start | stop | status) "$command" ;;
  restart)
    stop
    start
    ;;
  kill) for name in "${names[@]}"; do with_lock "$name" kill_one; done ;;
  *) die "usage: services.sh {start|stop|restart|kill|status} [service …]" ;;
esac
