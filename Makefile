# One command for each thing worth doing. `make test` is the whole gate.

.PHONY: test tools lint unit postgres postgres-long redis redis-long model crash crash-long model-long contract contract-long overload overload-long slow slow-long release bench bench-core bench-http bench-peers

# Counts of the short forms. Lowering one needs a decision record.
MODEL_STEPS ?= 1000000
CRASH_RESTARTS ?= 200
CRASH_SERVERS ?= 30
CRASH_TASKS ?= 5000
POOLER_STEPS ?= 10000
CHURN_SECONDS ?= 42
CONTRACT_EXAMPLES ?= 10
# The same calls each time, so that a change is judged by itself; the long form makes others, and
# prints the seed with which they can be made again.
CONTRACT_SEED ?= 3
OVERLOAD_SECONDS ?= 2
OVERLOAD_ROUNDS ?= 3
SLOW_IDLE ?= 10000
SLOW_DRIPPING ?= 1000

# Where programs are built: the server as it is released, and what tests it from outside.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
TASKLANE = $(TARGET)/release/tasklane
# Programs of others that only tests use.
TOOLS = $(TARGET)/test-tools

test: tools lint unit postgres redis crash contract overload slow
	@echo "all tests passed"

# What the tests need beyond the Rust toolchain; installed once.
tools:
	@command -v curl >/dev/null || { apt-get update -qq && apt-get install -y -qq curl; }
	@command -v tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq tmux; }
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq postgresql; }
	@command -v pgbouncer >/dev/null || { apt-get update -qq && apt-get install -y -qq pgbouncer; }
	@command -v redis-server >/dev/null || { apt-get update -qq && apt-get install -y -qq redis-server; }
	@test -x $(TOOLS)/valkey-server || crates/tasklane-redis/tests/valkey $(TOOLS)
	@command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	cargo fetch --locked --quiet
	cargo deny --offline check licenses bans sources

unit:
	cargo test --workspace --all-features --locked

# The server's tests on PostgreSQL, the store's own behind a pooler, several servers that are killed,
# with their database, and tasks that come and go beside an open snapshot.
postgres: tools release
	TASKLANE_TEST_STORE=postgres cargo test --workspace --all-features --locked --test http
	TASKLANE_TEST_POOLER=yes TASKLANE_MODEL_STEPS=$(POOLER_STEPS) cargo test --workspace --all-features --locked --test postgres
	$(TARGET)/release/crash --store postgres --restarts $(CRASH_SERVERS) --tasks $(CRASH_TASKS)
	$(TARGET)/release/churn $(CHURN_SECONDS)

# The server's tests on Redis, and several servers that are killed, with their Redis.
redis: tools release
	TASKLANE_TEST_STORE=redis cargo test --workspace --all-features --locked --test http
	$(TARGET)/release/crash --store redis --restarts $(CRASH_SERVERS) --tasks $(CRASH_TASKS)

# Kills a real process under load, again and again, and checks what it had promised.
crash: release
	$(TARGET)/release/crash --restarts $(CRASH_RESTARTS)

# In one go, so that nothing is built twice.
release:
	cargo build --release --locked -p tasklane -p tasklane-proof

# Holds a real server to its OpenAPI document, with calls good and bad, alone and in sequence.
contract: release
	proof/contract/run $(TASKLANE) $(CONTRACT_EXAMPLES) $(CONTRACT_SEED)

# Offers a real server ten times what it can take, beside workers that go on.
overload: release
	$(TARGET)/release/overload $(TASKLANE) $(OVERLOAD_SECONDS) $(OVERLOAD_ROUNDS)

# Crowds a real server with clients that send nothing, or a byte a second.
slow: release
	proof/slow/run $(TASKLANE) $(SLOW_IDLE) $(SLOW_DRIPPING)

# Long forms: hours, not minutes.
contract-long:
	$(MAKE) contract CONTRACT_EXAMPLES=1000 CONTRACT_SEED=

overload-long:
	$(MAKE) overload OVERLOAD_SECONDS=60 OVERLOAD_ROUNDS=5

slow-long:
	$(MAKE) slow SLOW_IDLE=15000 SLOW_DRIPPING=3000

crash-long:
	$(MAKE) crash CRASH_RESTARTS=10000

postgres-long:
	$(MAKE) postgres CRASH_SERVERS=1000 CRASH_TASKS=200000 CHURN_SECONDS=600

redis-long:
	$(MAKE) redis CRASH_SERVERS=1000 CRASH_TASKS=200000

model-long:
	TASKLANE_MODEL_STEPS=100000000 cargo test --release --locked -p tasklane-sqlite --test store -- model::the_store_in_memory

bench:
	bench/run

bench-core:
	bench/core

bench-http:
	bench/http

bench-peers:
	bench/peers/run
