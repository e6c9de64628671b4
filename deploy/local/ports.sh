# shellcheck shell=bash disable=SC2034
# Every port and service of the local stack, in one place. Sourced by lib.sh once the profile is known.
# All of them are on 127.0.0.1, and below 32768, where Linux begins to hand out ports to outgoing connections: a port
# above would now and then be taken by somebody's client, or by a client of the port itself that connects to itself
# while the server is down, and the server could not come back.
# (`declare -g`, because lib.sh sources this inside a function.)

declare -gA REMEMBERED=()
if [[ -f $STATE/ports ]]; then
  while IFS='=' read -r name value; do REMEMBERED[$name]=$value; done <"$STATE/ports"
fi

# Names of the variables that `remember_ports` saves.
PORT_VARIABLES=()

# set_port <name here> <variable a person may set> <default>: the person's word, else what the last `up` of this
# profile used (so that `ONCEPAY_PG_PORT=5555 make up` needs no repetition in `make down`), else the default.
set_port() {
  local -n target=$1
  target=${!2:-${REMEMBERED[$2]:-$3}}
  [[ $target =~ ^[0-9]{4,5}$ ]] && ((target >= 1024 && target <= 65000)) || die "$2 is '$target': a port from 1024 to 65000 is needed"
  printf -v "$2" '%s' "$target"
  PORT_VARIABLES+=("$2")
}

remember_ports() {
  local variable
  for variable in "${PORT_VARIABLES[@]}"; do printf '%s=%s\n' "$variable" "${!variable}"; done | write_private "$STATE/ports"
}

case $PROFILE in
  main)
    PORT_PREFIX=ONCEPAY
    set_port PG_PORT ONCEPAY_PG_PORT 25432
    set_port REDIS_PORT ONCEPAY_REDIS_PORT 26379
    set_port KAFKA_PORT ONCEPAY_KAFKA_PORT 29092
    set_port KAFKA_CONTROLLER_PORT ONCEPAY_KAFKA_CONTROLLER_PORT 29093
    ;;
  test)
    PORT_PREFIX=ONCEPAY_TEST
    set_port PG_PORT ONCEPAY_TEST_PG_PORT 15432
    set_port REDIS_PORT ONCEPAY_TEST_REDIS_PORT 16379
    set_port KAFKA_PORT ONCEPAY_TEST_KAFKA_PORT 19092
    set_port KAFKA_CONTROLLER_PORT ONCEPAY_TEST_KAFKA_CONTROLLER_PORT 19093
    # A second listener whose advertised address is somebody else's: a test puts a TCP proxy there and cuts the line.
    set_port KAFKA_PROXIED_PORT ONCEPAY_TEST_KAFKA_PROXIED_PORT 19094
    set_port KAFKA_PROXY_PORT ONCEPAY_TEST_KAFKA_PROXY_PORT 19095
    ;;
esac

# Services stand at fixed distances from one base, so that one variable moves them all.
set_port SERVICE_PORT_BASE ONCEPAY_SERVICE_PORT_BASE 27000

# In the order in which they are started. A service without a port has only its admin port.
SERVICES=(channel-simulator payment-core ledger-service outbox-relay ledger-consumer order-api callback-receiver)

declare -gA SERVICE_PORT=(
  [order-api]=$((SERVICE_PORT_BASE + 1))
  [payment-core]=$((SERVICE_PORT_BASE + 2))
  [callback-receiver]=$((SERVICE_PORT_BASE + 3))
  [ledger-service]=$((SERVICE_PORT_BASE + 4))
  [channel-simulator]=$((SERVICE_PORT_BASE + 5))
)

declare -gA ADMIN_PORT=(
  [order-api]=$((SERVICE_PORT_BASE + 101))
  [payment-core]=$((SERVICE_PORT_BASE + 102))
  [callback-receiver]=$((SERVICE_PORT_BASE + 103))
  [ledger-service]=$((SERVICE_PORT_BASE + 104))
  [channel-simulator]=$((SERVICE_PORT_BASE + 105))
  [outbox-relay]=$((SERVICE_PORT_BASE + 106))
  [ledger-consumer]=$((SERVICE_PORT_BASE + 107))
)
