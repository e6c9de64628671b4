#!/usr/bin/env bash
# Lets client libraries that no one here wrote judge us, and prints library by operation. Exit status 1 if any of them finds
# fault, or does not come to its end.
#
#   run.sh                            the libraries create, query, close and refund against the simulator, read its notices
#   run.sh sign <receiver> <facts>    the libraries sign notices about the payments of a JSON file and post them to a receiver
#   run.sh verify <folder>            the libraries verify recorded requests of ours
#   run.sh record <port> <folder> <address>   records what is sent to the port on its way to the address, until it is ended
#
# Keys of both sides are in the folder that INTEROP_KEYS names, as `channel-simulator keys` makes it. A fact is
# {"channel", "pay_no", "txn", "amount", "currency"}, of Stripe also "session"; its account is `main`.

set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

state=.local/interop
bin=${ONCEPAY_BIN_DIR:-${CARGO_TARGET_DIR:-target}/debug}
mkdir -p "$state"
state=$(cd "$state" && pwd)
results=$state/results.tsv
export KEYS=${INTEROP_KEYS:-$state/keys}

need() {
  command -v "$1" >/dev/null || { echo "error: $1 is missing: $2" >&2; exit 1; }
}

# --- libraries ------------------------------------------------------------------------------------------------------

# fresh <mark> <file …>: whether what was made from these files is still what they say.
fresh() {
  local mark=$1
  shift
  [[ -f $mark && $(cat "$mark") == "$(sha256sum "$@")" ]]
}

