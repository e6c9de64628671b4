# shellcheck shell=bash disable=SC2034
# Finding the programs of the native stack. Sourced, never run.

# find_postgres [data folder]: sets PG_BIN. Debian keeps each major version's programs in a folder of its own, outside
# of PATH. Existing data decides the version, because no other one can read it.
find_postgres() {
  local wanted='' candidate
  if [[ -n ${1:-} && -r $1/PG_VERSION ]]; then wanted=$(<"$1/PG_VERSION"); fi
  PG_BIN=${ONCEPAY_PG_BIN:-}
  if [[ -z $PG_BIN ]]; then
    # The glob must expand, so it is not quoted; the newest version comes last.
    # shellcheck disable=SC2086
    while IFS= read -r candidate; do
      if [[ -x $candidate/initdb && -x $candidate/psql ]]; then PG_BIN=$candidate; fi
    done < <(printf '%s\n' /usr/lib/postgresql/${wanted:-*}/bin | sort -V)
  fi
  if [[ -z $PG_BIN ]] && command -v initdb >/dev/null 2>&1; then PG_BIN=$(dirname "$(readlink -f "$(command -v initdb)")"); fi
  [[ -n $PG_BIN && -x $PG_BIN/initdb ]] ||
    die "PostgreSQL${wanted:+ $wanted} is missing: apt-get install postgresql${wanted:+-$wanted}, or set ONCEPAY_PG_BIN"
}

find_redis() { need redis-server "apt-get install redis-server"; }

# find_java: sets JAVA. Kafka 4 needs 17 or later.
find_java() {
  JAVA=${JAVA_HOME:+$JAVA_HOME/bin/}java
  command -v "$JAVA" >/dev/null 2>&1 || die "java is missing: apt-get install default-jre-headless"
  local version
  version=$("$JAVA" -version 2>&1 | head -n 1)
  [[ $version =~ \"([0-9]+) ]] && ((BASH_REMATCH[1] >= 17)) || die "Kafka needs Java 17 or later, found: $version"
}

# elapsed <EPOCHREALTIME of the beginning>: seconds since then, with one decimal.
elapsed() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }'; }
