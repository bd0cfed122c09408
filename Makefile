# One command for each thing worth doing. `make test` is the whole gate, with the short form of every
# proof. A proof called by its own name, like `make crash`, is its long form: minutes to hours. With
# FORM=short it is the one of the gate. How much either does is in proof/counts.mk.

FORM ?= long
include proof/counts.mk
# The count of a proof in this form.
count = $($(1)_$(FORM))

# Where programs are built: the server as it is released, and what tests it from outside.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
TASKLANE = $(TARGET)/release/tasklane
PROOF = $(TARGET)/release/proof
# Programs of others that only tests use.
TOOLS = $(TARGET)/test-tools

.PHONY: test tools lint unit release postgres redis crash sim bite mutants faults net soak fuzz \
	contract overload slow bench bench-core bench-http bench-growth bench-peers

test: FORM = short
test: tools lint unit postgres redis crash faults net soak fuzz bite contract overload slow
	@echo "all tests passed"

# What the tests need beyond the Rust toolchain; installed once.
tools:
	@command -v curl >/dev/null || { apt-get update -qq && apt-get install -y -qq curl; }
	@command -v tmux >/dev/null || { apt-get update -qq && apt-get install -y -qq tmux; }
	@command -v ip >/dev/null || { apt-get update -qq && apt-get install -y -qq iproute2; }
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

# With the model test in its short form.
unit:
	cargo test --workspace --all-features --locked

# In one go, so that nothing is built twice.
release:
	cargo build --release --locked -p tasklane -p tasklane-proof

# The server's tests on PostgreSQL, the store's own behind a pooler, several servers that are killed,
# with their database, and tasks that come and go beside an open snapshot.
postgres: tools release
	TASKLANE_TEST_STORE=postgres cargo test --workspace --all-features --locked --test http
	TASKLANE_TEST_POOLER=yes TASKLANE_MODEL_STEPS=$(call count,POOLER_STEPS) cargo test --workspace --all-features --locked --test postgres
	$(PROOF) crash --store postgres --restarts $(call count,CRASH_SERVERS) --tasks $(call count,CRASH_TASKS)
	$(PROOF) churn $(call count,CHURN_SECONDS)

# The server's tests on Redis, and several servers that are killed, with their Redis.
redis: tools release
	TASKLANE_TEST_STORE=redis cargo test --workspace --all-features --locked --test http
	$(PROOF) crash --store redis --restarts $(call count,CRASH_SERVERS) --tasks $(call count,CRASH_TASKS)

# Kills what holds a store, stops workers beyond their leases, and repeats submissions while the server
# dies; then checks what was promised.
crash: release
	$(PROOF) crash --restarts $(call count,CRASH_RESTARTS)
	$(PROOF) crash zombie $(TASKLANE) --zombies $(call count,ZOMBIE_STOPS)
	$(PROOF) crash idempotency $(TASKLANE) --keys $(call count,IDEMPOTENCY_KEYS) \
		--duplicates $(call count,IDEMPOTENCY_DUPLICATES) --kills $(call count,IDEMPOTENCY_KILLS)

# Compares the embedded store with a naive model, step by step.
sim:
	proof/sim/run $(call count,SIM_STEPS)

# Puts bugs into a copy of the code, one at a time, each of which the ordinary tests must catch.
bite: tools release
	TASKLANE_VALKEY=$(TOOLS)/valkey-server $(PROOF) bite $(call count,BITE)

# Changes the core in every small way that it can be changed, and runs its tests on each.
mutants:
	@command -v cargo-mutants >/dev/null || cargo install --locked --quiet cargo-mutants
	cargo mutants --package tasklane-core --output $(TARGET)/mutants $(MUTANTS)

# Has the disk fail, fill up and lie, and damages files.
faults: release
	$(PROOF) faults --server $(TASKLANE) $(call count,FAULTS)

# Cuts the network between servers, store and workers.
net: tools release
	$(PROOF) net --store postgres --binary $(TASKLANE) $(call count,NET)
	$(PROOF) net --store redis --binary $(TASKLANE) $(call count,NET)

# Has tasks come and go, and looks whether anything grows.
soak: release
	$(PROOF) soak $(TASKLANE) $(call count,SOAK)

# Sends what nobody would send.
fuzz: release
	$(PROOF) fuzz --program $(TASKLANE) $(call count,FUZZ)

# Holds a real server to its OpenAPI document, with calls good and bad, alone and in sequence.
contract: release
	proof/contract/run $(TASKLANE) $(call count,CONTRACT_EXAMPLES) $(call count,CONTRACT_SEED)

# Offers a real server ten times what it can take, beside workers that go on.
overload: release
	$(PROOF) overload $(TASKLANE) $(call count,OVERLOAD_SECONDS) $(call count,OVERLOAD_ROUNDS)

# Crowds a real server with clients that send nothing, or a byte a second.
slow: release
	proof/slow/run $(TASKLANE) $(call count,SLOW_IDLE) $(call count,SLOW_DRIPPING)

# How fast it is. Results are kept in bench/results; to be run alone on the machine.
bench: bench-core bench-http bench-growth
	bench/run

bench-core:
	bench/core

bench-http:
	bench/http

bench-growth:
	bench/growth

bench-peers:
	bench/peers/run
