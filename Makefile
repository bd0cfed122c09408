# One command for each thing worth doing. `make test` is the whole gate.

.PHONY: test tools lint unit model crash crash-long model-long contract contract-long overload overload-long slow slow-long release bench bench-core bench-http

# Counts of the short forms. Lowering one needs a decision record.
MODEL_STEPS ?= 1000000
CRASH_RESTARTS ?= 200
CONTRACT_EXAMPLES ?= 10
# Other calls each time; a run prints its seed, with which it can be made again.
CONTRACT_SEED ?=
OVERLOAD_SECONDS ?= 2
OVERLOAD_ROUNDS ?= 3
SLOW_IDLE ?= 10000
SLOW_DRIPPING ?= 1000

# The server as it is released, for tests from outside.
TASKLANE = $(or $(CARGO_TARGET_DIR),target)/release/tasklane

test: tools lint unit crash contract
	@echo "all tests passed"

# What the tests need beyond the Rust toolchain; installed once.
tools:
	@command -v curl >/dev/null || { apt-get update -qq && apt-get install -y -qq curl; }
	@command -v tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq tmux; }
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq postgresql; }
	@command -v redis-server >/dev/null || { apt-get update -qq && apt-get install -y -qq redis-server; }
	@command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	cargo fetch --locked --quiet
	cargo deny --offline check licenses bans sources

unit:
	cargo test --workspace --all-features --locked

# Kills a real process under load, again and again, and checks what it had promised.
crash:
	cargo run --release --locked -p tasklane-proof --bin crash -- --restarts $(CRASH_RESTARTS)

release:
	cargo build --release --locked -p tasklane

# Holds a real server to its OpenAPI document, with calls good and bad, alone and in sequence.
contract: release
	proof/contract/run $(TASKLANE) $(CONTRACT_EXAMPLES) $(CONTRACT_SEED)

# Offers a real server ten times what it can take, beside workers that go on.
overload: release
	cargo run --release --locked --quiet -p tasklane-proof --bin overload -- $(TASKLANE) $(OVERLOAD_SECONDS) $(OVERLOAD_ROUNDS)

# Crowds a real server with clients that send nothing, or a byte a second.
slow: release
	proof/slow/run $(TASKLANE) $(SLOW_IDLE) $(SLOW_DRIPPING)

# Long forms: hours, not minutes.
contract-long:
	$(MAKE) contract CONTRACT_EXAMPLES=1000

overload-long:
	$(MAKE) overload OVERLOAD_SECONDS=60 OVERLOAD_ROUNDS=5

slow-long:
	$(MAKE) slow SLOW_IDLE=15000 SLOW_DRIPPING=3000

crash-long:
	$(MAKE) crash CRASH_RESTARTS=10000

model-long:
	TASKLANE_MODEL_STEPS=100000000 cargo test --release --locked -p tasklane-sqlite --test store -- model::the_store_in_memory

bench:
	bench/run

bench-core:
	bench/core

bench-http:
	bench/http
