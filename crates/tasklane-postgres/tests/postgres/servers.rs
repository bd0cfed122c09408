//! Several servers on one database, and a database that goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tasklane_core::{
    Capability, CapabilitySet, Command, Draft, IdempotencyKey, Intent, NewTask, Outcome, Policies,
    Selection, StateName, TaskId, TaskType, WorkerId, WorkerSpec,
};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{
    ClaimRequest, Claimed, Cursor, Store, StoreError, Subject, Submission, WorkerChange, codec,
};
use tokio_postgres::{Client, NoTls};

use crate::fixture::{address, is_pooled, runtime, straight};

/// A PostgreSQL schema that nobody has used.
pub(crate) fn fresh() -> Options {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let schema = format!("servers {}", NUMBER.fetch_add(1, Ordering::Relaxed));
    Options { schema, connections: 4, ..Options::default() }
}

pub(crate) async fn open(options: &Options) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(&address(), options).await.unwrap())
}

/// A connection of somebody else.
pub(crate) async fn stranger(options: &Options) -> Client {
    let (client, connection) = tokio_postgres::connect(&straight(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO \"{}\"", options.schema)).await.unwrap();
    client
}

pub(crate) fn draft(key: Option<&str>) -> Draft {
    let mut task = NewTask::new(TaskType::new("a").unwrap(), "1");
    task.idempotency_key = key.map(|key| IdempotencyKey::new(key).unwrap());
    task.resolve(&Policies::default()).unwrap()
}

pub(crate) async fn submit(store: &PostgresStore, count: usize) -> Vec<TaskId> {
    let tasks = (0..count).map(|_| draft(None)).collect();
    let verdicts = store.submit(vec![Submission { tasks }]).await.unwrap();
    verdicts.into_iter().next().unwrap().unwrap().iter().map(|task| task.id).collect()
}

pub(crate) async fn register(store: &PostgresStore) -> WorkerId {
    store.register(WorkerSpec::new(Selection::default(), 1_000).unwrap()).await.unwrap()
}

pub(crate) async fn claim(store: &PostgresStore, worker: WorkerId, count: usize) -> Vec<Claimed> {
    let request = ClaimRequest { worker, count, auto_start: true, narrowed: None };
    store.claim(vec![request]).await.unwrap().remove(0).unwrap()
}

pub(crate) fn completion(claimed: &Claimed) -> Command {
    let token = claimed.task.state.lease().unwrap().token;
    let outcome = Outcome::Completed("1".into());
    Command { task: claimed.task.id, intent: Intent::Settle(token, outcome) }
}

#[test]
fn servers_that_start_together_make_the_tables_once() {
    let options = fresh();
    runtime().block_on(async {
        let starting: Vec<_> = (0..6)
            .map(|_| {
                let options = options.clone();
                tokio::spawn(async move { open(&options).await })
            })
            .collect();
        let mut stores = Vec::new();
        for store in starting {
            stores.push(store.await.unwrap());
        }
        let ids = submit(&stores[0], 1).await;
        for store in &stores {
            assert!(store.get(ids.clone()).await.unwrap()[0].is_some());
        }
    });
}

#[test]
fn tables_of_a_newer_program_are_refused_in_words() {
    let options = fresh();
    runtime().block_on(async {
        drop(open(&options).await);
        let client = stranger(&options).await;
        client.batch_execute("UPDATE meta SET value = 99 WHERE name = 'version'").await.unwrap();
        let refused = PostgresStore::open(&address(), &options).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Version(text) if text.contains("99")), "{refused}");
    });
}

#[test]
fn a_task_of_one_server_is_claimed_and_settled_on_others() {
    let options = fresh();
    runtime().block_on(async {
        let (one, two, three) = (open(&options).await, open(&options).await, open(&options).await);
        let worker = register(&one).await;
        let ids = submit(&one, 1).await;
        let claimed = claim(&two, worker, 5).await;
        assert_eq!(claimed.iter().map(|claimed| claimed.task.id).collect::<Vec<_>>(), ids);
        let verdicts = three.execute(vec![completion(&claimed[0])]).await.unwrap();
        assert_eq!(verdicts[0].as_ref().unwrap().state, StateName::Completed);
        let stored = one.get(ids).await.unwrap();
        assert_eq!(stored[0].as_ref().unwrap().task.state.name(), StateName::Completed);
    });
}

