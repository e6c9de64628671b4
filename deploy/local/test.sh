#!/usr/bin/env bash
# test.sh [argument of the test programs …]: everything that the tests need, then all tests.
#
# The test stack stays up afterwards, so that the next run starts at once. With CI=true nothing may stay: it is stopped
# at the end, and the status is still that of the tests.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

stop_stack() {
  local status=$?
  deploy/local/down.sh test || true
  exit "$status"
}
if [[ ${CI:-} == true ]]; then
  trap stop_stack EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
fi

deploy/local/up.sh test
# shellcheck source=/dev/null
source .local/test/env
# Queries are checked against the committed descriptions: a build needs no database, and ignores the one at hand.
export SQLX_OFFLINE=true
# First a plain build, because some tests start our own programs.
cargo build --workspace --locked
cargo test --workspace --locked -- "$@"
