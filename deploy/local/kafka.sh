#!/usr/bin/env bash
# kafka.sh {prepare|start|stop} [main|test]: the profile's own Apache Kafka, one node, no ZooKeeper.
# `prepare` only makes sure that it could be started: Java, and Kafka's jars.
# `start` and `stop` are also how the demo takes the broker away in its middle.

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$LOCAL_DIR/tools.sh"
use_profile "${2:-main}"
choose_engine

DIR=$STATE/kafka
CONFIG=$DIR/server.properties
PID_FILE=$RUN_DIR/$PROFILE-kafka.pid
LOG=$(part_log kafka)
POM=$LOCAL_DIR/kafka/pom.xml
# Shared by the profiles: 45 MB of jars are needed once.
JARS=$STATE_ROOT/kafka-lib

jars_are_current() { [[ -f $JARS/pom.sha256 && $(<"$JARS/pom.sha256") == "$(sha256sum <"$POM")" ]]; }

# Resolved by Maven from the committed pom, and only when it changed. The folder appears when it is complete.
fetch_jars() {
  jars_are_current && return
  need mvn "apt-get install maven"
  local fresh=$JARS.new log=$LOG_DIR/maven.log
  say "kafka: fetching the jars named in deploy/local/kafka/pom.xml (once)"
  rm -rf "$fresh"
  if ! run_maven "$fresh" >"$log" 2>&1 && ! run_maven_with_system_trust "$fresh" >>"$log" 2>&1; then
    die "Maven could not fetch Kafka's jars: $(explain "$log") (log: $log)"
  fi
  sha256sum <"$POM" >"$fresh/pom.sha256"
  rm -rf "$JARS"
  mv "$fresh" "$JARS"
}

# -U: a failed try is remembered for a day otherwise, and the second try here would not be one.
run_maven() {
  mvn -q -B -U -f "$POM" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$1"
}

# Java has its own list of trusted authorities, made when it was installed. An authority that was added to the machine's
# list by hand, say a company's proxy, is unknown to it, and Maven fails where every other program works. So try once
# more with a list that has both. False if there is nothing to add.
run_maven_with_system_trust() {
  local scratch certificate added=false java_home status=0
  scratch=$(mktemp -d) # not below .local: MAVEN_OPTS is split at spaces, which a clone's path may have
  java_home=$(readlink -f "$(command -v "$JAVA")")
  java_home=${java_home%/bin/java}
  cp -L "$java_home/lib/security/cacerts" "$scratch/trust"
  for certificate in /etc/ssl/certs/*.pem; do
    # The distribution's own are links into its package, and Java has them.
    if [[ $(readlink -f "$certificate") == /usr/share/ca-certificates/* ]]; then continue; fi
    if "$java_home/bin/keytool" -importcert -noprompt -keystore "$scratch/trust" -storepass changeit \
      -alias "oncepay-${certificate##*/}" -file "$certificate"; then added=true; fi
  done
  if $added; then
    MAVEN_OPTS="${MAVEN_OPTS:-} -Djavax.net.ssl.trustStore=$scratch/trust -Djavax.net.ssl.trustStorePassword=changeit" \
      run_maven "$1" || status=1
  else
    status=1
  fi
  rm -rf "$scratch"
  return "$status"
}

prepare() {
  find_java
  (
    lock kafka-lib # both profiles may start at once
    fetch_jars
  )
}

# What the profiles share is committed; addresses and folders are added here.
write_config() {
  local listeners="PLAINTEXT://127.0.0.1:$KAFKA_PORT" advertised="PLAINTEXT://127.0.0.1:$KAFKA_PORT"
  if [[ $PROFILE == test ]]; then
    listeners+=",PROXIED://127.0.0.1:$KAFKA_PROXIED_PORT"
    advertised+=",PROXIED://127.0.0.1:$KAFKA_PROXY_PORT"
  fi
  mkdir -p "$DIR"
  {
    cat "$LOCAL_DIR/kafka/server.properties"
    printf '%s\n' "" "# Added by kafka.sh." \
      "listeners=$listeners,CONTROLLER://127.0.0.1:$KAFKA_CONTROLLER_PORT" \
      "advertised.listeners=$advertised" \
      "controller.quorum.voters=1@127.0.0.1:$KAFKA_CONTROLLER_PORT" \
      "log.dirs=$DIR/data"
  } | write_private "$CONFIG"
}