prepare_java() {
  need mvn "apt-get install maven"
  need javac "apt-get install default-jdk-headless"
  if ! fresh "$state/java.mark" interop/java/*; then
    rm -rf "$state/java"
    mkdir -p "$state/java/classes"
    mvn --batch-mode --quiet --file interop/java/pom.xml dependency:copy-dependencies \
      "-DoutputDirectory=$state/java/lib"
    javac -Xlint:-options -nowarn -d "$state/java/classes" -cp "$state/java/lib/*" interop/java/*.java 2>"$state/javac.log" ||
      { cat "$state/javac.log" >&2; return 1; }
    sha256sum interop/java/* >"$state/java.mark"
  fi
}

prepare_python() {
  need python3 "apt-get install python3-venv"
  if ! fresh "$state/python.mark" interop/python/requirements.txt; then
    rm -rf "$state/python"
    python3 -m venv "$state/python"
    "$state/python/bin/pip" install --quiet --disable-pip-version-check --requirement interop/python/requirements.txt
    sha256sum interop/python/requirements.txt >"$state/python.mark"
  fi
}

prepare_js() {
  need npm "apt-get install npm"
  if ! fresh "$state/js.mark" interop/js/*; then
    rm -rf "$state/js"
    mkdir -p "$state/js"
    cp interop/js/* "$state/js"
    (cd "$state/js" && npm ci --silent --ignore-scripts --no-audit --no-fund)
    sha256sum interop/js/* >"$state/js.mark"
  fi
}

# --- judging --------------------------------------------------------------------------------------------------------

# judge <name> <command …>: runs one program; a program that ends badly is a fault like any other.
judge() {
  local name=$1
  shift
  if ! timeout 300 "$@" >"$state/$name.log" 2>"$state/$name.err"; then
    printf 'RESULT\t%s\tprogram\tFAIL\tended badly; see %s\n' "$name" "$state/$name.err" >>"$state/$name.log"
  fi
  grep '^RESULT' "$state/$name.log" >>"$results" || printf 'RESULT\t%s\tprogram\tFAIL\ttold nothing\n' "$name" >>"$results"
}

java_judge() {
  judge "java-$1-$2" java -Dslf4j.internal.verbosity=ERROR -cp "$state/java/classes:$state/java/lib/*" Main "$@"
}

python_judge() {
  judge "python-$1-$2" "$state/python/bin/python" interop/python/judge.py "$@"
}

js_judge() {
  judge "js-$1-$2" node "$state/js/judge.mjs" "$@"
}

# The table, what failed, and the sum.
report() {
  awk -F'\t' '
    { if (!($2 in seen)) { seen[$2] = 1; libraries[++n] = $2 }
      if (!($3 in known)) { known[$3] = 1; operations[++m] = $3 }
      cell[$2, $3] = $4
      if ($4 == "ok") passed++; else { failed++; faults = faults sprintf("  %s, %s: %s\n", $2, $3, $5) } }
    END {
      if (m > 12) for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) {
        if ((libraries[i], operations[j]) in cell) printf "%-36s %-60s %s\n", libraries[i], operations[j], cell[libraries[i], operations[j]]
      } else {
        printf "%-36s", ""; for (j = 1; j <= m; j++) printf " %-12s", operations[j]; print ""
        for (i = 1; i <= n; i++) {
          printf "%-36s", libraries[i]
          for (j = 1; j <= m; j++) printf " %-12s", ((libraries[i], operations[j]) in cell) ? cell[libraries[i], operations[j]] : "-"
          print ""
        }
      }
      if (faults != "") printf "\n%s", faults
      printf "\n%d passed, %d failed\n", passed, failed
      exit failed > 0 || passed == 0
    }' "$results"
}

# --- modes ----------------------------------------------------------------------------------------------------------

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# await <address>: until it is listened on; half a minute at most.
await() {
  for _ in $(seq 300); do
    if curl --silent --noproxy '*' --output /dev/null "$1"; then return 0; fi
    sleep 0.1
  done
  echo "error: nothing listens on $1" >&2
  return 1
}

children=()
end_children() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
}

drive() {
  need curl "apt-get install curl"
  [[ -x $bin/channel-simulator ]] || { echo "error: $bin/channel-simulator is missing: make build" >&2; exit 1; }
  local port receiver
  port=$(free_port) receiver=$(free_port)
  export SIMULATOR_URL=http://127.0.0.1:$port RECEIVER_URL=http://127.0.0.1:$receiver RECORDED=$state/recorded
  rm -rf "$RECORDED"
  mkdir -p "$RECORDED"
  "$bin/channel-simulator" keys "$KEYS" --simulator-url "$SIMULATOR_URL" --receiver-url "$RECEIVER_URL"
  trap end_children EXIT
  python3 interop/python/receiver.py "$receiver" "$RECORDED" &
  children+=($!)
  env "ONCEPAY_CHANNEL_SIMULATOR__LISTEN=127.0.0.1:$port" ONCEPAY_CHANNEL_SIMULATOR__ADMIN_LISTEN=127.0.0.1:0 \
    "ONCEPAY_CHANNEL_SIMULATOR__CHANNELS_FILE=$KEYS/channels.toml" \
    "ONCEPAY_CHANNEL_SIMULATOR__KEYS_FILE=$KEYS/simulator.toml" \
    "$bin/channel-simulator" >"$state/simulator.log" 2>&1 &
  children+=($!)
  await "$SIMULATOR_URL/control/book?orders=false"
  await "$RECEIVER_URL/"
  for channel in alipay wechatpay stripe; do
    java_judge "$channel" drive
    python_judge "$channel" drive
  done
  js_judge alipay drive
  js_judge stripe drive
}

sign() {
  export RECEIVER_URL=$1 SIMULATOR_URL=http://127.0.0.1:1 RECORDED=$state
  local facts=$2
  for channel in alipay wechatpay stripe; do
    if grep -q "\"$channel\"" "$facts"; then
      java_judge "$channel" sign "$facts"
      python_judge "$channel" sign "$facts"
    fi
  done
  if grep -q '"stripe"' "$facts"; then js_judge stripe sign "$facts"; fi
}

verify() {
  export RECEIVER_URL=http://127.0.0.1:1 SIMULATOR_URL=http://127.0.0.1:1 RECORDED=$1
  java_judge alipay verify "$1"
  python_judge alipay verify "$1"
  java_judge wechatpay verify "$1"
}

: >"$results"
case ${1:-drive} in
  drive) prepare_java; prepare_python; prepare_js; drive; report ;;
  sign) prepare_java; prepare_python; prepare_js; sign "$2" "$3"; report ;;
  verify) prepare_java; prepare_python; verify "$2"; report ;;
  record) mkdir -p "$3"; exec python3 interop/python/receiver.py "$2" "$3" "$4" ;;
  *) sed -n '2,13p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
