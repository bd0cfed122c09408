//! Tasks that applications ask for in SQL, inside transactions of their own.

use std::sync::Arc;

use tasklane_core::{Policies, StateName, TaskId};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{Admit, Filter, Query, Store, StoreError, StoredTask, Submission};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::fixture::runtime;
use crate::servers::{claim, completion, draft, fresh, open, register, stranger, submit};

/// What a server does now and then.
pub(crate) async fn admit(store: &PostgresStore) -> usize {
    let requested = store.requested(100).await.unwrap();
    let admits = requested.into_iter().map(|one| {
        let draft = one.task.resolve(&Policies::default()).unwrap();
        Admit { number: one.number, draft, problem: one.problem }
    });
    let verdicts = store.admit(admits.collect()).await.unwrap();
    verdicts.into_iter().filter(|taken| *taken).count()
}

/// Asks for a task; gives its id.
pub(crate) async fn ask(client: &Client, arguments: &str) -> TaskId {
    let id: Uuid =
        client.query_one(&format!("SELECT submit({arguments})"), &[]).await.unwrap().get(0);
    TaskId::from_bytes(id.into_bytes()).unwrap()
}

async fn stored(store: &PostgresStore, id: TaskId) -> Option<StoredTask> {
    store.get(vec![id]).await.unwrap().remove(0)
}

pub(crate) async fn state(store: &PostgresStore, id: TaskId) -> Option<StateName> {
    stored(store, id).await.map(|stored| stored.task.state.name())
}

#[test]
fn a_task_asked_for_in_sql_is_admitted_as_it_was_asked_for() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        let id = ask(
            &client,
            "type => 'mail', payload => '{\"a\":  \"\\u0000\"}', queue => 'post',
             priority => 'high', max_retries => 7, timeout_seconds => 1.5, delay_seconds => 3600,
             required_capabilities => '{gpu,cpu}', metadata => '{\"user\": 1}',
             ordering_key => 'o', idempotency_key => 'i', dead_letter => false",
        )
        .await;
        assert_eq!(state(&store, id).await, None);
        assert_eq!(admit(&store).await, 1);
        let stored = stored(&store, id).await.unwrap();
        let spec = &stored.task.spec;
        assert_eq!(stored.payload, "{\"a\":  \"\\u0000\"}");
        assert_eq!(stored.task.state.name(), StateName::Scheduled);
        assert_eq!((spec.lane.queue.as_str(), spec.lane.task_type.as_str()), ("post", "mail"));
        assert_eq!((spec.priority.as_str(), spec.max_retries), ("high", 7));
        assert_eq!((spec.timeout.as_millis(), spec.dead_letter), (1_500, false));
        assert_eq!(spec.lane.capabilities.iter().count(), 2);
        assert_eq!(spec.metadata.get("user"), Some("1"));
        assert_eq!(spec.ordering_key.as_ref().unwrap().as_str(), "o");
        assert_eq!(spec.idempotency_key.as_ref().unwrap().as_str(), "i");
        assert_eq!(admit(&store).await, 0);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn what_is_rolled_back_was_never_asked_for() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        client.batch_execute("BEGIN").await.unwrap();
        let id = ask(&client, "'a'").await;
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(admit(&store).await, 0);
        assert_eq!(state(&store, id).await, None);
    });
}

#[test]
fn an_application_that_takes_its_time_delays_only_itself() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let (slow, quick) = (stranger(&options).await, stranger(&options).await);
        slow.batch_execute("BEGIN").await.unwrap();
        let late = ask(&slow, "'a', idempotency_key => 'k'").await;
        let soon = ask(&quick, "'a'").await;
        assert_eq!(admit(&store).await, 1);
        assert_eq!(state(&store, soon).await, Some(StateName::Pending));
        // By HTTP, and the feed: nothing waits for it.
        let head = store.head().await.unwrap();
        let ids = submit(&store, 1).await;
        assert_eq!(state(&store, ids[0]).await, Some(StateName::Pending));
        assert!(!store.events_after(head, 10).await.unwrap().events.is_empty());
        assert_eq!(state(&store, late).await, None);
        slow.batch_execute("COMMIT").await.unwrap();
        assert_eq!(admit(&store).await, 1);
        assert_eq!(state(&store, late).await, Some(StateName::Pending));
    });
}