#[test]
fn servers_that_claim_and_settle_together_complete_each_task_once() {
    let options = fresh();
    runtime().block_on(async {
        let stores = [open(&options).await, open(&options).await, open(&options).await];
        let mut ids = submit(&stores[0], 600).await;
        let mut workers = Vec::new();
        for store in stores.iter().cycle().take(6) {
            let store = Arc::clone(store);
            let worker = register(&store).await;
            workers.push(tokio::spawn(async move {
                let mut done = Vec::new();
                loop {
                    let claimed = claim(&store, worker, 7).await;
                    if claimed.is_empty() {
                        return done;
                    }
                    let settles = claimed.iter().map(completion).collect();
                    for verdict in store.execute(settles).await.unwrap() {
                        assert!(!verdict.unwrap().repeated);
                    }
                    done.extend(claimed.iter().map(|claimed| claimed.task.id));
                }
            }));
        }
        let mut done = Vec::new();
        for worker in workers {
            done.extend(worker.await.unwrap());
        }
        // What a claim passed over because another held it is still there at most.
        let worker = register(&stores[1]).await;
        done.extend(claim(&stores[1], worker, 1_000).await.iter().map(|c| c.task.id));
        done.sort();
        ids.sort();
        assert_eq!(done, ids);
        assert_eq!(stores[2].check().await.unwrap(), []);
    });
}

#[test]
fn what_one_server_does_is_noticed_by_another() {
    // Too seldom to matter: it is the notification that tells. A pooler does not pass it on.
    let seldom = if is_pooled() { 1 } else { 3_600 };
    let options = Options { look_every: Duration::from_secs(seldom), ..fresh() };
    runtime().block_on(async {
        let (one, two) = (open(&options).await, open(&options).await);
        let mut hint = two.watch();
        for _ in 0..3 {
            let seen = hint.borrow_and_update().claimable;
            let ids = submit(&one, 1).await;
            let noticed = tokio::time::timeout(Duration::from_secs(60), async {
                while hint.borrow_and_update().claimable == seen {
                    hint.changed().await.unwrap();
                }
            });
            noticed.await.unwrap();
            let worker = register(&two).await;
            assert_eq!(claim(&two, worker, 1).await[0].task.id, ids[0]);
        }
    });
}

#[test]
fn a_hint_tells_of_each_task_once_and_where_on_whichever_server() {
    let options = fresh();
    runtime().block_on(async {
        let (one, two) = (open(&options).await, open(&options).await);
        let (seen_one, seen_two) = (one.watch().borrow().claimable, two.watch().borrow().claimable);
        // Commits and looks side by side: each event is numbered long after it happened, or before
        // its own server knows that it is committed.
        let mut calls = Vec::new();
        for _ in 0..8 {
            let (one, two) = (Arc::clone(&one), Arc::clone(&two));
            calls.push(tokio::spawn(async move {
                let worker = register(&one).await;
                for _ in 0..20 {
                    submit(&one, 2).await;
                    let settles = claim(&one, worker, 2).await.iter().map(completion).collect();
                    one.execute(settles).await.unwrap();
                    one.head().await.unwrap();
                    two.head().await.unwrap();
                }
            }));
        }
        for call in calls {
            call.await.unwrap();
        }
        for (store, seen) in [(&one, seen_one), (&two, seen_two)] {
            let head = store.head().await.unwrap();
            let hint = *store.watch().borrow();
            assert_eq!(hint.claimable - seen, 320);
            assert_eq!(hint.last, head.position);
            let lanes = store.claimable_since(seen).unwrap();
            assert_eq!(lanes.len(), 1);
            assert_eq!(lanes[0].task_type.as_str(), "a");
        }
    });
}

#[test]
fn one_key_on_several_servers_makes_one_task() {
    let options = fresh();
    runtime().block_on(async {
        let stores = [open(&options).await, open(&options).await, open(&options).await];
        let mut calls = Vec::new();
        for store in stores.iter().cycle().take(30) {
            let store = Arc::clone(store);
            calls.push(tokio::spawn(async move {
                let tasks = ["k", "l", "m"].map(|key| draft(Some(key))).to_vec();
                let verdicts = store.submit(vec![Submission { tasks }]).await.unwrap();
                verdicts.into_iter().next().unwrap().unwrap()
            }));
        }
        let mut new = 0;
        let mut ids = Vec::new();
        for call in calls {
            let submitted = call.await.unwrap();
            new += submitted.iter().filter(|task| !task.replayed).count();
            ids.push(submitted.iter().map(|task| task.id).collect::<Vec<_>>());
        }
        assert_eq!(new, 3);
        assert!(ids.iter().all(|all| *all == ids[0]));
    });
}

