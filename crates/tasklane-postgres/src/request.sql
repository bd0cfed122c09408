-- Added by version 2. Which life of the database this is; and tasks that applications ask for in SQL, inside
-- transactions of their own, by functions of the fifth version. A server admits them once they are committed.

-- The timeline of the database's log: another one after a failover or a restore.
CREATE FUNCTION timeline() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int8
$$;
INSERT INTO meta(name, value) VALUES ('timeline', timeline());

CREATE TABLE request(
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    type text NOT NULL,
    queue text NOT NULL,
    payload bytea NOT NULL,
    priority smallint,
    capabilities text[] NOT NULL,
    max_retries integer,
    timeout_micros bigint,
    scheduled_at bigint,
    delay_micros bigint,
    expires_at bigint,
    idempotency_key text COLLATE "C",
    ordering_key text,
    metadata_names text[] NOT NULL,
    metadata_values text[] NOT NULL,
    dead_letter boolean
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX request_key ON request(queue, idempotency_key) WHERE idempotency_key IS NOT NULL;
