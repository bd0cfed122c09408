-- Tables of a store, version 1. Times are microseconds since the Unix epoch. What is not searched
-- is packed by the codec of tasklane-store.

CREATE TABLE meta(
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- Numbers of events, drawn under the locks of what they tell of: a thousand at a time.
CREATE SEQUENCE event INCREMENT 1000;

CREATE TABLE queue(
    queue integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    settings bytea NOT NULL
);

CREATE TABLE lane(
    lane integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue integer NOT NULL,
    name bytea NOT NULL
);
-- Longer names than an index takes are possible: many capabilities.
CREATE UNIQUE INDEX lane_name ON lane(sha256(name));

-- Every live task: inserted once, never updated, removed at its end. Each has one row in pend, wait
-- or lease besides, and locking that one is locking the task.
CREATE TABLE task(
    id uuid PRIMARY KEY,
    lane integer NOT NULL,
    bytes integer NOT NULL,
    ordering text COLLATE "C",
    spec bytea NOT NULL,
    payload bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Payloads over 1 KiB: written once, wherever their task goes.
CREATE TABLE body(
    id uuid PRIMARY KEY,
    payload bytea NOT NULL
);
ALTER TABLE body ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Pending tasks. Those that are as they were admitted have no record. `late`: came here later than
-- its place says, so that who looks only at the newest places has to look for it besides.
CREATE TABLE pend(
    id uuid PRIMARY KEY,
    queue integer NOT NULL,
    lane integer NOT NULL,
    priority smallint NOT NULL,
    ready_at bigint NOT NULL,
    sequence bigint NOT NULL,
    expires_at bigint,
    withheld_from uuid,
    withheld_until bigint,
    bytes integer NOT NULL,
    late boolean NOT NULL,
    record bytea
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pend_place ON pend(queue, priority, ready_at, sequence) WHERE NOT late;
CREATE INDEX pend_late ON pend(queue, priority, ready_at, sequence) WHERE late;
CREATE INDEX pend_lane ON pend(queue, priority, lane, ready_at, sequence);
CREATE INDEX pend_expiry ON pend(expires_at, id) WHERE expires_at IS NOT NULL;

-- Tasks that wait for something else than a worker: scheduled, blocked, retrying.
CREATE TABLE wait(
    id uuid PRIMARY KEY,
    due_at bigint,
    expires_at bigint,
    record bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wait_due ON wait(due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX wait_expiry ON wait(expires_at, id) WHERE expires_at IS NOT NULL;

-- Tasks in workers' hands. A lease ends at `ends_at`, unless its worker renewed all of its leases
-- after `since`, counted in renewals: then it ends with them. `limit_at` ends the
-- attempt, or the wait for its start. `version` is the number of the last event.
CREATE TABLE lease(
    id uuid PRIMARY KEY,
    worker uuid NOT NULL,
    token uuid NOT NULL,
    cancelling boolean NOT NULL,
    claimed_at bigint NOT NULL,
    version bigint NOT NULL,
    since bigint NOT NULL,
    ends_at bigint NOT NULL,
    limit_at bigint NOT NULL,
    running boolean NOT NULL,
    record bytea NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lease_worker ON lease(worker, claimed_at);
CREATE INDEX lease_deadline ON lease(least(ends_at, limit_at));

-- Tasks that have ended, by how they ended and by the time in their ids.
CREATE TABLE history(
    id uuid NOT NULL,
    state smallint NOT NULL,
    queue integer NOT NULL,
    lane integer NOT NULL,
    priority smallint NOT NULL,
    ended_at bigint NOT NULL,
    ended_number bigint NOT NULL,
    bytes integer NOT NULL,
    ordering text COLLATE "C",
    spec bytea NOT NULL,
    payload bytea,
    record bytea NOT NULL,
    result bytea,
    PRIMARY KEY (id, state)
) PARTITION BY LIST (state);
CREATE TABLE history_completed PARTITION OF history FOR VALUES IN (6) PARTITION BY RANGE (id);
CREATE TABLE history_failed PARTITION OF history FOR VALUES IN (7) PARTITION BY RANGE (id);
CREATE TABLE history_cancelled PARTITION OF history FOR VALUES IN (8) PARTITION BY RANGE (id);
CREATE TABLE history_dead_letter PARTITION OF history FOR VALUES IN (9) PARTITION BY RANGE (id);
CREATE TABLE history_completed_rest PARTITION OF history_completed DEFAULT;
CREATE TABLE history_failed_rest PARTITION OF history_failed DEFAULT;
CREATE TABLE history_cancelled_rest PARTITION OF history_cancelled DEFAULT;
CREATE TABLE history_dead_letter_rest PARTITION OF history_dead_letter DEFAULT;
CREATE INDEX history_end ON history(ended_at, ended_number);
CREATE INDEX history_queue ON history(queue, ended_at, ended_number);

-- What a task's own record does not tell of its past.
CREATE TABLE trail(
    id uuid NOT NULL,
    sequence bigint NOT NULL,
    entry bytea NOT NULL,
    PRIMARY KEY (id, sequence)
);

-- Ordering keys in use, to be locked; and their live tasks in order.
CREATE TABLE ordering_key(
    queue integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key)
);
CREATE TABLE ordered(
    queue integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (queue, key, sequence)
);
CREATE UNIQUE INDEX ordered_task ON ordered(id);

-- Submissions that are recognised when they come again. `ended`: how, once the task is gone.
CREATE TABLE idempotency(
    queue integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    digest uuid NOT NULL,
    created_at bigint NOT NULL,
    ended smallint,
    PRIMARY KEY (queue, key)
);
CREATE INDEX idempotency_age ON idempotency(created_at);

-- Counters; what is to be added to them is in the outbox, so that no transaction waits for another's.
CREATE TABLE tally(
    queue integer NOT NULL,
    lane integer NOT NULL,
    priority smallint NOT NULL,
    state smallint NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (lane, priority, state)
) WITH (fillfactor = 50);
CREATE TABLE depth(
    queue integer PRIMARY KEY,
    count bigint NOT NULL
) WITH (fillfactor = 50);

-- Events as they were committed, and as readers see them: numbered by one sequencer at a time.
-- `origin`: the server that wrote them, which knows already. `claimable`: tasks that became so, in
-- these lanes, or anywhere. `counted_…`: which counters change, and `change` by how much.
CREATE TABLE outbox(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    count integer NOT NULL,
    events bytea NOT NULL,
    origin bigint NOT NULL,
    claimable bigint NOT NULL,
    lanes integer[],
    counted_queue integer[] NOT NULL DEFAULT '{}',
    counted_lane integer[] NOT NULL DEFAULT '{}',
    counted_priority smallint[] NOT NULL DEFAULT '{}',
    counted_state smallint[] NOT NULL DEFAULT '{}',
    change bigint[] NOT NULL DEFAULT '{}'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE VIEW delta AS
    SELECT o.number, c.* FROM outbox o CROSS JOIN LATERAL
        unnest(o.counted_queue, o.counted_lane, o.counted_priority, o.counted_state, o.change)
            AS c(queue, lane, priority, state, change);
CREATE TABLE feed(
    first bigint PRIMARY KEY,
    count integer NOT NULL,
    at bigint NOT NULL,
    events bytea NOT NULL,
    origin bigint NOT NULL,
    claimable bigint NOT NULL,
    lanes integer[]
);

CREATE TABLE worker(
    worker uuid PRIMARY KEY,
    state smallint NOT NULL,
    record bytea NOT NULL,
    registered_at bigint NOT NULL,
    changed_at bigint NOT NULL
);
-- Signs of life, apart from the row that claims lock.
CREATE TABLE alive(
    worker uuid PRIMARY KEY,
    seen_at bigint NOT NULL,
    renewals bigint NOT NULL,
    renewed_until bigint NOT NULL,
    cpu_percent real,
    memory_percent real,
    load bigint
) WITH (fillfactor = 50);

CREATE TABLE api_key(
    id bytea PRIMARY KEY,
    ends_at bigint,
    record bytea NOT NULL
);
CREATE TABLE audit(
    number bigint PRIMARY KEY,
    at bigint NOT NULL,
    record bytea NOT NULL
);