#[test]
fn a_follower_misses_no_late_commit_and_waits_for_none() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        let slow = stranger(&options).await;
        let late = WorkerId::from_bytes([7; 16]);
        let mut events = Vec::new();
        codec::encode_notice(&mut events, &Subject::Worker(late, WorkerChange::Joined));
        slow.batch_execute("BEGIN").await.unwrap();
        let sql = "INSERT INTO outbox(at, count, events, origin, claimable, lanes)
                   VALUES (1, 1, $1, 1, 0, '{}')";
        slow.execute(sql, &[&events]).await.unwrap();
        submit(&store, 2).await;
        let before = store.events_after(Cursor::OLDEST, 100).await.unwrap();
        assert_eq!(before.events.len(), 2, "what is committed is told at once");
        slow.batch_execute("COMMIT").await.unwrap();
        let after = store.events_after(before.next, 100).await.unwrap();
        assert_eq!(after.events[0].subject, Subject::Worker(late, WorkerChange::Joined));
        assert!(!after.gap);
    });
}

#[test]
fn a_store_recovers_by_itself_when_its_connections_are_cut() {
    let options = fresh();
    runtime().block_on(async {
        let address = format!("{}&application_name=cut", address());
        let store = PostgresStore::open(&address, &options).await.unwrap();
        let ids = submit(&store, 3).await;
        let client = stranger(&options).await;
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE application_name = 'cut'";
        let cut: i64 = client.query_one(cut, &[]).await.unwrap().get(0);
        // A pooler may have lent them to somebody else meanwhile.
        assert!(cut > 0 || is_pooled());
        let begun = Instant::now();
        let found = loop {
            match store.get(ids.clone()).await {
                Ok(found) => break found,
                Err(StoreError::Unavailable(_)) => {
                    assert!(begun.elapsed() < Duration::from_secs(30), "it does not recover");
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert!(found.iter().all(Option::is_some));
        submit(&store, 1).await;
        assert_eq!(store.status().trouble, None);
    });
}

#[test]
fn looks_go_on_while_connections_are_cut() {
    let options = fresh();
    runtime().block_on(async {
        let address = format!("{}&application_name=looks", address());
        let store = PostgresStore::open(&address, &options).await.unwrap();
        let ids = submit(&store, 3).await;
        let client = stranger(&options).await;
        let cuts = async {
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE application_name = 'looks' AND state = 'idle in transaction'";
            let mut cuts = 0;
            // Behind a pooler nobody knows whose they are.
            while cuts < 20 && !is_pooled() {
                let cut: i64 = client.query_one(cut, &[]).await.unwrap().get(0);
                cuts += cut;
                // Somebody whose every attempt is cut is refused: no attempt takes that long.
                let pause = if cut > 0 { 100 } else { 2 };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        };
        let looks = async {
            loop {
                store.get(ids.clone()).await.unwrap();
                store.head().await.unwrap();
                store.stats().await.unwrap();
            }
        };
        tokio::select! {
            () = cuts => {}
            () = looks => {}
        }
    });
}

#[test]
fn a_lane_with_the_longest_names_is_taken() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        // Nothing that could be compressed.
        let name = |n: u64| {
            let digits = (0..8)
                .map(|part| format!("{:016x}", (n * 8 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            Capability::new(digits.collect::<String>()).unwrap()
        };
        let mut task = NewTask::new(TaskType::new("a").unwrap(), "1");
        task.capabilities = CapabilitySet::new((1..33).map(name)).unwrap();
        let tasks = vec![task.resolve(&Policies::default()).unwrap()];
        for _ in 0..2 {
            let submission = Submission { tasks: tasks.clone() };
            assert!(store.submit(vec![submission]).await.unwrap()[0].is_ok());
        }
        assert_eq!(store.stats().await.unwrap().lanes.len(), 1);
    });
}

#[test]
fn a_database_that_cannot_be_reached_is_said_to_be_so() {
    let address = "postgres://nobody:hunter2@127.0.0.1:1/nothing";
    let refused = runtime().block_on(PostgresStore::open(address, &Options::default()));
    let refused = refused.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
}

#[test]
fn a_reader_from_before_a_failover_is_told_of_a_gap() {
    let options = fresh();
    runtime().block_on(async {
        let store = open(&options).await;
        submit(&store, 1).await;
        let seen = store.head().await.unwrap();
        assert!(!store.events_after(seen, 10).await.unwrap().gap);
        // As a standby does that has been promoted.
        let client = stranger(&options).await;
        let promote = "UPDATE meta SET value = value + 1 WHERE name = 'timeline'";
        client.batch_execute(promote).await.unwrap();
        let page = store.events_after(seen, 10).await.unwrap();
        assert!(page.gap && page.next.epoch != seen.epoch);
        assert!(!store.events_after(page.next, 10).await.unwrap().gap);
    });
}
