# One command for each thing worth doing. `make test` is the whole gate, with the short form of every
# proof. A proof called by its own name, like `make crash`, is its long form: minutes to hours. With
# FORM=short it is the one of the gate. How much either does is in proof/counts.mk.
#
# SEED=… repeats a run, where a proof has one seed for all. STORE=postgres or STORE=redis is what
# `make crash`, `make sim` and `make soak` are about, instead of the embedded store. What they found is
# kept in target/reports, and what is worth keeping in the repository.
#
# Programs end with 0 where all is well, with 1 where something is broken, and with 2 where it could not be
# tried. make itself ends with 2 for either, and prints which it was: "Error 1" or "Error 2".

FORM ?= long
include proof/counts.mk
# The count of a proof in this form.
count = $($(1)_$(FORM))
# What is said to scripts that know one other form.
short = $(filter short,$(FORM))
# What was asked for beside it. The last seed counts.
seed = $(if $(SEED),--seed $(SEED))
store = $(if $(STORE),--store $(STORE))

# Where programs are built: the server as it is released, and what tests it from outside.
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
TASKLANE = $(TARGET)/release/tasklane
PROOF = $(TARGET)/release/proof
# Programs of others that only tests use.
TOOLS = $(TARGET)/test-tools
# What runs found, as JSON.
REPORTS = $(TARGET)/reports
report = --report $(REPORTS)/$(1).json

.PHONY: test tools lint unit release postgres redis failover crash sim bite mutants faults net soak fuzz \
	contract overload slow bench bench-core bench-http bench-growth bench-peers

test: FORM = short
test: tools lint unit postgres redis crash faults net soak fuzz bite contract overload slow bench
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
	cargo build --release --locked -p tasklane -p tasklane-proof -p tasklane-bench
	@mkdir -p $(REPORTS)

# The server's tests on PostgreSQL, the store's own behind a pooler, several servers that are killed,
# with their database, and tasks that come and go beside an open snapshot.
postgres: tools release
	TASKLANE_TEST_STORE=postgres cargo test --workspace --all-features --locked --test http
	TASKLANE_TEST_POOLER=yes TASKLANE_MODEL_STEPS=$(call count,POOLER_STEPS) cargo test --workspace --all-features --locked --test postgres
	proof/parts crash $(call crash_shared,postgres)
	$(PROOF) churn $(call count,CHURN_SECONDS)

# The server's tests on Redis, and several servers that are killed, with their Redis.
redis: tools release
	TASKLANE_TEST_STORE=redis cargo test --workspace --all-features --locked --test http
	proof/parts crash $(call crash_shared,redis)

# Kills primaries under load, and counts what was acknowledged and lost: of PostgreSQL with a synchronous
# standby, of Redis with replicas of which two, one or none confirm.
failover: tools
	proof/parts failover $(foreach kind,postgres 2 1 0,"$(call failover_of,$(kind))")

failover-%: tools
	$(call failover_of,$*)

# With an argument that is postgres, or a number of replicas.
failover_of = $(if $(filter postgres,$(1)),$(call failover_postgres,$(1)),$(call failover_redis,$(1)))
failover_postgres = env TASKLANE_FAILOVERS=$(call count,FAILOVERS_$(1)) proof/test failover \
	'$(call count,FAILOVERS_$(1)) primaries of PostgreSQL killed' tasklane-postgres postgres \
	failover::what_was_acknowledged_outlives_every_failover_to_a_synchronous_standby
failover_redis = env TASKLANE_FAILOVERS=$(call count,FAILOVERS_$(1)) TASKLANE_REPLICAS=$(1) proof/test failover \
	'$(call count,FAILOVERS_$(1)) primaries of Redis killed, $(1) replicas confirm' tasklane-redis store \
	sentinel::what_all_replicas_have_confirmed_survives_primaries_that_are_killed

# Kills what holds a store, stops workers beyond their leases, and repeats submissions while the server
# dies; then checks what was promised, and how soon a store with many tasks is ready again.
crash: tools release
	proof/parts crash $(if $(filter postgres redis,$(STORE)),$(call crash_shared,$(STORE)),$(crash_embedded))

