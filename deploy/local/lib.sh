# shellcheck shell=bash
# What the scripts in this folder share: paths, messages, locks, processes, probes.
# Sourced, never run.

set -euo pipefail
shopt -s inherit_errexit

# Everything written below .local is private to the user who runs the stack: it holds passwords and data.
umask 077

LOCAL_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
ROOT=$(cd "$LOCAL_DIR/../.." && pwd -P)
STATE_ROOT=$ROOT/.local
LOG_DIR=$STATE_ROOT/log
RUN_DIR=$STATE_ROOT/run

# --- messages -------------------------------------------------------------------------------------------------------

say() { printf '%s\n' "$*"; }

# One line on stderr and the end: a person reads what is missing, a caller sees the status.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# need <command> <how to get it>
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# A line that cannot be missed, for the one case in which we go on with less than was asked for.
shout() {
  local bar='!!------------------------------------------------------------------------------------------------'
  printf '\n%s\n!!  %s\n%s\n\n' "$bar" "$*" "$bar" >&2
}

# The line of a log that explains why the last start failed: its first complaint, or its last word.
# (That PostgreSQL is still starting up is only its answer to our own probe.)
explain() {
  [[ -s $1 ]] || return 0
  awk '
    /^=== started / { complaint = last = ""; next }
    /starting up|not yet accepting/ { next }
    complaint == "" && /FATAL|PANIC|ERROR|[Ee]xception|[Ee]rror|panicked|in use/ { complaint = $0 }
    NF { last = $0 }
    END {
      line = complaint != "" ? complaint : last
      print line != "" ? substr(line, 1, 300) : "it ended without a word"
    }' "$1"
}

# --- a person's own settings ----------------------------------------------------------------------------------------

# `.env` (see `.env.sample`) is read by every script, so that `make` and a script run by hand agree.
# What the caller exports wins. The file is parsed, not sourced: a setting is data.
load_dotenv() {
  [[ -f $ROOT/.env ]] || return 0
  local line name
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line =~ ^([A-Z][A-Z0-9_]*)=(.*)$ ]] || continue
    name=${BASH_REMATCH[1]}
    [[ -v $name ]] || export "$name=${BASH_REMATCH[2]}"
  done <"$ROOT/.env"
}

# --- profile --------------------------------------------------------------------------------------------------------

# Two stacks that never meet: `main` is what `make up` and the demo use, `test` is what tests may ruin.
use_profile() {
  PROFILE=$1
  # shellcheck disable=SC2034  # for the scripts that source this
  case $PROFILE in
    main) ENV_FILE=$STATE_ROOT/env ;;
    test) ENV_FILE=$STATE_ROOT/test/env ;;
    *) die "unknown profile '$PROFILE': say main or test" ;;
  esac
  STATE=$STATE_ROOT/$PROFILE
  SECRETS=$STATE/secrets
  # 711: the user that PostgreSQL runs as must pass through, and sees nothing on the way.
  mkdir -p "$STATE" "$SECRETS" "$LOG_DIR" "$RUN_DIR"
  chmod 711 "$STATE_ROOT" "$STATE"
  source "$LOCAL_DIR/ports.sh"
}

# Where a part of this profile writes its log.
part_log() { printf '%s/%s-%s.log' "$LOG_DIR" "$PROFILE" "$1"; }

secret() { printf '%s' "$(<"$SECRETS/$1")"; }

# write_private <file>: stdin becomes the file, at once and only for its owner, so that nobody ever reads half of it.
write_private() {
  local temporary
  temporary=$(mktemp "$1.XXXXXX")
  cat >"$temporary"
  chmod 600 "$temporary"
  mv "$temporary" "$1"
}

# --- native or containers -------------------------------------------------------------------------------------------