#[test]
fn several_servers_admit_each_request_once() {
    let options = fresh();
    runtime().block_on(async {
        let stores = [open(&options).await, open(&options).await, open(&options).await];
        let client = stranger(&options).await;
        let many = "SELECT submit('a', payload => to_json(n)) FROM generate_series(1, 90) AS n";
        client.batch_execute(many).await.unwrap();
        let mut servers = Vec::new();
        for store in stores.iter().cycle().take(6) {
            let store = Arc::clone(store);
            servers.push(tokio::spawn(async move { admit(&store).await }));
        }
        let mut admitted = 0;
        for server in servers {
            admitted += server.await.unwrap();
        }
        assert_eq!(admitted + admit(&stores[0]).await, 90);
        let page = stores[1].list(Query::new(Filter::default(), 1_000)).await.unwrap();
        assert_eq!(page.tasks.len(), 90);
        assert_eq!(stores[2].check().await.unwrap(), []);
    });
}

#[test]
fn a_key_that_comes_again_makes_one_task() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        let first = ask(&client, "'a', idempotency_key => 'k'").await;
        assert_eq!(ask(&client, "'a', idempotency_key => 'k'").await, first);
        assert_eq!(admit(&store).await, 2);
        assert_eq!(ask(&client, "'a', idempotency_key => 'k'").await, first);
        assert_eq!(admit(&store).await, 1);
        let page = store.list(Query::new(Filter::default(), 10)).await.unwrap();
        assert_eq!(page.tasks.len(), 1);
    });
}

#[test]
fn of_two_open_transactions_with_one_key_the_later_is_a_repetition_or_refused() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let (one, other) = (stranger(&options).await, stranger(&options).await);
        let dead = Some(StateName::DeadLetter);
        for (key, payload, later) in [("same", "1", None), ("other", "2", dead)] {
            one.batch_execute("BEGIN").await.unwrap();
            other.batch_execute("BEGIN").await.unwrap();
            let waits = ask(&one, &format!("'a', '1', idempotency_key => '{key}'")).await;
            let commits =
                ask(&other, &format!("'a', '{payload}', idempotency_key => '{key}'")).await;
            assert_ne!(waits, commits, "neither sees the other");
            other.batch_execute("COMMIT").await.unwrap();
            assert_eq!(admit(&store).await, 1);
            one.batch_execute("COMMIT").await.unwrap();
            assert_eq!(admit(&store).await, 1);
            assert_eq!(state(&store, commits).await, Some(StateName::Pending));
            assert_eq!(state(&store, waits).await, later, "{key}");
        }
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_batch_is_asked_for_with_members_like_those_of_http() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        let batch = "SELECT submit_batch('[{\"type\": \"a\", \"payload\": {\"n\": 1}},
            {\"type\": \"b\", \"priority\": 3, \"required_capabilities\": [\"gpu\"]}]')";
        let ids: Vec<_> = client.query(batch, &[]).await.unwrap();
        let ids: Vec<TaskId> = ids
            .iter()
            .map(|row| TaskId::from_bytes(row.get::<_, Uuid>(0).into_bytes()).unwrap())
            .collect();
        assert_eq!(admit(&store).await, 2);
        let stored = store.get(ids).await.unwrap();
        assert_eq!(stored[0].as_ref().unwrap().payload, "{\"n\": 1}");
        assert_eq!(stored[1].as_ref().unwrap().task.spec.priority.as_str(), "critical");
    });
}

