-- What servers do most, as functions: each connection of the database plans them once, whoever uses
-- it, and a whole step is one message. They decide nothing. Plans are made for tables of any size: one
-- that is empty now may not be so in a second. `LATERAL … LIMIT 1` says what is looked up for what: a table
-- that seems empty would be read whole instead, with all rows in it that are gone.

-- Locks workers that are known and not dead, and notes a sign of life. Then counts their leases, so
-- that claims under way together do not share room. None is older than `floors` say, as far as is
-- known; `oldest` tells where the next look may begin.
CREATE OR REPLACE FUNCTION hear(wanted uuid[], floors bigint[], at bigint)
RETURNS TABLE(worker uuid, record bytea, renewals bigint, leases bigint, oldest bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM worker w WHERE w.worker = ANY(wanted) ORDER BY w.worker FOR NO KEY UPDATE;
    IF cardinality(wanted) > 1 THEN
        -- In order, as everybody does.
        PERFORM 1 FROM alive a WHERE a.worker = ANY(wanted) ORDER BY a.worker FOR NO KEY UPDATE;
    END IF;
    UPDATE alive a SET seen_at = at WHERE a.worker = ANY(wanted)
    AND EXISTS (SELECT 1 FROM worker w WHERE w.worker = a.worker AND w.state <> 4);
    RETURN QUERY
        SELECT w.worker, w.record, a.renewals, l.leases, l.oldest
        FROM unnest(wanted, floors) AS s(worker, floor)
        JOIN worker w ON w.worker = s.worker JOIN alive a ON a.worker = s.worker
        CROSS JOIN LATERAL (
            SELECT count(*) AS leases, min(l.claimed_at) AS oldest FROM lease l
            WHERE l.worker = s.worker AND l.claimed_at >= s.floor) l
        WHERE w.state <> 4;
END $$;

-- How queues are to be served; and the last lane that there is, which has no settings.
CREATE OR REPLACE FUNCTION served() RETURNS TABLE(number integer, settings bytea)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT q.queue, q.settings FROM queue q;
    RETURN QUERY SELECT max(l.lane), NULL::bytea FROM lane l;
END $$;

-- Locks live tasks and gives them as they are now: home 0 is pend, 1 wait, 2 lease. Tasks with an
-- ordering key only if that is `keyed`, locked by the caller before. One that moves meanwhile is not
-- found. The last row is none of a task: its `since` is drawn for what happens next.
CREATE OR REPLACE FUNCTION take(ids uuid[], keyed boolean)
RETURNS TABLE(id uuid, lane integer, bytes integer, spec bytea, home smallint, record bytea,
    claimed_at bigint, since bigint, ends_at bigint, limit_at bigint, renewals bigint,
    renewed_until bigint, version bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    found_now bigint;
    missing bigint := cardinality(ids);
BEGIN
    RETURN QUERY
        SELECT t.id, t.lane, t.bytes, t.spec, 2::smallint, l.record, l.claimed_at, l.since, l.ends_at,
               l.limit_at, coalesce(a.renewals, 0), coalesce(a.renewed_until, 0), l.version
        FROM lease l CROSS JOIN LATERAL (
                SELECT t.id, t.lane, t.bytes, t.spec, t.ordering FROM task t WHERE t.id = l.id LIMIT 1) t LEFT JOIN alive a ON a.worker = l.worker
        WHERE l.id = ANY(ids) AND (keyed OR t.ordering IS NULL) ORDER BY l.id FOR UPDATE OF l;
    GET DIAGNOSTICS found_now = ROW_COUNT;
    missing := missing - found_now;
    IF missing > 0 THEN
        RETURN QUERY
            SELECT t.id, t.lane, t.bytes, t.spec, 0::smallint, p.record, 0::bigint, 0::bigint,
                   0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint
            FROM pend p CROSS JOIN LATERAL (
                SELECT t.id, t.lane, t.bytes, t.spec, t.ordering FROM task t WHERE t.id = p.id LIMIT 1) t
            WHERE p.id = ANY(ids) AND (keyed OR t.ordering IS NULL) ORDER BY p.id
            FOR UPDATE OF p;
        GET DIAGNOSTICS found_now = ROW_COUNT;
        missing := missing - found_now;
    END IF;
    IF missing > 0 THEN
        RETURN QUERY
            SELECT t.id, t.lane, t.bytes, t.spec, 1::smallint, w.record, 0::bigint, 0::bigint,
                   0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint
            FROM wait w CROSS JOIN LATERAL (
                SELECT t.id, t.lane, t.bytes, t.spec, t.ordering FROM task t WHERE t.id = w.id LIMIT 1) t
            WHERE w.id = ANY(ids) AND (keyed OR t.ordering IS NULL) ORDER BY w.id
            FOR UPDATE OF w;
    END IF;
    id := NULL;
    since := nextval('event');
    RETURN NEXT;
END $$;

-- Which streams have a pending task: arrays with an element for each range of places, as in heads.
CREATE OR REPLACE FUNCTION more(streams integer[], queues integer[], priorities smallint[],
    afters bigint[], untils bigint[], floors bigint[], lanes integer[], beside uuid[])
RETURNS TABLE(stream integer)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT r.stream
        FROM unnest(streams, queues, priorities, afters, untils, floors)
            AS r(stream, queue, priority, after, until, floor)
        WHERE CASE WHEN lanes IS NULL THEN
            EXISTS (SELECT 1 FROM pend p WHERE p.queue = r.queue AND p.priority = r.priority
                AND NOT p.late AND p.ready_at > greatest(r.after, r.floor - 1)
                AND p.ready_at <= r.until AND p.id <> ALL(beside))
            OR EXISTS (SELECT 1 FROM pend p WHERE p.queue = r.queue AND p.priority = r.priority
                AND p.late AND p.ready_at > r.after AND p.ready_at <= r.until
                AND p.id <> ALL(beside))
        ELSE
            EXISTS (SELECT 1 FROM unnest(lanes) AS wanted(lane) CROSS JOIN LATERAL (
                SELECT 1 FROM pend p WHERE p.queue = r.queue AND p.priority = r.priority
                AND p.lane = wanted.lane AND p.ready_at > r.after AND p.ready_at <= r.until
                AND p.id <> ALL(beside) LIMIT 1) there)
        END;
END $$;

-- Locks the next pending tasks of several streams, no more than each has a quota for, passing over what
-- others hold. A stream is a list of bands, a band a list of ranges of places that are merged: arrays
-- with an element for each range, in order. Nothing that is not late stands before the floors, as far as
-- is known. In these lanes, or in all. Tasks `beside` are left out. Payloads that have a table of their
-- own are not read. The last row is none of a task: its sequence is drawn for what happens next.
CREATE OR REPLACE FUNCTION heads(streams integer[], bands integer[], queues integer[], priorities smallint[],
    afters bigint[], untils bigint[], floors bigint[], quotas integer[], lanes integer[], beside uuid[])
RETURNS TABLE(stream integer, id uuid, lane integer, priority smallint, ready_at bigint,
    sequence bigint, expires_at bigint, withheld_from uuid, withheld_until bigint, bytes integer,
    spec bytea, record bytea, payload bytea)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    -- Of the band that is looked at: its ranges, and which have tasks, late ones apart.
    first integer := 1;
    last integer;
    total constant integer := cardinality(streams);
    fresh integer[];
    delayed integer[];
    of_stream integer := 0;
    has_late boolean;
    never constant bigint := 9223372036854775807;
    base_floors bigint[];
    oldest bigint[];
    quota integer := 0;
    picked uuid[];
    most integer;
    found_now bigint;
BEGIN
    WHILE first <= total LOOP
        last := first;
        WHILE last < total AND streams[last + 1] = streams[first] AND bands[last + 1] = bands[first] LOOP
            last := last + 1;
        END LOOP;
        IF streams[first] <> of_stream THEN
            of_stream := streams[first];
            quota := quotas[of_stream];
            has_late := lanes IS NULL AND EXISTS (
                SELECT 1 FROM pend p WHERE p.queue = queues[first] AND p.late LIMIT 1);
            IF lanes IS NULL THEN
                -- The oldest of each priority tells of most ranges whether they are empty.
                FOR r IN first..total LOOP
                    EXIT WHEN streams[r] <> of_stream;
                    base_floors[priorities[r] + 1] := floors[r];
                END LOOP;
                oldest := ARRAY(
                    SELECT coalesce((
                        SELECT p.ready_at FROM pend p WHERE p.queue = queues[first]
                        AND p.priority = base AND NOT p.late AND p.ready_at >= base_floors[base + 1]
                        ORDER BY p.ready_at, p.sequence LIMIT 1), never)
                    FROM generate_series(0, 3) AS base);
                -- Rows that are gone are passed only once.
                FOR r IN first..total LOOP
                    EXIT WHEN streams[r] <> of_stream;
                    IF oldest[priorities[r] + 1] < never THEN floors[r] := oldest[priorities[r] + 1]; END IF;
                END LOOP;
            END IF;
        END IF;
        fresh := '{}';
        delayed := '{}';
        IF quota > 0 AND lanes IS NULL THEN
            FOR r IN first..last LOOP
                IF oldest[priorities[r] + 1] > untils[r] OR oldest[priorities[r] + 1] = never THEN
                    NULL;
                ELSIF oldest[priorities[r] + 1] > afters[r] THEN
                    fresh := fresh || r;
                ELSIF EXISTS (SELECT 1 FROM pend p WHERE p.queue = queues[r]
                    AND p.priority = priorities[r] AND NOT p.late AND p.ready_at > greatest(afters[r], floors[r] - 1)
                    AND p.ready_at <= untils[r] LIMIT 1)
                THEN fresh := fresh || r; END IF;
                IF has_late AND EXISTS (SELECT 1 FROM pend p WHERE p.queue = queues[r]
                    AND p.priority = priorities[r] AND p.late AND p.ready_at > afters[r]
                    AND p.ready_at <= untils[r] LIMIT 1)
                THEN delayed := delayed || r; END IF;
            END LOOP;
        END IF;
        IF quota > 0 AND cardinality(fresh) = 1 AND cardinality(delayed) = 0 THEN
            -- As nearly always.
            RETURN QUERY
                SELECT of_stream, p.id, p.lane, p.priority, p.ready_at, p.sequence, p.expires_at,
                       p.withheld_from, p.withheld_until, p.bytes, t.spec, p.record, t.payload
                FROM (
                    SELECT p.* FROM pend p
                    WHERE p.queue = queues[fresh[1]] AND p.priority = priorities[fresh[1]]
                    AND NOT p.late AND p.ready_at <= untils[fresh[1]]
                    AND p.ready_at > greatest(afters[fresh[1]], floors[fresh[1]] - 1)
                    AND p.id <> ALL(beside)
                    ORDER BY p.ready_at, p.sequence LIMIT quota FOR UPDATE SKIP LOCKED
                ) p CROSS JOIN LATERAL (SELECT * FROM task t WHERE t.id = p.id LIMIT 1) t
                ORDER BY p.ready_at, p.sequence;
            GET DIAGNOSTICS found_now = ROW_COUNT;
            quota := quota - found_now;
        ELSIF quota > 0 AND (lanes IS NOT NULL OR cardinality(fresh) + cardinality(delayed) > 0) THEN
            -- Chosen among several, then locked: some more are chosen, as others may be faster; and again
            -- behind these, where others hold them all.
            LOOP
                most := 2 * quota + 8;
                IF lanes IS NULL THEN
                    SELECT array_agg(x.id) INTO picked FROM (
                        SELECT x.id, x.ready_at, x.sequence FROM unnest(fresh) AS r CROSS JOIN LATERAL (
                            SELECT p.id, p.ready_at, p.sequence FROM pend p
                            WHERE p.queue = queues[r] AND p.priority = priorities[r] AND NOT p.late
                            AND p.ready_at > greatest(afters[r], floors[r] - 1) AND p.ready_at <= untils[r]
                            AND p.id <> ALL(beside)
                            ORDER BY p.ready_at, p.sequence LIMIT most) x
                        UNION ALL
                        SELECT x.id, x.ready_at, x.sequence FROM unnest(delayed) AS r CROSS JOIN LATERAL (
                            SELECT p.id, p.ready_at, p.sequence FROM pend p
                            WHERE p.queue = queues[r] AND p.priority = priorities[r] AND p.late
                            AND p.ready_at > afters[r] AND p.ready_at <= untils[r] AND p.id <> ALL(beside)
                            ORDER BY p.ready_at, p.sequence LIMIT most) x
                        ORDER BY ready_at, sequence LIMIT most) x;
                ELSE
                    SELECT array_agg(x.id) INTO picked FROM (
                        SELECT x.id, x.ready_at, x.sequence
                        FROM generate_series(first, last) AS r CROSS JOIN unnest(lanes) AS wanted(lane)
                        CROSS JOIN LATERAL (
                            SELECT p.id, p.ready_at, p.sequence FROM pend p
                            WHERE p.queue = queues[r] AND p.priority = priorities[r] AND p.lane = wanted.lane
                            AND p.ready_at > afters[r] AND p.ready_at <= untils[r] AND p.id <> ALL(beside)
                            ORDER BY p.ready_at, p.sequence LIMIT most) x
                        ORDER BY x.ready_at, x.sequence LIMIT most) x;
                END IF;
                RETURN QUERY
                    SELECT of_stream, p.id, p.lane, p.priority, p.ready_at, p.sequence, p.expires_at,
                           p.withheld_from, p.withheld_until, p.bytes, t.spec, p.record, t.payload
                    FROM (
                        SELECT p.* FROM pend p WHERE p.id = ANY(picked)
                        ORDER BY p.ready_at, p.sequence LIMIT quota FOR UPDATE SKIP LOCKED
                    ) p CROSS JOIN LATERAL (SELECT * FROM task t WHERE t.id = p.id LIMIT 1) t
                    ORDER BY p.ready_at, p.sequence;
                GET DIAGNOSTICS found_now = ROW_COUNT;
                quota := quota - found_now;
                EXIT WHEN quota = 0 OR coalesce(cardinality(picked), 0) < most;
                beside := beside || picked;
            END LOOP;
        END IF;
        first := last + 1;
    END LOOP;
    stream := 0;
    sequence := nextval('event');
    RETURN NEXT;
END $$;

-- Writes what has become of tasks. A table that gets another column needs a type of its own for new rows,
-- and another `put`: servers of both versions may run for a while. What leaves a table goes before what enters one, so that a row is
-- changed by leaving and entering again. Leases that are guarded were not read: they have to be of these
-- versions, of which no two leases have the same, and of these tokens: a failover that loses commits may
-- give a number again. At the end of a transaction, what it tells and what it counted.
CREATE OR REPLACE FUNCTION put(
    leave_pend uuid[], leave_wait uuid[], leave_lease uuid[],
    guarded uuid[], guards bigint[], tokens uuid[],
    new_task task[], new_pend pend[], new_wait wait[], new_lease lease[], ended ended[], new_trail trail[],
    told_at bigint, told_count integer, told_events bytea, told_origin bigint,
        told_claimable bigint, told_lanes integer[],
    counted_queue integer[], counted_lane integer[], counted_priority smallint[],
        counted_state smallint[], change bigint[])
RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
    SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE found_now bigint;
BEGIN
    IF cardinality(guarded) > 0 THEN
        DELETE FROM lease
        WHERE id = ANY(guarded) AND version = ANY(guards) AND token = ANY(tokens);
        GET DIAGNOSTICS found_now = ROW_COUNT;
        IF found_now <> cardinality(guarded) THEN
            RAISE serialization_failure USING MESSAGE = 'a lease is not what it was';
        END IF;
    END IF;
    IF cardinality(leave_pend) > 0 THEN DELETE FROM pend WHERE id = ANY(leave_pend); END IF;
    IF cardinality(leave_wait) > 0 THEN DELETE FROM wait WHERE id = ANY(leave_wait); END IF;
    IF cardinality(leave_lease) > 0 THEN DELETE FROM lease WHERE id = ANY(leave_lease); END IF;
    IF cardinality(new_task) > 0 THEN
        INSERT INTO task SELECT * FROM unnest(new_task) ORDER BY id;
    END IF;
    IF cardinality(new_pend) > 0 THEN INSERT INTO pend SELECT * FROM unnest(new_pend); END IF;
    IF cardinality(new_wait) > 0 THEN INSERT INTO wait SELECT * FROM unnest(new_wait); END IF;
    IF cardinality(new_lease) > 0 THEN INSERT INTO lease SELECT * FROM unnest(new_lease); END IF;
    IF cardinality(ended) > 0 THEN
        -- A task that ends takes what it is along.
        INSERT INTO history(id, state, queue, lane, priority, ended_at, ended_number, bytes, ordering,
            spec, payload, record, result)
        SELECT e.id, e.state, e.queue, t.lane, e.priority, e.ended_at, e.ended_number, t.bytes, t.ordering,
            t.spec, t.payload, e.record, e.result
        FROM unnest(ended) AS e CROSS JOIN LATERAL (SELECT * FROM task t WHERE t.id = e.id LIMIT 1) t;
        DELETE FROM task WHERE id = ANY(ARRAY(SELECT e.id FROM unnest(ended) AS e));
    END IF;
    IF cardinality(new_trail) > 0 THEN INSERT INTO trail SELECT * FROM unnest(new_trail); END IF;
    IF told_at IS NOT NULL THEN
        INSERT INTO outbox(at, count, events, origin, claimable, lanes, counted_queue, counted_lane,
            counted_priority, counted_state, change)
        VALUES (told_at, told_count, told_events, told_origin, told_claimable, told_lanes,
            counted_queue, counted_lane, counted_priority, counted_state, change);
    END IF;
END $$;
