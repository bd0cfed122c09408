//! What applications ask for in SQL and do not get: in their own transaction where the function can
//! see it, as a dead letter otherwise. Nobody else's request waits for theirs.

use bytes::Bytes;
use tasklane_core::{
    CapabilitySet, DeadReason, Lane, QueueName, QueueSettings, State, StateName, TaskType, limits,
};
use tasklane_postgres::PostgresStore;
use tasklane_store::{Filter, Query, Store, codec};
use tokio_postgres::Client;

use crate::fixture::runtime;
use crate::requests::{admit, ask, state};
use crate::servers::{fresh, open, stranger};

/// A parameter has a value that it must not have.
const INVALID: &str = "22023";
/// A parameter is NULL that must not be.
const NULL: &str = "22004";

/// Payloads of what was refused, in their order, and why.
async fn refused(store: &PostgresStore) -> Vec<(Bytes, String)> {
    let dead = Filter { states: vec![StateName::DeadLetter], ..Filter::default() };
    let page = store.list(Query { bodies: true, ..Query::new(dead, 100) }).await.unwrap();
    let told = page.tasks.iter().map(|stored| {
        let is_refused =
            matches!(stored.task.state, State::DeadLetter { reason: DeadReason::Refused, .. });
        assert!(is_refused && stored.task.counts.attempts == 0, "{:?}", stored.task);
        (stored.payload.clone(), stored.task.error.as_ref().unwrap().message.to_string())
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

/// What the database says of a statement that it does not carry out: its code and its words.
async fn said(client: &Client, sql: &str) -> (String, String) {
    let error = client.query(sql, &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    (error.code().code().to_owned(), error.message().to_owned())
}

#[test]
fn what_cannot_be_admitted_is_a_dead_letter_that_says_why() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        let first = ask(&client, "'a', '1', idempotency_key => 'k', ordering_key => 'o'").await;
        ask(&client, "'a', '2', idempotency_key => 'k', ordering_key => 'o'").await;
        let past = ask(&client, "'a', '3', expires_at => '2001-01-01', dead_letter => false").await;
        // More than the function looks for: a letter that turns text around.
        let turned = ask(&client, "U&'a\\202Eb', '4'").await;
        assert_eq!(admit(&store).await, 4);
        let told = refused(&store).await;
        let said = |n: usize, words: &str| assert!(told[n].1.contains(words), "{told:?}");
        said(0, "used before");
        said(1, "expires_at");
        said(2, "type");
        assert_eq!(told.len(), 3);
        assert_eq!(state(&store, first).await, Some(StateName::Pending));
        assert_eq!(state(&store, past).await, Some(StateName::DeadLetter));
        assert_eq!(state(&store, turned).await, Some(StateName::DeadLetter));
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn what_is_refused_because_of_too_many_lanes_makes_no_lane() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let queue = QueueName::default_queue();
        store.configure(queue.clone(), QueueSettings::default()).await.unwrap();
        let client = stranger(&options).await;
        let lane = |n: usize| {
            let task_type = TaskType::new(format!("t{n}")).unwrap();
            let capabilities = CapabilitySet::default();
            codec::encode_lane(&Lane { queue: queue.clone(), task_type, capabilities })
        };
        let lanes: Vec<_> = (0..limits::LANES_MAX).map(lane).collect();
        let sql = "INSERT INTO lane(queue, name) SELECT queue, new FROM queue, unnest($1::bytea[]) AS new";
        client.execute(sql, &[&lanes]).await.unwrap();
        let known = ask(&client, "'t7', '1'").await;
        ask(&client, "'mail', '2', queue => 'post'").await;
        ask(&client, "'news', '3', required_capabilities => '{gpu}'").await;
        // Its own problem, and a lane of its own besides.
        ask(&client, "'late', '4', expires_at => '2001-01-01'").await;
        assert_eq!(admit(&store).await, 4);
        assert_eq!(state(&store, known).await, Some(StateName::Pending));
        let told = refused(&store).await;
        let words = ["queue post, type mail", "queue default, type news", "type late"];
        assert_eq!(told.len(), words.len());
        for (words, (_, why)) in words.iter().zip(&told) {
            assert!(why.contains(words), "{told:?}");
        }
        let count = client.query_one("SELECT count(*) FROM lane", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), limits::LANES_MAX as i64 + 1, "one for all of these");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_request_that_cannot_be_read_stops_no_other() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        client.batch_execute("ALTER TABLE request ALTER type DROP NOT NULL").await.unwrap();
        // Written by hand, past the function: all but one make no sense.
        for (payload, task_type, capabilities, names, values) in [
            ("1", "'a'", "ARRAY[NULL]", "'{}'", "'{}'"),
            ("2", "'a'", "ARRAY[['gpu'],['cpu']]", "'{}'", "'{}'"),
            ("3", "'a'", "'{}'", "ARRAY[NULL]", "'{x}'"),
            ("4", "'a'", "'{}'", "'{x}'", "ARRAY[['x'],['y']]"),
            ("5", "'a'", "'{}'", "'{x,y}'", "'{x}'"),
            ("6", "NULL", "'{}'", "'{}'", "'{}'"),
            ("7", "'a'", "'{gpu}'", "'{x}'", "ARRAY[NULL]"),
        ] {
            let sql = format!(
                "INSERT INTO request(id, type, queue, payload, capabilities, metadata_names,
                     metadata_values)
                 VALUES (new_id(), {task_type}, 'default', '{payload}', {capabilities}::text[],
                     {names}::text[], {values}::text[])"
            );
            client.batch_execute(&sql).await.unwrap();
        }
        let good = ask(&client, "'a', '8'").await;
        assert_eq!(admit(&store).await, 8);
        assert_eq!(state(&store, good).await, Some(StateName::Pending));
        let told = refused(&store).await;
        let fields = [
            "capabilities",
            "capabilities",
            "metadata_names",
            "metadata_values",
            "metadata",
            "type",
        ];
        assert_eq!(told.len(), fields.len(), "{told:?}");
        for (number, (field, (payload, why))) in fields.iter().zip(&told).enumerate() {
            assert_eq!(*payload, (number + 1).to_string());
            assert!(why.contains(&format!("{field}: must be")), "{told:?}");
        }
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn what_makes_no_sense_is_refused_in_the_application() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        for (arguments, code, words) in [
            ("''", INVALID, "type must have"),
            ("repeat('x', 129)", INVALID, "type must have"),
            ("'a:b'", INVALID, "type must not contain"),
            ("'a', queue => 'q{'", INVALID, "queue must not contain"),
            ("'a', queue => repeat('ü', 65)", INVALID, "queue must have"),
            ("'a', idempotency_key => repeat('x', 257)", INVALID, "idempotency_key must have"),
            ("'a', ordering_key => repeat('x', 257)", INVALID, "ordering_key must have"),
            ("'a', priority => 'urgent'", INVALID, "priority must be"),
            ("'a', payload => '{'", "22P02", "json"),
            ("'a', to_json(repeat('x', 1048575))", INVALID, "1 MiB"),
            ("'a', metadata => '[1]'", INVALID, "metadata must be an object"),
            ("'a', metadata => jsonb_build_object('x', repeat('x', 32768))", INVALID, "32 KiB"),
            ("'a', scheduled_at => now(), delay_seconds => 1", INVALID, "not both"),
            ("'a', delay_seconds => -1", INVALID, "out of range"),
            ("'a', delay_seconds => 158112001", INVALID, "out of range"),
            ("'a', delay_seconds => 'NaN'", INVALID, "out of range"),
            ("'a', timeout_seconds => 0", INVALID, "out of range"),
            ("'a', max_retries => 101", INVALID, "out of range"),
            ("'a', id => '7b1f0fd4-0f7e-4cc5-9f5c-1d2f3a4b5c6d'", INVALID, "version 7"),
            ("'a', required_capabilities => ARRAY[NULL]::text[]", NULL, "must not contain NULL"),
            ("'a', required_capabilities => '{gpu,NULL}'", NULL, "must not contain NULL"),
            ("'a', required_capabilities => '{{gpu},{cpu}}'", INVALID, "one dimension"),
            ("NULL", NULL, "NULL"),
        ] {
            let told = said(&client, &format!("SELECT submit({arguments})")).await;
            assert!(told.0 == code && told.1.contains(words), "{arguments}: {told:?}");
        }
        for (tasks, code, words) in [
            ("NULL", NULL, "tasks must not be NULL"),
            ("'{}'", INVALID, "tasks must be an array"),
            ("'null'", INVALID, "tasks must be an array"),
            ("(SELECT jsonb_agg(n) FROM generate_series(1, 10001) AS n)", INVALID, "at most 10000"),
            ("'[1]'", INVALID, "each of tasks must be an object"),
            ("'[[]]'", INVALID, "each of tasks must be an object"),
            ("'[null]'", INVALID, "each of tasks must be an object"),
            (r#"'[{"type": "a", "oops": 1}]'"#, INVALID, "oops"),
        ] {
            let told = said(&client, &format!("SELECT submit_batch({tasks})")).await;
            assert!(told.0 == code && told.1.contains(words), "{tasks}: {told:?}");
        }
        assert_eq!(admit(&store).await, 0);
    });
}

