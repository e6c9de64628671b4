#!/usr/bin/env bash
# up.sh [main|test]: start PostgreSQL, Redis and Kafka, and wait until each answers. Safe to run twice.
#
# Where a Docker engine answers they run in containers, else natively below .local; ONCEPAY_ENGINE=native|compose
# decides by hand. With ONCEPAY_KAFKA=optional a machine that can have no Kafka goes on without (the demo asks so).

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$LOCAL_DIR/tools.sh"
use_profile "${1:-main}"
lock "$PROFILE"
choose_engine
began=$EPOCHREALTIME

# --- packages -------------------------------------------------------------------------------------------------------

# missing_packages <what>: the Debian packages that would bring what is not there.
missing_packages() {
  case $1 in
    base)
      (find_postgres "") 2>/dev/null || echo postgresql
      (find_redis) 2>/dev/null || echo redis-server
      ;;
    kafka)
      (find_java) 2>/dev/null || echo default-jre-headless
      command -v mvn >/dev/null 2>&1 || [[ -d $STATE_ROOT/kafka-lib ]] || echo maven
      ;;
  esac
}

# install <package …>: false, with one line of explanation in WHY, if it cannot be done.
install() {
  local as_root=() log=$LOG_DIR/packages.log
  WHY="missing: $* (get it with: apt-get update && apt-get install $*)"
  command -v apt-get >/dev/null 2>&1 || return 1
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || return 1
    as_root=(sudo -n)
  fi
  say "installing $*"
  if ! "${as_root[@]}" bash "$LOCAL_DIR/packages.sh" "$@" >"$log" 2>&1; then
    WHY+=", which failed: $(grep -a '^E:' "$log" | head -n 1) (log: $log)"
    return 1
  fi
  hash -r
}

# --- parts ----------------------------------------------------------------------------------------------------------

start_native() {
  local base kafka
  mapfile -t base < <(missing_packages base)
  mapfile -t kafka < <(missing_packages kafka)
  if ((${#base[@]} + ${#kafka[@]})) && ! install "${base[@]}" "${kafka[@]}"; then
    # A machine that can have the databases but no Java still runs the demo.
    if ((${#base[@]})) && { ! kafka_optional || ! ((${#kafka[@]})) || ! install "${base[@]}"; }; then die "$WHY"; fi
    if ! kafka_optional; then die "$WHY; or go on without Kafka: ONCEPAY_KAFKA=optional"; fi
  fi

  # All three at once; together they take as long as the slowest.
  local jobs=() job failed=false
  "$LOCAL_DIR/postgres.sh" start "$PROFILE" & jobs+=($!)
  "$LOCAL_DIR/redis.sh" start "$PROFILE" & jobs+=($!)
  if have_kafka; then
    "$LOCAL_DIR/kafka.sh" start "$PROFILE" & jobs+=($!)
  fi
  for job in "${jobs[@]}"; do wait "$job" || failed=true; done
  if $failed; then die "the $PROFILE stack is not complete; see above, then run this again"; fi
}

kafka_optional() { [[ ${ONCEPAY_KAFKA:-required} == optional ]]; }

# Can Kafka be started here? If not, and it is optional, go on without and say so.
have_kafka() {
  local why
  if ! kafka_optional; then return 0; fi
  why=$("$LOCAL_DIR/kafka.sh" prepare "$PROFILE" 2>&1) && return 0
  export ONCEPAY_KAFKA_ABSENT=1
  shout "NO KAFKA: going on with librdkafka's in-process broker. ${why##*error: }"
  return 1
}

start_containers() {
  "$LOCAL_DIR/settings.sh" "$PROFILE" # compose reads its variables from there
  compose up -d --wait postgres redis kafka && "$LOCAL_DIR/kafka.sh" start "$PROFILE"
}

record_engine() { printf '%s\n' "$ENGINE" >"$STATE/engine"; }

first_start=true
if [[ -f $STATE/engine ]]; then first_start=false; fi
"$LOCAL_DIR/secrets.sh" "$PROFILE"
record_engine
if [[ $ENGINE == compose ]] && ! start_containers; then
  # An engine that answers may still be unable to fetch images. Where nobody asked for containers and they hold no data
  # yet, the native way is as good.
  if [[ -n ${ONCEPAY_ENGINE:-} ]] || ! $first_start; then die "the containers of the $PROFILE stack did not start; see above"; fi
  say "the containers did not start (see above): going on without them"
  compose down --volumes || true
  ENGINE=native
  record_engine
fi
if [[ $ENGINE == native ]]; then start_native; fi
"$LOCAL_DIR/roles.sh" "$PROFILE"
remember_ports
"$LOCAL_DIR/settings.sh" "$PROFILE"
say "stack $PROFILE is up ($ENGINE, $(elapsed "$began") s); addresses: . ${ENV_FILE#"$ROOT/"}"
