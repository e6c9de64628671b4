#!/usr/bin/env bash
# settings.sh [main|test]: write what services and people read: the env file, the channel accounts and, where the stack
# runs in containers, the variables of docker-compose.yml. Written anew by each `up`; nothing here is kept by hand.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_profile "${1:-main}"
choose_engine

# ONCEPAY_KAFKA_ABSENT=1 is how up.sh says that it goes on without a broker.
KAFKA=127.0.0.1:$KAFKA_PORT
CHANNELS_FILE=$STATE/channels.toml

# set_to <variable> <value>
set_to() { printf 'export %s=%q\n' "$1" "$2"; }

pg_url() { printf 'postgres://%s:%s@127.0.0.1:%s/%s' "$1" "$(secret "$1")" "$PG_PORT" "$2"; }

service_url() { printf 'http://127.0.0.1:%s' "${SERVICE_PORT[$1]}"; }

kafka_brokers() {
  if [[ -n ${ONCEPAY_KAFKA_ABSENT:-} ]]; then
    echo "# No Kafka could be had. Whoever hosts a broker (the demo does) sets its address before this file is read."
    keep_or_set KAFKA_BROKERS ""
  else
    set_to KAFKA_BROKERS "$KAFKA"
  fi
}

# keep_or_set <variable> <value, expanded by the reader of the file>: what the reader's caller said wins.
keep_or_set() { printf 'export %s="${%s:-%s}"\n' "$1" "$1" "$2"; }

addresses() {
  echo "# Addresses of the $PROFILE stack, written by deploy/local/up.sh. Use: . ${ENV_FILE#"$ROOT/"}"
  echo "# The two database addresses are the owner's: for people, migrations and audits, never for a service."
  set_to PAYMENT_DATABASE_URL "$(pg_url oncepay payment)"
  set_to LEDGER_DATABASE_URL "$(pg_url oncepay ledger)"
  set_to REDIS_URL "redis://127.0.0.1:$REDIS_PORT"
  kafka_brokers
  set_to ORDER_API_URL "$(service_url order-api)"
  set_to PAYMENT_CORE_URL "$(service_url payment-core)"
  set_to CALLBACK_URL "$(service_url callback-receiver)"
  set_to LEDGER_SERVICE_URL "$(service_url ledger-service)"
  set_to SIMULATOR_URL "$(service_url channel-simulator)"
}

test_addresses() {
  echo
  echo "# For tests. The owner may create databases: each test makes its own from here."
  set_to TEST_DATABASE_URL "$(pg_url oncepay postgres)"
  echo "# The broker behind a proxy: a test listens on KAFKA_PROXY_LISTEN, forwards to KAFKA_PROXY_UPSTREAM, and cuts."
  set_to KAFKA_PROXIED_BROKERS "127.0.0.1:$KAFKA_PROXY_PORT"
  set_to KAFKA_PROXY_LISTEN "127.0.0.1:$KAFKA_PROXY_PORT"
  set_to KAFKA_PROXY_UPSTREAM "127.0.0.1:$KAFKA_PROXIED_PORT"
}