# The way a stack was first started stays its way until reset, because its data lives there.
choose_engine() {
  local recorded=
  [[ -f $STATE/engine ]] && recorded=$(<"$STATE/engine")
  ENGINE=${ONCEPAY_ENGINE:-${recorded:-$(detect_engine)}}
  [[ $ENGINE == native || $ENGINE == compose ]] || die "ONCEPAY_ENGINE is '$ENGINE': say native or compose"
  [[ -z $recorded || $recorded == "$ENGINE" ]] ||
    die "the $PROFILE stack was started as '$recorded' and its data is there: reset it before ONCEPAY_ENGINE=$ENGINE"
  [[ $ENGINE == native ]] || docker_answers || die "the $PROFILE stack runs in containers, and no Docker engine answers"
}

detect_engine() { if docker_answers; then echo compose; else echo native; fi; }

docker_answers() {
  command -v docker >/dev/null 2>&1 &&
    timeout 10 docker info >/dev/null 2>&1 &&
    docker compose version >/dev/null 2>&1
}

# The project's name (in compose.env, so that people get the same one) carries the repository's path: two clones never
# stop each other's containers.
compose() {
  local files=(-f "$ROOT/docker-compose.yml")
  [[ $PROFILE == main ]] || files+=(-f "$ROOT/deploy/docker/compose.test.yml")
  docker compose --project-directory "$ROOT" -p "$(compose_project)" --env-file "$STATE/compose.env" "${files[@]}" "$@"
}

compose_project() { printf 'oncepay-%s-%s' "$PROFILE" "$(printf '%s' "$ROOT" | sha256sum | cut -c 1-8)"; }

# --- locks ----------------------------------------------------------------------------------------------------------

# lock <name>: held until this process ends. The files live outside the folders that reset removes: a lock on a
# removed file protects nobody. Daemons must not inherit it (see spawn).
lock() {
  mkdir -p "$STATE_ROOT/lock"
  exec {LOCK_FD}>"$STATE_ROOT/lock/$1"
  flock -n "$LOCK_FD" && return
  say "waiting for another run that holds '$1'"
  flock -w 300 "$LOCK_FD" || die "another run has held '$1' for five minutes (lock: $STATE_ROOT/lock/$1)"
}

# --- processes ------------------------------------------------------------------------------------------------------

# alive <pid file> <argument>: is the process that we started still running? A pid alone proves nothing, because the
# kernel gives numbers again; a process that carries our own path as one whole argument is ours.
alive() {
  local pid argument arguments
  { read -r pid <"$1"; } 2>/dev/null || return 1
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  { mapfile -d '' -t arguments <"/proc/$pid/cmdline"; } 2>/dev/null || return 1
  for argument in "${arguments[@]}"; do
    [[ $argument == "$2" ]] && return 0
  done
  return 1
}

# spawn <pid file> <log> <argument that marks it> <command …>: start a daemon.
spawn() {
  local pid_file=$1 log=$2 argument=$3 tries
  shift 3
  rotate "$log"
  printf '=== started %(%FT%T%z)T\n' -1 >>"$log" # where explain begins to read
  # Own session: Ctrl-C in the terminal that ran `make up` must not reach it. `setsid` does not fork here, since a
  # background job of a script never leads a process group, so `$!` is the daemon itself.
  (
    close_inherited_descriptors
    cd /
    exec setsid "$@"
  ) </dev/null >>"$log" 2>&1 &
  printf '%s\n' "$!" >"$pid_file"
  # Until the exec has happened the process still looks like this script.
  for ((tries = 0; tries < 200; tries++)); do
    alive "$pid_file" "$argument" && return
    kill -0 "$!" 2>/dev/null || return 0
    sleep 0.01
  done
}

