//! Calls under way together: who is held up holds up no other, and locks have an order.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tasklane_core::{
    Draft, Names, NewTask, OrderingKey, Pattern, Policies, Priority, Selection, TaskType,
    WorkerSpec,
};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{Answer, ClaimRequest, Store, StoreError, Submission, apart};
use tokio_postgres::{Client, NoTls};

use crate::fixture::{runtime, server};
use crate::servers::{claim, completion, draft, fresh, open, register, stranger, submit};

/// Longer than any test: whoever waits for a lock waits until it is there.
const PATIENT: Duration = Duration::from_secs(25);
const SOON: Duration = Duration::from_secs(10);
const KEYS: usize = 200;
const ROUNDS: usize = 6;

/// An idempotency key that somebody else is about to use, until the transaction ends.
async fn hold(client: &Client, key: &str) {
    let sql = format!(
        "BEGIN; INSERT INTO idempotency(queue, key, id, digest, created_at)
                SELECT queue, '{key}', gen_random_uuid(), gen_random_uuid(), 0 FROM queue"
    );
    client.batch_execute(&sql).await.unwrap();
}

fn keyed(key: &str) -> Submission {
    Submission { tasks: vec![draft(Some(key))] }
}

fn is_waiting<T>(answer: &mut Answer<'_, T>) -> bool {
    matches!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, answer).await.unwrap()
}