crash_embedded = \
	"$(PROOF) crash --restarts $(call count,CRASH_RESTARTS) $(seed) $(call report,crash)" \
	"$(PROOF) crash --restarts $(call count,READY_RESTARTS) --tasks $(call count,READY_TASKS) \
		--look-every $(call count,READY_RESTARTS) $(seed) $(call report,crash-ready)" \
	$(call crash_callers,sqlite)

# Several servers on one database.
crash_shared = \
	"$(PROOF) crash --store $(1) --restarts $(call count,CRASH_SERVERS) --tasks $(call count,CRASH_TASKS) \
		$(seed) $(call report,crash-$(1))" \
	$(call crash_callers,$(1))

crash_callers = \
	"$(PROOF) crash zombie $(TASKLANE) --store $(1) --zombies $(call count,ZOMBIE_STOPS) \
		$(seed) $(call report,zombie-$(1))" \
	"$(PROOF) crash idempotency $(TASKLANE) --store $(1) --keys $(call count,IDEMPOTENCY_KEYS) \
		--duplicates $(call count,IDEMPOTENCY_DUPLICATES) --kills $(call count,IDEMPOTENCY_KILLS) \
		$(seed) $(call report,idempotency-$(1))"

# Compares a store with a naive model, step by step.
sim: $(if $(STORE),tools)
	proof/sim/run $(if $(filter postgres redis,$(STORE)),$(call count,STORE_STEPS),$(call count,SIM_STEPS)) \
		"$(SEED)" $(STORE)

# Puts bugs into a copy of the code, one at a time, each of which the ordinary tests must catch. BITE is
# said to it too: BITE=--resume goes on where a run was stopped, BITE='--only NAME,NAME' tries some again.
bite: tools release
	TASKLANE_VALKEY=$(TOOLS)/valkey-server $(PROOF) bite $(call count,BITE) $(seed) $(BITE)

# Changes the core in every small way that it can be changed, and runs its tests on each. MUTANTS is said
# to cargo mutants: MUTANTS=--iterate goes on where a run was stopped, MUTANTS='--shard 0/8' is a part.
mutants:
	proof/mutants/run $(MUTANTS)

# Has the disk fail, fill up and lie, and damages files.
faults: release
	$(PROOF) faults --server $(TASKLANE) $(call count,FAULTS) $(seed) $(call report,faults)

# Cuts the network between servers, store and workers.
net: tools release
	$(PROOF) net --store postgres --binary $(TASKLANE) $(call count,NET) $(seed) $(call report,net-postgres)
	$(PROOF) net --store redis --binary $(TASKLANE) $(call count,NET) $(seed) $(call report,net-redis)

# Has tasks come and go, and looks whether anything grows. The chart of the long form is kept.
soak: tools release
	$(PROOF) soak $(TASKLANE) $(call count,SOAK) $(store) $(seed) \
		--report $(soak_kept).json --chart $(soak_kept).svg
soak_kept = $(if $(short),$(REPORTS),bench/results)/soak$(if $(STORE),-$(STORE))

# Sends what nobody would send.
fuzz: release
	$(PROOF) fuzz --program $(TASKLANE) $(call count,FUZZ) $(seed) $(call report,fuzz)

# Holds a real server to its OpenAPI document, with calls good and bad, alone and in sequence.
contract: release
	proof/contract/run $(TASKLANE) $(call count,CONTRACT_EXAMPLES) $(call count,CONTRACT_SEED)

# Offers a real server ten times what it can take, beside workers that go on.
overload: release
	$(PROOF) overload $(TASKLANE) $(call count,OVERLOAD_SECONDS) $(call count,OVERLOAD_ROUNDS)

# Crowds a real server with clients that send nothing, or a byte a second.
slow: release
	proof/slow/run $(TASKLANE) $(call count,SLOW_IDLE) $(call count,SLOW_DRIPPING)

# How fast it is. Results are kept in bench/results; to be run alone on the machine. All of them run,
# whichever missed its targets; the worst status is the end. Short forms only show that they run.
bench: tools release
	@worst=0; for one in core growth http run; do \
		bench/$$one $(short) || { status=$$?; [ $$status -le $$worst ] || worst=$$status; }; \
	done; exit $$worst

bench-core:
	bench/core $(short)

bench-http:
	bench/http $(short)

bench-growth: tools
	bench/growth $(short)

# Beside others. They are installed from their registries; with npm, Python and Go as they are.
bench-peers: tools
	bench/peers/run $(short) $(PEERS)
