#!/usr/bin/env bash
# reset.sh [main|test]: stop the profile and throw its data, passwords and settings away. Kafka's jars stay.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile "${1:-main}"

# The services of `main` would go on with a database that is gone.
if [[ $PROFILE == main ]]; then "$LOCAL_DIR/services.sh" stop; fi
"$LOCAL_DIR/down.sh" "$PROFILE"
lock "$PROFILE"
choose_engine

if [[ $ENGINE == compose && -f $STATE/compose.env ]]; then compose down --volumes; fi
# The data of a PostgreSQL that could not live inside the repository (postgres.sh, place).
if [[ -L $STATE/postgres ]]; then
  outside=$(readlink "$STATE/postgres")
  [[ ${outside##*/} == oncepay-"$PROFILE"-???????? ]] || die "$STATE/postgres points to $outside, which we did not make"
  rm -rf "$outside"
fi
rm -rf "$STATE" "$ENV_FILE"
say "stack $PROFILE is reset"
