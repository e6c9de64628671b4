#!/usr/bin/env bash
# roles.sh [main|test]: create the database roles and the databases. Safe to run again; it also carries over a changed
# password. What a role may do with a table is said by the migrations.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$LOCAL_DIR/tools.sh"
use_profile "${1:-main}"
choose_engine

# roles.sql takes the passwords from the environment: on a command line every user of the machine could read them.
for role in oncepay payment_core outbox_relay ledger_consumer ledger_service reconciler; do
  export "PASSWORD_${role^^}=$(secret "$role")"
done

apply() {
  if [[ $ENGINE == compose ]]; then
    # The container has the same variables, and mounts the same file for its own first start.
    compose exec -T -u postgres postgres psql -X -q -v ON_ERROR_STOP=1 -f /docker-entrypoint-initdb.d/roles.sql
  else
    find_postgres "$STATE/postgres/data"
    PGPASSWORD=$(secret postgres) "$PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 \
      -h 127.0.0.1 -p "$PG_PORT" -U postgres -d postgres -f "$ROOT/deploy/postgres/roles.sql"
  fi
}

output=$(apply 2>&1) ||
  die "roles and databases could not be created: $(tail -n 1 <<<"$output") (if .local was removed by hand: make reset)"
