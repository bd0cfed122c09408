-- Added by version 5, which makes anew what the second had: how applications ask for tasks in SQL. Refuses
-- what a server could not read. Servers of the fourth version call none of this, and go on.

-- What the functions below see, whoever calls them: no table of a caller's own.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- A fresh id: 48 bits of time in milliseconds, the rest random.
CREATE OR REPLACE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(
        substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3 FOR 6)
        || set_byte(substring(random FROM 7), 0, (get_byte(random, 6) & 15) | 112), 'hex')::uuid
    FROM (SELECT uuid_send(gen_random_uuid()) AS random) AS source
$$;

-- Refuses a name or key that no server would take.
CREATE OR REPLACE FUNCTION check_text(what text, given text, bytes_max integer, is_name boolean)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given = '' OR octet_length(given) > bytes_max THEN
        RAISE EXCEPTION '% must have 1 to % bytes', what, bytes_max USING ERRCODE = '22023';
    END IF;
    IF is_name AND given ~ '[{}:[:cntrl:]]' THEN
        RAISE EXCEPTION '% must not contain braces, colons or control characters', what
            USING ERRCODE = '22023';
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION submit(
    type text,
    payload json DEFAULT 'null',
    queue text DEFAULT 'default',
    priority text DEFAULT NULL,
    id uuid DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    ordering_key text DEFAULT NULL,
    scheduled_at timestamptz DEFAULT NULL,
    delay_seconds double precision DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL,
    timeout_seconds double precision DEFAULT NULL,
    max_retries integer DEFAULT NULL,
    required_capabilities text[] DEFAULT '{}',
    metadata jsonb DEFAULT '{}',
    dead_letter boolean DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_variable
DECLARE
    number smallint;
    capability text;
    known uuid;
    bytes bytea := convert_to(payload::text, 'UTF8');
BEGIN
    IF submit.type IS NULL OR submit.queue IS NULL OR submit.payload IS NULL THEN
        RAISE EXCEPTION 'type, queue and payload must not be NULL' USING ERRCODE = '22004';
    END IF;
    PERFORM check_text('type', submit.type, 128, true);
    PERFORM check_text('queue', submit.queue, 128, true);
    PERFORM check_text('idempotency_key', submit.idempotency_key, 256, false);
    PERFORM check_text('ordering_key', submit.ordering_key, 256, false);
    IF array_ndims(submit.required_capabilities) > 1 THEN
        RAISE EXCEPTION 'required_capabilities must be an array of one dimension'
            USING ERRCODE = '22023';
    END IF;
    FOREACH capability IN ARRAY coalesce(submit.required_capabilities, '{}') LOOP
        IF capability IS NULL THEN
            RAISE EXCEPTION 'required_capabilities must not contain NULL' USING ERRCODE = '22004';
        END IF;
        PERFORM check_text('required_capabilities', capability, 128, true);
    END LOOP;
    IF octet_length(bytes) > 1048576 THEN
        RAISE EXCEPTION 'payload must not be larger than 1 MiB' USING ERRCODE = '22023';
    END IF;
    IF jsonb_typeof(submit.metadata) <> 'object' OR octet_length(submit.metadata::text) > 32768 THEN
        RAISE EXCEPTION 'metadata must be an object of at most 32 KiB' USING ERRCODE = '22023';
    END IF;
    number := CASE lower(submit.priority)
        WHEN 'critical' THEN 3 WHEN '3' THEN 3 WHEN 'high' THEN 2 WHEN '2' THEN 2
        WHEN 'normal' THEN 1 WHEN 'medium' THEN 1 WHEN '1' THEN 1
        WHEN 'low' THEN 0 WHEN '0' THEN 0 END;
    IF submit.priority IS NOT NULL AND number IS NULL THEN
        RAISE EXCEPTION 'priority must be critical, high, normal or low' USING ERRCODE = '22023';
    END IF;
    IF submit.scheduled_at IS NOT NULL AND submit.delay_seconds IS NOT NULL THEN
        RAISE EXCEPTION 'give scheduled_at or delay_seconds, not both' USING ERRCODE = '22023';
    END IF;
    IF submit.delay_seconds < 0 OR submit.delay_seconds > 158112000
        OR submit.timeout_seconds < 0.001 OR submit.timeout_seconds > 604800
        OR submit.max_retries < 0 OR submit.max_retries > 100 THEN
        RAISE EXCEPTION 'delay_seconds, timeout_seconds or max_retries is out of range'
            USING ERRCODE = '22023';
    END IF;
    IF submit.id IS NOT NULL AND (get_byte(uuid_send(submit.id), 6) >> 4 <> 7
        OR get_byte(uuid_send(submit.id), 8) >> 6 <> 2) THEN
        RAISE EXCEPTION 'id must be a UUID of version 7' USING ERRCODE = '22023';
    END IF;
    -- The same again is told the id of the first, as far as it can be seen from here.
    IF submit.id IS NULL AND submit.idempotency_key IS NOT NULL THEN
        SELECT i.id INTO known FROM queue q JOIN idempotency i ON i.queue = q.queue
        WHERE q.name = submit.queue AND i.key = submit.idempotency_key;
        IF known IS NULL THEN
            SELECT r.id INTO known FROM request r
            WHERE r.queue = submit.queue AND r.idempotency_key = submit.idempotency_key
            ORDER BY r.number LIMIT 1;
        END IF;
    END IF;
    known := coalesce(submit.id, known, new_id());
    INSERT INTO request(id, type, queue, payload, priority, capabilities, max_retries,
        timeout_micros, scheduled_at, delay_micros, expires_at, idempotency_key, ordering_key,
        metadata_names, metadata_values, dead_letter)
    SELECT known, submit.type, submit.queue, bytes, number,
        coalesce(submit.required_capabilities, '{}'), submit.max_retries,
        (submit.timeout_seconds * 1000000)::int8,
        (extract(epoch FROM submit.scheduled_at) * 1000000)::int8,
        (submit.delay_seconds * 1000000)::int8,
        (extract(epoch FROM submit.expires_at) * 1000000)::int8,
        submit.idempotency_key, submit.ordering_key,
        coalesce(array_agg(label.key), '{}'), coalesce(array_agg(label.value), '{}'),
        submit.dead_letter
    FROM jsonb_each_text(submit.metadata) AS label;
    RETURN known;
END
$$;

-- Many at once: an array of objects whose members are named like the parameters above.
CREATE OR REPLACE FUNCTION submit_batch(tasks jsonb) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    task jsonb;
    unknown text;
    wrong text;
BEGIN
    IF tasks IS NULL THEN
        RAISE EXCEPTION 'tasks must not be NULL' USING ERRCODE = '22004';
    END IF;
    IF jsonb_typeof(tasks) <> 'array' OR jsonb_array_length(tasks) > 10000 THEN
        RAISE EXCEPTION 'tasks must be an array of at most 10000 objects' USING ERRCODE = '22023';
    END IF;
    FOR task IN SELECT element FROM jsonb_array_elements(tasks) AS element LOOP
        IF jsonb_typeof(task) <> 'object' THEN
            RAISE EXCEPTION 'each of tasks must be an object' USING ERRCODE = '22023';
        END IF;
        SELECT name INTO unknown FROM jsonb_object_keys(task) AS name
        WHERE name NOT IN ('type', 'payload', 'queue', 'priority', 'id', 'idempotency_key',
            'ordering_key', 'scheduled_at', 'delay_seconds', 'expires_at', 'timeout_seconds',
            'max_retries', 'required_capabilities', 'metadata', 'dead_letter') LIMIT 1;
        IF unknown IS NOT NULL THEN
            RAISE EXCEPTION 'a task has no member %', unknown USING ERRCODE = '22023';
        END IF;
        -- As text, anything would be a name.
        SELECT format('%s must be %s', m.name, m.words) INTO wrong FROM (VALUES
            ('type', 'a string', '{string,"null"}'::text[]),
            ('queue', 'a string', '{string}'),
            ('priority', 'a string or a number', '{string,number,"null"}'),
            ('id', 'a string', '{string,"null"}'),
            ('idempotency_key', 'a string', '{string,"null"}'),
            ('ordering_key', 'a string', '{string,"null"}'),
            ('scheduled_at', 'a string', '{string,"null"}'),
            ('delay_seconds', 'a number', '{number,"null"}'),
            ('expires_at', 'a string', '{string,"null"}'),
            ('timeout_seconds', 'a number', '{number,"null"}'),
            ('max_retries', 'a number', '{number,"null"}'),
            ('required_capabilities', 'an array of strings', '{array}'),
            ('metadata', 'an object', '{object}'),
            ('dead_letter', 'true or false', '{boolean,"null"}')) AS m(name, words, types)
        WHERE jsonb_typeof(task -> m.name) <> ALL (m.types)
            OR m.name = 'required_capabilities' AND jsonb_path_exists(task,
                'strict $.required_capabilities[*] ? (@.type() != "string")', silent => true)
        LIMIT 1;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION '%', wrong USING ERRCODE = '22023';
        END IF;
        RETURN NEXT submit(
            type => task ->> 'type',
            payload => coalesce((task -> 'payload')::json, 'null'),
            queue => coalesce(task ->> 'queue', 'default'),
            priority => task ->> 'priority',
            id => (task ->> 'id')::uuid,
            idempotency_key => task ->> 'idempotency_key',
            ordering_key => task ->> 'ordering_key',
            scheduled_at => (task ->> 'scheduled_at')::timestamptz,
            delay_seconds => (task ->> 'delay_seconds')::float8,
            expires_at => (task ->> 'expires_at')::timestamptz,
            timeout_seconds => (task ->> 'timeout_seconds')::float8,
            max_retries => (task ->> 'max_retries')::int4,
            required_capabilities => ARRAY(
                SELECT jsonb_array_elements_text(coalesce(task -> 'required_capabilities', '[]'))),
            metadata => coalesce(task -> 'metadata', '{}'),
            dead_letter => (task ->> 'dead_letter')::boolean);
    END LOOP;
END
$$;

-- Where these tables are: no copy of them, restored anywhere, is at the same place.
-- With the rights of the schema's owner, whoever asks: roles that may see less would find another place.
CREATE OR REPLACE FUNCTION home() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    cluster text;
BEGIN
    BEGIN
        SELECT system_identifier INTO cluster FROM pg_control_system();
    EXCEPTION WHEN insufficient_privilege THEN
        -- Kept from the owner: then the rest has to do.
        cluster := NULL;
    END;
    RETURN (SELECT hashtextextended(concat_ws(' ', cluster, d.oid, 'meta'::regclass::oid), 0)
            FROM pg_database d WHERE d.datname = current_database());
END
$$;
-- Nobody has written where tables of an older version were. The rows of a copy came in one go; where they
-- have always been, that which counts events is newer than the rest. New tables have none yet.
INSERT INTO meta(name, value)
SELECT 'home', CASE WHEN count(DISTINCT m.xmin::text) = 1 THEN 0 ELSE home() END
FROM meta m WHERE m.xmin <> pg_current_xact_id()::xid
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