#[test]
fn a_role_that_may_do_nothing_else_may_ask() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let client = stranger(&options).await;
        let schema = format!("\"{}\"", options.schema);
        let role = format!("\"app {}\"", options.schema);
        client
            .batch_execute(&format!(
                "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; SET ROLE {role};
                 CREATE TEMPORARY TABLE request(x int); CREATE TEMPORARY TABLE queue(x int)"
            ))
            .await
            .unwrap();
        assert!(client.query("SELECT * FROM task", &[]).await.is_err());
        let id = ask(&client, "'a', idempotency_key => 'k'").await;
        assert_eq!(admit(&store).await, 1);
        assert_eq!(state(&store, id).await, Some(StateName::Pending));
    });
}

#[test]
fn tables_of_the_first_version_are_brought_forward() {
    let options: Options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let ids = submit(&store, 1).await;
        drop(store);
        let client = stranger(&options).await;
        client
            .batch_execute(
                "DROP TABLE request; DROP FUNCTION submit, submit_batch, check_text, new_id, timeline;
                 DROP TYPE ended CASCADE;
                 DELETE FROM meta WHERE name = 'timeline'; UPDATE meta SET value = 1 WHERE name = 'version'",
            )
            .await
            .unwrap();
        let store = open(&options).await;
        assert_eq!(state(&store, ids[0]).await, Some(StateName::Pending));
        let id = ask(&client, "'a'").await;
        assert_eq!(admit(&store).await, 1);
        assert_eq!(state(&store, id).await, Some(StateName::Pending));
    });
}

#[test]
fn tables_of_the_fourth_version_are_brought_forward_beside_a_server_that_runs() {
    let options: Options = fresh();
    runtime().block_on(async {
        let old = open(&options).await;
        let client = stranger(&options).await;
        client
            .batch_execute(
                "CREATE OR REPLACE FUNCTION submit_batch(tasks jsonb) RETURNS SETOF uuid
                     LANGUAGE sql AS 'SELECT NULL::uuid';
                 UPDATE meta SET value = 4 WHERE name = 'version'",
            )
            .await
            .unwrap();
        let new = open(&options).await;
        assert!(client.query("SELECT submit_batch(NULL)", &[]).await.is_err(), "not made anew");
        let asked = ask(&client, "'a', required_capabilities => '{}'").await;
        assert_eq!(admit(&old).await, 1);
        let worker = register(&old).await;
        submit(&new, 1).await;
        let claimed = claim(&old, worker, 2).await;
        let commands = claimed.iter().map(completion).collect();
        assert!(old.execute(commands).await.unwrap().iter().all(Result::is_ok));
        assert_eq!((claimed.len(), state(&new, asked).await), (2, Some(StateName::Completed)));
        assert_eq!(new.check().await.unwrap(), []);
    });
}

#[test]
fn a_server_whose_tables_were_made_anew_says_so() {
    let options: Options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let ids = submit(&store, 1).await;
        let client = stranger(&options).await;
        let forget = "DROP TYPE ended CASCADE; UPDATE meta SET value = 3 WHERE name = 'version'";
        client.batch_execute(forget).await.unwrap();
        // Brings them back with other numbers, as a restore would.
        let other = open(&options).await;
        let refused = store.submit(vec![Submission { tasks: vec![draft(None)] }]).await;
        assert!(
            matches!(&refused, Err(StoreError::Unavailable(text)) if text.contains("start it again")),
            "{refused:?}"
        );
        store.get(ids.clone()).await.unwrap();
        assert!(store.status().trouble.is_some(), "looks go on, and writes never will");
        let worker = register(&other).await;
        let claimed = claim(&other, worker, 1).await;
        let commands = claimed.iter().map(completion).collect();
        assert!(other.execute(commands).await.unwrap().iter().all(Result::is_ok));
        assert_eq!(state(&other, ids[0]).await, Some(StateName::Completed));
    });
}