#[test]
fn settles_go_past_a_submission_that_is_held_up() {
    let options = Options { lock_time_max: PATIENT, ..fresh() };
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 4).await;
        let claimed = claim(&store, worker, 2).await;
        let client = stranger(&options).await;
        hold(&client, "k").await;
        let mut held_up = store.submit(vec![keyed("k")]);
        let settled = soon(store.execute(vec![completion(&claimed[0])])).await.unwrap();
        assert!(settled[0].is_ok(), "{settled:?}");
        let request = ClaimRequest { worker, count: 5, auto_start: true, narrowed: None };
        let settling = store.execute_and_claim(vec![completion(&claimed[1])], vec![request]);
        let (settled, next) = soon(settling).await.unwrap();
        assert!(settled[0].is_ok(), "{settled:?}");
        assert_eq!(next[0].as_ref().unwrap().len(), 2);
        assert!(is_waiting(&mut held_up), "nothing was in its way");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert!(held_up.await.unwrap()[0].is_ok());
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn submissions_and_settles_go_on_beside_a_batch_that_is_held_up() {
    let options = Options { lock_time_max: Duration::from_secs(3), ..fresh() };
    runtime().block_on(async {
        let store = open(&options).await;
        let worker = register(&store).await;
        submit(&store, 3).await;
        let claimed = claim(&store, worker, 3).await;
        let client = stranger(&options).await;
        hold(&client, "k").await;
        let batch = ["x", "k", "y"].map(keyed).to_vec();
        let own = Arc::clone(&store);
        let held_up = tokio::spawn(apart(batch, move |batch| {
            let store = Arc::clone(&own);
            async move { store.submit(batch).await }
        }));
        for claimed in &claimed {
            submit(&store, 2).await;
            assert!(store.execute(vec![completion(claimed)]).await.unwrap()[0].is_ok());
        }
        assert!(!held_up.is_finished(), "they waited for it");
        let verdicts = held_up.await.unwrap();
        assert!(verdicts[0].as_ref().unwrap().is_ok() && verdicts[2].as_ref().unwrap().is_ok());
        assert!(matches!(verdicts[1], Err(StoreError::Overloaded(_))), "{verdicts:?}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_statement_that_takes_too_long_is_given_up_and_harms_no_other() {
    let options = Options { lock_time_max: PATIENT, ..fresh() };
    let short = Options { statement_time_max: Duration::from_secs(1), ..options.clone() };
    runtime().block_on(async {
        let (store, hasty) = (open(&options).await, open(&short).await);
        submit(&store, 1).await;
        let client = stranger(&options).await;
        hold(&client, "k").await;
        let batch = ["x", "k", "y"].map(keyed).to_vec();
        let verdicts = soon(apart(batch, |batch| hasty.submit(batch))).await;
        assert!(verdicts[0].as_ref().unwrap().is_ok() && verdicts[2].as_ref().unwrap().is_ok());
        assert!(matches!(verdicts[1], Err(StoreError::Overloaded(_))), "{verdicts:?}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
    });
}

/// Pending tasks that nobody holds.
async fn free(client: &Client) -> usize {
    let sql = "SELECT 1 FROM pend FOR UPDATE SKIP LOCKED";
    client.query(sql, &[]).await.unwrap().len()
}

#[test]
fn a_claim_locks_no_more_than_it_takes() {
    let options = Options { lock_time_max: PATIENT, ..fresh() };
    runtime().block_on(async {
        let store = open(&options).await;
        let mut tasks = Vec::new();
        for (name, priority) in [("a", 0), ("a", 1), ("b", 3), ("a", 2), ("c", 1)] {
            let mut task = NewTask::new(TaskType::new(name).unwrap(), "1");
            task.priority = Some(Priority::from_number(priority).unwrap());
            tasks.extend([(); 4].map(|()| task.clone().resolve(&Policies::default()).unwrap()));
        }
        let count = tasks.len();
        store.submit(vec![Submission { tasks }]).await.unwrap().remove(0).unwrap();
        let client = stranger(&options).await;
        assert_eq!(free(&client).await, count);
        let some = Names::Matching([Pattern::Exact("a".into())].into());
        let every = Selection::default();
        for selection in [every.clone(), Selection { types: some, ..every }] {
            let worker = store.register(WorkerSpec::new(selection, 100).unwrap()).await.unwrap();
            let before = free(&client).await;
            // The claim has all that it wants when it comes to what it writes.
            client.batch_execute("BEGIN; LOCK TABLE lease IN SHARE MODE").await.unwrap();
            let request = ClaimRequest { worker, count: 5, auto_start: true, narrowed: None };
            let mut claiming = store.claim(vec![request]);
            let writes = "SELECT count(*) FROM pg_locks WHERE NOT granted
                          AND relation = 'lease'::regclass";
            while client.query_one(writes, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                assert!(is_waiting(&mut claiming));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(free(&client).await, before - 5);
            client.batch_execute("COMMIT").await.unwrap();
            assert_eq!(claiming.await.unwrap().remove(0).unwrap().len(), 5);
        }
    });
}

fn ordered(key: &str) -> Draft {
    let mut task = NewTask::new(TaskType::new("a").unwrap(), "1");
    task.ordering_key = Some(OrderingKey::new(key).unwrap());
    task.resolve(&Policies::default()).unwrap()
}

/// Two stores, twice each, submit the same keys at once, every other time from the last to the first.
async fn submit_both_ways(stores: &[PostgresStore; 2], tasks: Vec<Draft>) {
    let mut calls = Vec::new();
    for (number, store) in stores.iter().chain(stores).enumerate() {
        let mut tasks = tasks.clone();
        if number % 2 == 1 {
            tasks.reverse();
        }
        calls.push(store.submit(vec![Submission { tasks }]));
    }
    for call in calls {
        let verdict = call.await.unwrap().remove(0);
        assert_eq!(verdict.unwrap().len(), KEYS);
    }
}

/// Deadlocks in a database, told when those who met them have gone.
async fn deadlocks(address: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    let others = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_type = 'client backend'";
    while client.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    client.query_one(count, &[]).await.unwrap().get(0)
}

#[test]
fn keys_in_any_order_make_no_deadlock() {
    let options = Options { lock_time_max: PATIENT, ..fresh() };
    let address = server().new_database().unwrap();
    let database = address.split(['/', '?']).nth(3).unwrap();
    // Found at once, so that the test does not take long where there is one.
    let sensitive = format!("ALTER DATABASE {database} SET deadlock_timeout TO '20ms'");
    server().sql("postgres", &sensitive).unwrap();
    runtime().block_on(async {
        let open = || async { PostgresStore::open(&address, &options).await.unwrap() };
        let stores = [open().await, open().await];
        for round in 0..ROUNDS {
            let names: Vec<_> = (0..KEYS).map(|key| format!("{round} {key:03}")).collect();
            let tasks = names.iter().map(|key| draft(Some(key))).collect();
            submit_both_ways(&stores, tasks).await;
            let tasks = names.iter().map(|key| ordered(key)).collect();
            submit_both_ways(&stores, tasks).await;
        }
        let stats = stores[0].stats().await.unwrap();
        let pending = stats.total(tasklane_core::StateName::Pending);
        assert_eq!(pending, 2 * (KEYS * ROUNDS) as u64, "one of each key");
        assert_eq!(stores[1].check().await.unwrap(), []);
        drop(stores);
        assert_eq!(deadlocks(&address).await, 0);
    });
}
