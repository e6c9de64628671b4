#!/usr/bin/env bash
# demo.sh [argument of the demo …]: the stack, every service, then target/debug/demo. Build first (`make demo` does).
#
# What was not running before is stopped afterwards; the data stays, so that `make up` lets a person look around.
# The status is the demo's.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile main
source "$LOCAL_DIR/binaries.sh"

demo=$(binary demo)
services_were_up=false
stack_was_up=false
if "$LOCAL_DIR/services.sh" status payment-core >/dev/null 2>&1; then services_were_up=true; fi
if listening "$PG_PORT"; then stack_was_up=true; fi

stop_again() {
  local status=$?
  trap '' INT TERM
  if ! $services_were_up; then "$LOCAL_DIR/services.sh" stop >/dev/null || true; fi
  if ! $stack_was_up; then
    "$LOCAL_DIR/down.sh" main >/dev/null || true
    say "the demo's stack is stopped, its data stays: make up to look around, make reset to forget it"
  fi
  exit "$status"
}
trap stop_again EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The demo is the one place that may go on without a real Kafka; up.sh then says so in a line nobody can miss.
ONCEPAY_KAFKA=optional "$LOCAL_DIR/up.sh" main
# Without Kafka the env file keeps an address that is already set; one from an earlier stack would be wrong.
unset KAFKA_BROKERS ONCEPAY_OUTBOX_RELAY__KAFKA_BROKERS ONCEPAY_LEDGER_CONSUMER__KAFKA_BROKERS
"$LOCAL_DIR/services.sh" start
# shellcheck source=/dev/null
source "$ENV_FILE"
ONCEPAY_SCRIPTS=$LOCAL_DIR "$demo" "$@"
