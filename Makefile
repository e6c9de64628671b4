# The commands of this repository. What they do is in deploy/local/*.sh; here is only which, and in which order.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The targets are steps of one machine's life; run side by side they would stop each other's processes.
.NOTPARALLEL:

# The same for every build: cargo unites features over the packages that are selected, so another selection would
# build half of the dependencies again.
CARGO_FLAGS := --workspace --locked
BIN := $(or $(ONCEPAY_BIN_DIR),$(or $(CARGO_TARGET_DIR),target)/debug)

# Queries are checked against the committed descriptions, whatever database is at hand.
export SQLX_OFFLINE := true

##@ Run it

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo

.PHONY: demo
demo: build ## one command from a fresh clone: pay through storms and crashes, then audit every number
	@deploy/local/demo.sh $(ARGS)

.PHONY: up
up: build ## start PostgreSQL, Redis, Kafka and all services; print their addresses
	@deploy/local/up.sh main
	@deploy/local/services.sh start

.PHONY: down
down: ## stop all services and the stack; the data stays
	@deploy/local/services.sh stop
	@deploy/local/down.sh main

.PHONY: reset
reset: ## stop, and throw the data and passwords away
	@deploy/local/reset.sh main

.PHONY: migrate
migrate: build ## bring the databases of the running stack to the newest schema
	@deploy/local/migrate.sh main

.PHONY: run
run: build ## all services in one process, in the foreground, on the stack of `make up`
	@deploy/local/up.sh main
	@deploy/local/services.sh stop
	@deploy/local/migrate.sh main
	@source .local/env && exec $(BIN)/oncepay up

.PHONY: bench
bench: need-rust ## payments a second beside the same rows by pgbench, in release mode; ARGS="--seconds 30"
	@cargo build $(CARGO_FLAGS) --release
	@ONCEPAY_BIN_DIR=$(or $(CARGO_TARGET_DIR),target)/release deploy/local/bench.sh $(ARGS)

##@ Prove it

.PHONY: gates
gates: build ## switch each gate off in turn, and print what then goes wrong (about a minute)
	@deploy/local/prove.sh gates

.PHONY: chaos
chaos: build ## break lines and kill processes under load: SEED=… MINUTES=…; ARGS="--kill-points --rounds 20"
	@deploy/local/prove.sh chaos $(if $(SEED),--seed $(SEED)) --seconds $$(($(or $(MINUTES),1) * 60)) $(ARGS)

.PHONY: interop
interop: build ## let client libraries that no one here wrote judge us (needs Java with Maven, Python and npm)
	@interop/run.sh

##@ Change it

.PHONY: build
build: need-rust ## compile everything
	@cargo build $(CARGO_FLAGS)

.PHONY: fmt
fmt: need-rust ## format the code
	@cargo fmt --all

.PHONY: lint
lint: need-rust ## clippy over all targets, warnings denied
	@cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings

.PHONY: test
test: need-rust ## everything that tests need, then all tests; their stack stays up (CI=true: is stopped)
	@deploy/local/test.sh $(ARGS)

.PHONY: test-down
test-down: ## stop the stack that `make test` left running
	@deploy/local/down.sh test

.PHONY: test-reset
test-reset: ## stop the stack of the tests and throw it away
	@deploy/local/reset.sh test

# xtask is built alone: it must work when the rest does not compile.
.PHONY: tidy
tidy: need-rust ## check the rules that the compiler does not: layers, sizes, names
	@cargo run --locked --quiet --package xtask -- tidy

.PHONY: sqlx-prepare
sqlx-prepare: need-rust ## describe the checked queries anew, against the test stack
	@deploy/local/up.sh test
	@source .local/test/env && SQLX_OFFLINE=false cargo run --locked --quiet --package xtask -- sqlx-prepare

.PHONY: docs
docs: need-rust ## build the documentation of all crates, warnings denied
	@RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --no-deps

.PHONY: verify
verify: ## all that the continuous integration runs, in its order
	@.ci/run

.PHONY: need-rust
need-rust:
	@command -v cargo >/dev/null || { echo "error: cargo is missing: install Rust with rustup (1.95 or later)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "error: a C compiler is missing: apt-get install build-essential" >&2; exit 1; }