# A cluster id is 16 random bytes in URL-safe base 64. It must not begin with a dash, which would read as an option.
cluster_id() {
  local id
  until id=$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=') && [[ $id != -* ]]; do :; done
  printf '%s' "$id"
}

format_storage() {
  [[ -f $DIR/data/meta.properties ]] && return
  jvm kafka.tools.StorageTool format --ignore-formatted -t "$(cluster_id)" -c "$CONFIG" >>"$LOG" 2>&1 ||
    die "Kafka's storage could not be formatted: $(explain "$LOG") (log: $LOG)"
}

# Small and quick to start, for a laptop; a benchmark sets ONCEPAY_KAFKA_JVM to something without the compiler limit.
# Kafka's talk goes to stderr, and from there to the log file; at `warn` what is left is worth reading.
jvm_options() {
  local options
  read -ra options <<<"${ONCEPAY_KAFKA_JVM:--Xms256m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1}"
  options+=(-Djava.awt.headless=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn)
  options+=(-Dorg.slf4j.simpleLogger.showDateTime=true "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ")
  JVM=("$JAVA" "${options[@]}" -cp "$JARS/*")
}

jvm() { "${JVM[@]}" "$@"; }

start() {
  local began=$EPOCHREALTIME
  if alive "$PID_FILE" "$CONFIG"; then
    wait_ready 60 kafka "$PID_FILE" "$CONFIG" "$LOG" kafka_ok "$KAFKA_PORT"
    say "kafka: already up on 127.0.0.1:$KAFKA_PORT"
    return
  fi
  prepare
  jvm_options
  port_free "$KAFKA_PORT" "Kafka, profile $PROFILE" "${PORT_PREFIX}_KAFKA_PORT"
  port_free "$KAFKA_CONTROLLER_PORT" "Kafka's controller, profile $PROFILE" "${PORT_PREFIX}_KAFKA_CONTROLLER_PORT"
  if [[ $PROFILE == test ]]; then
    port_free "$KAFKA_PROXIED_PORT" "Kafka's proxied listener" "${PORT_PREFIX}_KAFKA_PROXIED_PORT"
  fi
  write_config
  format_storage
  spawn "$PID_FILE" "$LOG" "$CONFIG" "${JVM[@]}" kafka.Kafka "$CONFIG"
  wait_ready 90 kafka "$PID_FILE" "$CONFIG" "$LOG" kafka_ok "$KAFKA_PORT"
  say "kafka: up on 127.0.0.1:$KAFKA_PORT ($(elapsed "$began") s)"
}

stop() { stop_process kafka "$PID_FILE" "$CONFIG" TERM 30; }

start_container() {
  compose up -d --wait kafka
  wait_for_broker
  say "kafka: up on 127.0.0.1:$KAFKA_PORT"
}

wait_for_broker() {
  local deadline=$((SECONDS + 90))
  until kafka_ok "$KAFKA_PORT"; do
    ((SECONDS < deadline)) || die "kafka was not ready after 90 s: docker compose logs kafka"
    sleep 0.2
  done
}

stop_container() {
  compose stop kafka
  say "kafka: stopped"
}

case ${1:-} in
  prepare) [[ $ENGINE == compose ]] || prepare ;;
  start | stop)
    lock "$PROFILE-kafka"
    if [[ $ENGINE == compose ]]; then "$1_container"; else "$1"; fi
    ;;
  *) die "usage: kafka.sh {prepare|start|stop} [main|test]" ;;
esac