# A daemon that keeps our lock, or the pipe of `make up | tee`, would block others long after we are gone.
close_inherited_descriptors() {
  local descriptor
  for descriptor in "/proc/$BASHPID/fd/"*; do
    descriptor=${descriptor##*/}
    if ((descriptor > 2)); then eval "exec $descriptor>&-"; fi
  done
}

# One old log is enough on a laptop; without a limit a forgotten stack fills the disk.
rotate() {
  local limit=$((20 * 1024 * 1024))
  if [[ -f $1 ]] && (($(stat -c %s "$1") > limit)); then mv "$1" "$1.1"; fi
}

# wait_ready <seconds> <name> <pid file> <argument> <log> <probe …>
wait_ready() {
  local limit=$1 name=$2 pid_file=$3 argument=$4 log=$5 deadline=$((SECONDS + $1))
  shift 5
  until "$@"; do
    alive "$pid_file" "$argument" || die "$name did not start: $(explain "$log") (log: $log)"
    ((SECONDS < deadline)) || die "$name runs but was not ready after $limit s (was its port changed while it ran? log: $log)"
    sleep 0.05
  done
}

# stop_process <name> <pid file> <argument> <signal> <seconds>: ask, wait, then insist.
stop_process() {
  local name=$1 pid_file=$2 argument=$3 signal=$4 limit=$5 pid
  if ! alive "$pid_file" "$argument"; then
    rm -f "$pid_file"
    say "$name: not running"
    return
  fi
  pid=$(<"$pid_file")
  kill -s "$signal" "$pid" 2>/dev/null || true
  if ! wait_gone "$pid_file" "$argument" "$limit"; then
    say "$name: still there after $limit s, killed"
    kill -s KILL "$pid" 2>/dev/null || true
    wait_gone "$pid_file" "$argument" 10 || die "$name (pid $pid) cannot be killed"
  fi
  rm -f "$pid_file"
  say "$name: stopped"
}

wait_gone() {
  local deadline=$((SECONDS + $3))
  while alive "$1" "$2"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
}

# --- probes ---------------------------------------------------------------------------------------------------------
# Bash speaks TCP itself, so no curl, nc, redis-cli or kcat has to be there.

# port_free <port> <what for> <variable that moves it>
port_free() {
  ! listening "$1" || die "port $1 ($2) is taken by another process: free it, or choose another with $3=…"
}

# Is anybody listening on this port? Read from the kernel's table: a trial connection would not see a listener whose
# queue is full, and on a port in the ephemeral range it can, rarely, connect to itself.
listening() {
  local hex files=(/proc/net/tcp)
  printf -v hex '%04X' "$1"
  if [[ -r /proc/net/tcp6 ]]; then files+=(/proc/net/tcp6); fi
  awk -v port=":$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1; exit } END { exit !found }' "${files[@]}"
}

# http_ok <port> <path>: does it answer 200?
http_ok() {
  local status
  status=$(timeout 2 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" "$2" >&3
    IFS= read -r line <&3 && printf "%s" "$line"
    cat <&3 >/dev/null # to the end, or the service logs a reset connection' _ "$1" "$2" 2>/dev/null) || return 1
  [[ $status =~ ^HTTP/1\.[01]\ 200 ]]
}

# redis_ok <port>
redis_ok() {
  local answer
  answer=$(timeout 2 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "PING\r\n" >&3
    IFS= read -r line <&3 && printf "%s" "${line%$'"'"'\r'"'"'}"' _ "$1" 2>/dev/null) || return 1
  [[ $answer == +PONG ]]
}

# kafka_ok <port>: does the broker name a group coordinator? This is the last thing to become true after a start, and
# asking for it makes the broker create `__consumer_offsets`, which would cost the first consumer group seconds.
# The bytes are a FindCoordinator request, version 0: length 17, api key 10, version 0, correlation id 1, no client id,
# group "ready". The answer is length, correlation id and the error code, which must be 0.
kafka_ok() {
  local answer
  answer=$(timeout 3 bash -c '
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf "\x00\x00\x00\x11\x00\x0a\x00\x00\x00\x00\x00\x01\xff\xff\x00\x05ready" >&3
    head -c 10 <&3 | od -An -tx1' _ "$1" 2>/dev/null) || return 1
  [[ ${answer// /} == ????????000000010000 ]]
}

load_dotenv
