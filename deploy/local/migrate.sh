#!/usr/bin/env bash
# migrate.sh [main|test]: bring the databases `payment` and `ledger` to the newest schema, as their owner.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile "${1:-main}"
source "$LOCAL_DIR/binaries.sh"

[[ -f $ENV_FILE ]] || die "the $PROFILE stack has no addresses yet: run deploy/local/up.sh $PROFILE"
# shellcheck source=/dev/null
source "$ENV_FILE"
"$(binary oncepay)" migrate
