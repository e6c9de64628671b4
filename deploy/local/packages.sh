#!/usr/bin/env bash
# packages.sh <Debian package …>: install what the native stack needs. Runs as root (up.sh sees to that).
#
# The stack starts private instances of its own, so the packages must start nothing: their service starts are denied
# while they install, and PostgreSQL's package makes no cluster. Both are done by files that are taken back at the end,
# whatever happens.

set -euo pipefail

DENY=/usr/sbin/policy-rc.d
SAVED=/usr/sbin/policy-rc.d.before-oncepay
CLUSTER_DIR=/etc/postgresql-common/createcluster.d
NO_CLUSTER=$CLUSTER_DIR/oncepay-no-main-cluster.conf
made_deny=false
made_dirs=()

restore() {
  rm -f "$NO_CLUSTER"
  # Only what we made, and only if nothing else moved in meanwhile.
  local index
  for ((index = ${#made_dirs[@]} - 1; index >= 0; index--)); do rmdir "${made_dirs[index]}" 2>/dev/null || true; done
  if $made_deny; then
    rm -f "$DENY"
    if [[ -e $SAVED || -L $SAVED ]]; then mv "$SAVED" "$DENY"; fi
  fi
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Status 101 is the documented word for "do not start it". Many container images deny already: then nothing is to do.
deny_service_starts() {
  local status=0
  if [[ -x $DENY ]]; then
    "$DENY" postgresql start >/dev/null 2>&1 || status=$?
    if ((status == 101)); then return; fi
  fi
  made_deny=true
  if [[ -e $DENY || -L $DENY ]]; then mv "$DENY" "$SAVED"; fi
  printf '#!/bin/sh\nexit 101\n' >"$DENY"
  chmod 755 "$DENY"
}

forbid_main_cluster() {
  local dir
  for dir in /etc/postgresql-common "$CLUSTER_DIR"; do
    if [[ ! -d $dir ]]; then
      mkdir "$dir"
      made_dirs+=("$dir")
    fi
  done
  chmod 755 /etc/postgresql-common "$CLUSTER_DIR"
  printf 'create_main_cluster = false\n' >"$NO_CLUSTER"
  chmod 644 "$NO_CLUSTER"
}

export DEBIAN_FRONTEND=noninteractive
deny_service_starts
forbid_main_cluster
# Another apt may be at work (a fresh machine updates itself): wait for it instead of failing.
apt-get -o DPkg::Lock::Timeout=120 update
apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@"
