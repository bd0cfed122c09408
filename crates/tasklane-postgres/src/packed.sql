-- Added by version 4. What is written of tasks comes as arrays of rows: those of tables, and this.

-- How a task has ended.
CREATE TYPE ended AS (
    id uuid,
    state smallint,
    queue integer,
    priority smallint,
    ended_at bigint,
    ended_number bigint,
    record bytea,
    result bytea
);
