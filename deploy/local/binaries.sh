# shellcheck shell=bash
# Where cargo put our programs. Sourced, never run.

BIN_DIR=${ONCEPAY_BIN_DIR:-${CARGO_TARGET_DIR:-$ROOT/target}/debug}
# A daemon starts in another folder, and its path is how we know it again.
[[ $BIN_DIR == /* ]] || BIN_DIR=$ROOT/$BIN_DIR

binary() {
  [[ -x $BIN_DIR/$1 ]] || die "$BIN_DIR/$1 is missing: run cargo build --workspace --locked, or set ONCEPAY_BIN_DIR"
  printf '%s' "$BIN_DIR/$1"
}
