#!/usr/bin/env bash
# redis.sh {start|stop} [main|test]: the profile's own Redis.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$LOCAL_DIR/tools.sh"
use_profile "${2:-main}"
choose_engine

DIR=$STATE/redis
CONFIG=$DIR/redis.conf
PID_FILE=$RUN_DIR/$PROFILE-redis.pid
LOG=$(part_log redis)

write_config() {
  mkdir -p "$DIR/data"
  {
    # proc-title: the process keeps its command line, by which we know it again.
    printf '%s\n' "bind 127.0.0.1" "port $REDIS_PORT" "dir \"$DIR/data\"" "daemonize no" "set-proc-title no"
    cat "$ROOT/deploy/redis/$PROFILE.conf"
  } | write_private "$CONFIG"
}

start() {
  local began=$EPOCHREALTIME
  find_redis
  if alive "$PID_FILE" "$CONFIG"; then
    wait_ready 10 redis "$PID_FILE" "$CONFIG" "$LOG" redis_ok "$REDIS_PORT"
    say "redis: already up on 127.0.0.1:$REDIS_PORT"
    return
  fi
  port_free "$REDIS_PORT" "Redis, profile $PROFILE" "${PORT_PREFIX}_REDIS_PORT"
  write_config
  spawn "$PID_FILE" "$LOG" "$CONFIG" redis-server "$CONFIG"
  wait_ready 30 redis "$PID_FILE" "$CONFIG" "$LOG" redis_ok "$REDIS_PORT"
  say "redis: up on 127.0.0.1:$REDIS_PORT ($(elapsed "$began") s)"
}

stop() { stop_process redis "$PID_FILE" "$CONFIG" TERM 15; }

[[ $ENGINE == native ]] || die "the $PROFILE stack runs in containers: use docker compose"
case ${1:-} in
  start | stop)
    lock "$PROFILE-redis"
    "$1"
    ;;
  *) die "usage: redis.sh {start|stop} [main|test]" ;;
esac
