#!/usr/bin/env bash
# down.sh [main|test]: stop PostgreSQL, Redis and Kafka. Data and settings stay.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile "${1:-main}"
lock "$PROFILE"
choose_engine

if [[ $ENGINE == compose ]]; then
  # Volumes, and with them the data, stay.
  if [[ -f $STATE/compose.env ]]; then compose down; fi
else
  jobs=()
  failed=false
  for part in kafka redis postgres; do
    "$LOCAL_DIR/$part.sh" stop "$PROFILE" & jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=true; done
  if $failed; then die "not everything of the $PROFILE stack could be stopped"; fi
fi