# ONCEPAY_<SERVICE>__<FIELD>; services.sh hands each service only its own.
service_settings() {
  local service upper
  echo
  echo "# Settings of the services."
  for service in PAYMENT_CORE CALLBACK_RECEIVER CHANNEL_SIMULATOR; do
    set_to "ONCEPAY_${service}__CHANNELS_FILE" "$CHANNELS_FILE"
  done
  for service in "${SERVICES[@]}"; do
    upper=${service//-/_}
    upper=${upper^^}
    if [[ -v SERVICE_PORT[$service] ]]; then
      set_to "ONCEPAY_${upper}__LISTEN" "127.0.0.1:${SERVICE_PORT[$service]}"
    fi
    set_to "ONCEPAY_${upper}__ADMIN_LISTEN" "127.0.0.1:${ADMIN_PORT[$service]}"
  done
  set_to ONCEPAY_PAYMENT_CORE__DATABASE_URL "$(pg_url payment_core payment)"
  set_to ONCEPAY_OUTBOX_RELAY__DATABASE_URL "$(pg_url outbox_relay payment)"
  set_to ONCEPAY_LEDGER_CONSUMER__DATABASE_URL "$(pg_url ledger_consumer ledger)"
  set_to ONCEPAY_LEDGER_SERVICE__DATABASE_URL "$(pg_url ledger_service ledger)"
  set_to ONCEPAY_ORDER_API__REDIS_URL "redis://127.0.0.1:$REDIS_PORT"
  set_to ONCEPAY_ORDER_API__PAYMENT_CORE_URL "$(service_url payment-core)"
  set_to ONCEPAY_CALLBACK_RECEIVER__PAYMENT_CORE_URL "$(service_url payment-core)"
  for service in OUTBOX_RELAY LEDGER_CONSUMER; do
    if [[ -n ${ONCEPAY_KAFKA_ABSENT:-} ]]; then
      keep_or_set "ONCEPAY_${service}__KAFKA_BROKERS" '$KAFKA_BROKERS'
    else
      set_to "ONCEPAY_${service}__KAFKA_BROKERS" "$KAFKA"
    fi
  done
}

# channels <simulator host:port> <receiver host:port>
channels() {
  account "$1" "$2" main k1 channel-main
  echo
  account "$1" "$2" second s1 channel-second
}

account() {
  cat <<TOML
[[account]]
channel = "generic"
account = "$3"
base_url = "http://$1"
notify_url = "http://$2/v1/callbacks/generic/$3"
current_key_id = "$4"
[[account.key]]
key_id = "$4"
secret = "$(secret "$5")"
TOML
}

# What docker-compose.yml interpolates. Passwords are here and not there.
compose_variables() {
  local name service upper
  echo "COMPOSE_PROJECT_NAME=$(compose_project)"
  echo "PG_PORT=$PG_PORT"
  echo "REDIS_PORT=$REDIS_PORT"
  echo "KAFKA_PORT=$KAFKA_PORT"
  if [[ $PROFILE == test ]]; then
    echo "KAFKA_PROXIED_PORT=$KAFKA_PROXIED_PORT"
    echo "KAFKA_PROXY_PORT=$KAFKA_PROXY_PORT"
  fi
  for service in "${SERVICES[@]}"; do
    upper=${service//-/_}
    upper=${upper^^}
    if [[ -v SERVICE_PORT[$service] ]]; then echo "${upper}_PORT=${SERVICE_PORT[$service]}"; fi
    echo "${upper}_ADMIN_PORT=${ADMIN_PORT[$service]}"
  done
  for name in postgres oncepay payment_core outbox_relay ledger_consumer ledger_service reconciler; do
    echo "PASSWORD_${name^^}=$(secret "$name")"
  done
}

# First the whole text, then the file: a failure half way must not leave half a file.
settings=$(
  addresses
  if [[ $PROFILE == test ]]; then test_addresses; fi
  service_settings
)
write_private "$ENV_FILE" <<<"$settings"

channels "127.0.0.1:${SERVICE_PORT[channel-simulator]}" "127.0.0.1:${SERVICE_PORT[callback-receiver]}" |
  write_private "$CHANNELS_FILE"

if [[ $ENGINE == compose ]]; then
  compose_variables | write_private "$STATE/compose.env"
  # Inside the containers' network services have names. The image's user is not ours, so the file itself is readable;
  # the folder around it is not, so on this machine only we can reach it.
  mkdir -p "$STATE/compose"
  channels "channel-simulator:${SERVICE_PORT[channel-simulator]}" "callback-receiver:${SERVICE_PORT[callback-receiver]}" |
    write_private "$STATE/compose/channels.toml"
  chmod 644 "$STATE/compose/channels.toml"
fi
