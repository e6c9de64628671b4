#!/usr/bin/env bash
# bench.sh [argument of the benchmark …]: the stack and every service in release mode, then target/release/bench. Build first
# (`make bench` does). What was not running before is stopped afterwards.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile main
source "$LOCAL_DIR/binaries.sh"

bench=$(binary bench)
trap '"$LOCAL_DIR/services.sh" stop >/dev/null || true; "$LOCAL_DIR/down.sh" main >/dev/null || true' EXIT
"$LOCAL_DIR/up.sh" main
"$LOCAL_DIR/services.sh" start
# shellcheck source=/dev/null
source "$ENV_FILE"
"$bench" --out "$ROOT/target/bench/$(date -u +%Y%m%dT%H%M%SZ).json" "$@"
