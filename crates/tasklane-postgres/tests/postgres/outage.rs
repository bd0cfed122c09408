//! Databases that take no writes for a while, and failovers that lose some: what is said of it, and what
//! must not be believed any more.

use std::time::{Duration, Instant};

use tasklane_core::{Draft, NewTask, Policies, Refusal, TaskId, TaskType};
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::{Store, StoreError, Submission};

use crate::failover::PATIENCE;
use crate::fixture::runtime;
use crate::servers::{claim, completion, draft, fresh, register, submit};

/// Longer than a write is tried for.
const WHILE: Duration = Duration::from_secs(3);

fn set(server: &TestServer, setting: &str) {
    server.sql("postgres", &format!("ALTER SYSTEM {setting}")).unwrap();
    server.sql("postgres", "SELECT pg_reload_conf()").unwrap();
}

/// Ends the sessions that do not know of a setting yet.
fn end_sessions_without(server: &TestServer, setting: &str) {
    let show = format!("SHOW {setting}");
    wait_until(|| server.sql("postgres", &show).unwrap() == "on", "it is not set");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    server.sql("postgres", end).unwrap();
}

/// Sends tasks until one is refused: a setting holds a little later.
async fn refused(store: &PostgresStore) -> StoreError {
    let begun = Instant::now();
    loop {
        match store.submit(vec![Submission { tasks: vec![draft(None)] }]).await {
            Ok(_) => assert!(begun.elapsed() < PATIENCE, "nothing is refused"),
            Err(error) => return error,
        }
    }
}

/// Servers that cannot write go on saying so until a setting is what it was.
async fn are_troubled(stores: [&PostgresStore; 2], server: &TestServer, setting: &str) {
    let begun = Instant::now();
    while begun.elapsed() < WHILE {
        for store in stores {
            store.get(Vec::new()).await.unwrap();
            store.stats().await.unwrap();
            assert!(store.status().trouble.is_some(), "{setting}: looks say nothing of writes");
        }
    }
    set(server, &format!("RESET {setting}"));
    let begun = Instant::now();
    for store in stores {
        // Nobody else writes: it goes by itself, though all try the same row.
        while let Some(trouble) = store.status().trouble {
            assert!(begun.elapsed() < PATIENCE, "{setting}: {trouble}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(store.check().await.unwrap(), []);
    }
}

#[test]
fn trouble_of_writes_stays_while_looks_succeed_and_goes_by_itself() {
    let server = TestServer::start(Care::Durable).unwrap();
    let options = Options {
        commit_time_max: Duration::from_secs(1),
        look_every: Duration::from_millis(100),
        ..fresh()
    };
    runtime().block_on(async {
        let store = PostgresStore::open(&server.address("postgres"), &options).await.unwrap();
        submit(&store, 1).await;
        let other = PostgresStore::open(&server.address("postgres"), &options).await.unwrap();

        set(&server, "SET synchronous_standby_names TO 'nobody'");
        for store in [&store, &other] {
            let unknown = refused(store).await;
            assert!(matches!(unknown, StoreError::OutcomeUnknown(_)), "{unknown}");
        }
        are_troubled([&store, &other], &server, "synchronous_standby_names").await;

        set(&server, "SET default_transaction_read_only TO on");
        end_sessions_without(&server, "default_transaction_read_only");
        for store in [&store, &other] {
            let unavailable = refused(store).await;
            assert!(matches!(unavailable, StoreError::Unavailable(_)), "{unavailable}");
        }
        are_troubled([&store, &other], &server, "default_transaction_read_only").await;
    });
}

fn of_type(name: &str) -> Draft {
    let task = NewTask::new(TaskType::new(name).unwrap(), "1");
    task.resolve(&Policies::default()).unwrap()
}

async fn submit_to(store: &PostgresStore, name: &str) -> TaskId {
    let submission = Submission { tasks: vec![of_type(name)] };
    let submitted = store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
    submitted.first().unwrap().id
}

async fn type_of(store: &PostgresStore, id: TaskId) -> Option<String> {
    let stored = store.get(vec![id]).await.unwrap().remove(0)?;
    Some(stored.task.spec.lane.task_type.as_str().to_owned())
}

fn wait_until(is_so: impl Fn() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A standby that has all so far, and gets nothing any more.
fn cut_off(primary: &TestServer, standby: &TestServer) {
    let end = primary.sql("postgres", "SELECT pg_current_wal_lsn()").unwrap();
    let has_all = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    wait_until(|| standby.sql("postgres", &has_all).unwrap() == "t", "it does not follow");
    set(standby, "SET primary_conninfo TO ''");
    let streams = || primary.sql("postgres", "SELECT count(*) FROM pg_stat_replication").unwrap();
    wait_until(|| streams() == "0", "it still follows");
}

#[test]
fn nothing_is_remembered_of_what_a_failover_lost() {
    let [primary, standby] = [(); 2].map(|()| TestServer::start(Care::Durable).unwrap());
    standby.follow(&primary).unwrap();
    let (first, second) = (primary.folder().display(), standby.folder().display());
    let address = format!("postgres:///postgres?user=postgres&host={first}&host={second}");
    let options = fresh();
    runtime().block_on(async {
        let store = PostgresStore::open(&address, &options).await.unwrap();
        let worker = register(&store).await;
        let kept = submit_to(&store, "a").await;
        cut_off(&primary, &standby);
        let held = claim(&store, worker, 1).await;
        assert_eq!(held[0].task.id, kept);
        let lost = submit_to(&store, "b").await;

        primary.crash().unwrap();
        standby.sql("postgres", "SELECT pg_promote()").unwrap();
        let begun = Instant::now();
        while store.head().await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "the store does not find the new primary");
        }
        let mut ids = vec![kept];
        for name in ["c", "b", "a"] {
            ids.push(submit_to(&store, name).await);
        }
        let other = PostgresStore::open(&address, &options).await.unwrap();
        for store in [&store, &other] {
            for (id, name) in ids.iter().zip(["a", "c", "b", "a"]) {
                assert_eq!(type_of(store, *id).await.as_deref(), Some(name));
            }
            assert_eq!(type_of(store, lost).await, None);
            assert_eq!(store.check().await.unwrap(), []);
        }
        let settled = store.execute(vec![completion(&held[0])]).await.unwrap().remove(0);
        assert!(matches!(settled, Err(Refusal::LeaseLost | Refusal::InvalidState { .. })));
        let claimed = claim(&store, worker, 10).await;
        let claimed: Vec<_> = claimed.iter().map(|claimed| claimed.task.id).collect();
        assert_eq!(claimed, ids, "its claim was lost too, and its place was not");
        assert_eq!(store.check().await.unwrap(), []);
    });
}
