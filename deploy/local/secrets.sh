#!/usr/bin/env bash
# secrets.sh [main|test]: make the passwords and channel secrets of a profile, once. Existing ones stay as they are.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile "${1:-main}"

# Hexadecimal, so that a secret needs no escaping in a URL, an SQL literal or an env file.
random_hex() { od -An -v -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }

# `postgres` is the superuser that only roles.sh uses; the others are the roles of deploy/postgres/roles.sql.
for name in postgres oncepay payment_core outbox_relay ledger_consumer ledger_service reconciler; do
  [[ -s $SECRETS/$name ]] || random_hex 24 | write_private "$SECRETS/$name"
done

# The keys with which the generic channel's two accounts sign.
for name in channel-main channel-second; do
  [[ -s $SECRETS/$name ]] || random_hex 32 | write_private "$SECRETS/$name"
done
