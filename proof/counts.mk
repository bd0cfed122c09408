# How much each proof does: in `make test`, and when it is called by its own name. Lowering one needs
# a decision record in docs/adr/.

# Steps of stores against a naive model: of the embedded one in memory; on disk, on PostgreSQL and on
# Redis; of the model against itself. In the gate these are ordinary tests, in whose files they stand once
# more: a test holds that they are the same. And so many behind a pooler.
SIM_STEPS_short     = 1000000
SIM_STEPS_long      = 100000000
STORE_STEPS_short   = 100000
STORE_STEPS_long    = 1000000
MODEL_STEPS_short   = 200000
POOLER_STEPS_short  = 10000
POOLER_STEPS_long   = 100000

# Kills of a process that holds the embedded store, and of one that has many tasks, whose time to be
# ready again is judged; of servers that share a database, and their tasks.
CRASH_RESTARTS_short = 200
CRASH_RESTARTS_long  = 10000
READY_RESTARTS_short = 50
READY_RESTARTS_long  = 1000
READY_TASKS_short    = 100000
READY_TASKS_long     = 100000
CRASH_SERVERS_short  = 30
CRASH_SERVERS_long   = 1000
CRASH_TASKS_short    = 5000
CRASH_TASKS_long     = 200000

# Primaries killed: of PostgreSQL with a synchronous standby; of Redis under Sentinel, where both replicas
# confirm, one, or none. The gate kills those of PostgreSQL and the first of Redis in ordinary tests, in
# whose files the numbers stand once more.
FAILOVERS_postgres_short = 5
FAILOVERS_postgres_long  = 200
FAILOVERS_2_short        = 5
FAILOVERS_2_long         = 200
FAILOVERS_1_short        = 5
FAILOVERS_1_long         = 50
FAILOVERS_0_short        = 5
FAILOVERS_0_long         = 50

# Workers stopped beyond their leases; keys, how often each is used, and kills of the server meanwhile.
ZOMBIE_STOPS_short           = 20
ZOMBIE_STOPS_long            = 5000
IDEMPOTENCY_KEYS_short       = 200
IDEMPOTENCY_KEYS_long        = 10000
IDEMPOTENCY_DUPLICATES_short = 50
IDEMPOTENCY_DUPLICATES_long  = 50
IDEMPOTENCY_KILLS_short      = 5
IDEMPOTENCY_KILLS_long       = 500

# Tasks of which readers of events hear, and how often they come back meanwhile. It is an ordinary test, in
# whose file the numbers stand once more.
EVENTS_TASKS_short      = 20000
EVENTS_RECONNECTS_short = 1000

# Seconds of tasks that come and go beside an open snapshot of PostgreSQL.
CHURN_SECONDS_short = 42
CHURN_SECONDS_long  = 1800

# Calls made of each description in the OpenAPI document. The short form makes the same calls each
# time, so that a change is judged by itself; the long form makes others, and prints their seed.
CONTRACT_EXAMPLES_short = 10
CONTRACT_EXAMPLES_long  = 1000
CONTRACT_SEED_short     = 3
CONTRACT_SEED_long      =

OVERLOAD_SECONDS_short = 2
OVERLOAD_SECONDS_long  = 60
OVERLOAD_ROUNDS_short  = 3
OVERLOAD_ROUNDS_long   = 5

SLOW_IDLE_short     = 10000
SLOW_IDLE_long      = 15000
SLOW_DRIPPING_short = 1000
SLOW_DRIPPING_long  = 3000

# Bugs that are put in, of the areas named, or all of them (no number). What became of them is kept.
BITE_short = --area core --sample 3 --seed 1
BITE_long  = --report proof/bite/report.json

# Operations of the trace whose every call to the disk fails in turn, how many of these calls are tried,
# how often the power goes without that, and at how many places files are damaged.
FAULTS_short = --operations 400 --points 400 --power 400 --damage 400 --seed 31
FAULTS_long  = --operations 5000 --points all --power 400000 --damage all

# Cuts of the network between servers, store and workers, on each of the two stores.
NET_short = --cuts 8 --seed 1
NET_long  = --cuts 1000

# Tasks that come and go.
SOAK_short = --seconds 25 --seed 1
SOAK_long  = --lifecycles 50000000

# Inputs that nobody would send: the same ones each time, or others for so long on each target.
FUZZ_short = --seed 6 --inputs \
	token=200000,record=150000,store=60,body=5000,query=3000,raw=2000,socket=1000,config=60,flag=60
FUZZ_long  = --seconds 600

# What the short forms of benchmarks do, as their scripts have it: a test holds that they are the same.
BENCH_CORE_short   = functions="resolve encode"
BENCH_GROWTH_short = depths="1000 10000" count=10000
BENCH_HTTP_short   = rounds=1 seconds=1 scale=50 backlogs=1000
BENCH_RUN_short    = --queued 1000 --count 1000 --batches 1,100
