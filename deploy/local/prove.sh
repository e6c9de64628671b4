#!/usr/bin/env bash
# prove.sh <gates|chaos> [argument of the program …]: the stack of the tests, then target/debug/gates or target/debug/chaos.
# Build first (`make gates` and `make chaos` do). The stack stays up afterwards, as with `make test`; with CI=true it is
# stopped if it was not up before. The status is the program's.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile test
source "$LOCAL_DIR/binaries.sh"

program=$(binary "${1:?say gates or chaos}")
shift
if [[ ${CI:-} == true ]] && ! listening "$PG_PORT"; then
  trap '"$LOCAL_DIR/down.sh" test >/dev/null || true' EXIT
fi
"$LOCAL_DIR/up.sh" test
# shellcheck source=/dev/null
source "$ENV_FILE"
"$program" "$@"