#[test]
fn what_has_the_wrong_json_type_is_not_taken_for_its_text() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        for (member, wrong) in [
            ("type", &["1", "true", "[\"a\"]", "{}"][..]),
            ("queue", &["1", "[\"q\"]", "null"]),
            ("priority", &["true", "[\"high\"]", "{}"]),
            ("id", &["7", "[]"]),
            ("idempotency_key", &["1", "[\"k\"]", "true"]),
            ("ordering_key", &["1", "{\"k\": 1}"]),
            ("scheduled_at", &["2040", "true"]),
            ("delay_seconds", &["\"1\"", "true"]),
            ("expires_at", &["2040", "[]"]),
            ("timeout_seconds", &["\"1\"", "[1]"]),
            ("max_retries", &["\"1\"", "true"]),
            ("required_capabilities", &["\"gpu\"", "{}", "null", "[1]", "[null]", "[[\"x\"]]"]),
            ("metadata", &["\"x\"", "[]", "null"]),
            ("dead_letter", &["\"false\"", "0"]),
        ] {
            for wrong in wrong {
                let task = match member {
                    "type" => format!(r#"[{{"type": {wrong}}}]"#),
                    _ => format!(r#"[{{"type": "a", "{member}": {wrong}}}]"#),
                };
                let told = said(&client, &format!("SELECT submit_batch('{task}')")).await;
                let words = format!("{member} must be ");
                assert!(told.0 == INVALID && told.1.starts_with(&words), "{task}: {told:?}");
            }
        }
        let told = said(&client, r#"SELECT submit_batch('[{"type": null}]')"#).await;
        assert_eq!(told.0, NULL, "{told:?}");
        let fine = r#"[{"type": "a", "payload": [1], "queue": "q", "priority": 2, "id": null,
            "idempotency_key": null, "ordering_key": null, "scheduled_at": null,
            "delay_seconds": 0.5, "expires_at": "LATER", "timeout_seconds": 1e1,
            "max_retries": 3, "required_capabilities": ["gpu"], "metadata": {"x": 1},
            "dead_letter": null}, {"type": "a", "payload": null, "priority": "high",
            "delay_seconds": null, "max_retries": null, "dead_letter": false}]"#;
        let later = "(now() + interval '1 day')::text";
        let fine = format!("SELECT submit_batch(replace('{fine}', 'LATER', {later})::jsonb)");
        client.query(&fine, &[]).await.unwrap();
        assert_eq!(admit(&store).await, 2);
        assert_eq!(refused(&store).await, []);
    });
}
