#!/usr/bin/env bash
# postgres.sh {start|stop} [main|test]: the profile's own PostgreSQL.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$LOCAL_DIR/tools.sh"
use_profile "${2:-main}"
choose_engine

# A folder, or a link to one outside the repository (see place).
PG_HOME=$STATE/postgres
PID_FILE=$RUN_DIR/$PROFILE-postgres.pid
LOG=$(part_log postgres)

# PostgreSQL refuses to run as root. Root drops to another user; everybody else is that user already.
as_server=()
server_user=$(id -un)
if ((EUID == 0)); then
  server_user=postgres
  id -u postgres >/dev/null 2>&1 || server_user=nobody
  as_server=(setpriv --reuid "$server_user" --regid "$(id -g "$server_user")" --clear-groups --)
fi

data_dir() { printf '%s/data' "$(readlink -f "$PG_HOME")"; }

# Make the folder that holds the data. The server's user must be able to pass through every folder above it, and a
# clone may stand where it cannot (below /root, or in a folder of mode 700). Then the data lives outside, under a
# fresh name that nobody can have prepared, and PG_HOME is a link to it; reset follows the link.
place() {
  if [[ -L $PG_HOME && ! -d $PG_HOME ]]; then
    die "the data of this stack, $(readlink "$PG_HOME"), is gone: run make reset"
  fi
  [[ -d $PG_HOME ]] && return
  if ((EUID != 0)) || (cd / && "${as_server[@]}" test -x "$STATE"); then
    mkdir "$PG_HOME"
  else
    local outside
    outside=$(mktemp -d "${ONCEPAY_PG_OUTSIDE:-/var/tmp}/oncepay-$PROFILE-XXXXXXXX")
    ln -s "$outside" "$PG_HOME"
    say "postgres: user $server_user cannot enter $STATE, so its data lives in $outside"
  fi
  if ((EUID == 0)); then chown "$server_user:" "$PG_HOME/"; fi
}

# A cluster appears under its name only when it is complete: an interrupted first start leaves no half of one.
create_cluster() {
  local home fresh options=()
  home=$(readlink -f "$PG_HOME")
  fresh=$home/fresh
  rm -rf "$fresh"
  install -m 600 "$SECRETS/postgres" "$home/password"
  if ((EUID == 0)); then chown "$server_user:" "$home/password"; fi
  # Tests may lose everything in a power cut, so they need not wait for the disk; money notices a rotten page.
  if [[ $PROFILE == test ]]; then options+=(--no-sync); else options+=(--data-checksums); fi
  # Locale C: text is compared byte by byte, as the gates demand, and sorts the same on every machine.
  (cd / && "${as_server[@]}" "$PG_BIN/initdb" -D "$fresh" -U postgres --pwfile "$home/password" --no-instructions \
    -A scram-sha-256 --encoding UTF8 --locale C "${options[@]}") >>"$LOG" 2>&1 ||
    die "initdb failed: $(explain "$LOG") (log: $LOG)"
  rm -f "$home/password"
  mv "$fresh" "$home/data"
}

# After a SIGKILL of the server its children need a moment to notice, and its pid file stays behind. A new server
# trusts that file as long as any process has the number, even a dead one that nobody has collected or an unrelated one
# after a reboot. Every process of a server has its data folder as working directory, so we know better: wait until
# nobody does, then the file is certainly stale.
clear_remains() {
  local data=$1 deadline=$((SECONDS + 30)) folder busy=true
  while $busy; do
    busy=false
    for folder in /proc/[0-9]*/cwd; do
      if [[ $folder -ef $data && $(<"${folder%cwd}comm") == postgres ]]; then busy=true; fi
    done
    if $busy; then
      ((SECONDS < deadline)) || die "processes of a killed PostgreSQL still use $data"
      sleep 0.1
    fi
  done
  rm -f "$data/postmaster.pid"
}

ready() { "$PG_BIN/pg_isready" -q -h 127.0.0.1 -p "$PG_PORT" -U postgres; }

start() {
  local data began=$EPOCHREALTIME
  find_postgres "$PG_HOME/data"
  if alive "$PID_FILE" "$(data_dir)"; then
    wait_ready 10 postgres "$PID_FILE" "$(data_dir)" "$LOG" ready
    say "postgres: already up on 127.0.0.1:$PG_PORT"
    return
  fi
  port_free "$PG_PORT" "PostgreSQL, profile $PROFILE" "${PORT_PREFIX}_PG_PORT"
  place
  data=$(data_dir)
  [[ -d $data ]] || create_cluster
  clear_remains "$data"
  # The settings are copied beside the data because the server's user may be unable to read the repository.
  install -m 644 "$ROOT/deploy/postgres/$PROFILE.conf" "$data/oncepay.conf"
  # No Unix socket: nothing needs one, its path would have to be short and private, and TCP with a password is how the
  # services connect everywhere else.
  spawn "$PID_FILE" "$LOG" "$data" "${as_server[@]}" "$PG_BIN/postgres" -D "$data" -c "config_file=$data/oncepay.conf" \
    -c listen_addresses=127.0.0.1 -c "port=$PG_PORT" -c unix_socket_directories=
  wait_ready 60 postgres "$PID_FILE" "$data" "$LOG" ready
  say "postgres: up on 127.0.0.1:$PG_PORT ($(elapsed "$began") s)"
}

# SIGINT is PostgreSQL's fast shutdown: sessions are cut, what was committed is flushed.
stop() { stop_process postgres "$PID_FILE" "$(data_dir)" INT 30; }

[[ $ENGINE == native ]] || die "the $PROFILE stack runs in containers: use docker compose"
case ${1:-} in
  start | stop)
    lock "$PROFILE-postgres"
    "$1"
    ;;
  *) die "usage: postgres.sh {start|stop} [main|test]" ;;
esac
