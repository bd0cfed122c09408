//! A primary that dies, and a standby that takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tasklane_core::{StateName, TaskId, WorkerId};
use tasklane_postgres::PostgresStore;
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_store::{ClaimRequest, Store, Submission};

use crate::fixture::runtime;
use crate::servers::{completion, draft, fresh, register};

/// How often the primary dies, unless `TASKLANE_FAILOVERS` says otherwise.
const FAILOVERS: usize = 5;
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the store has said that it has.
#[derive(Default)]
struct Acknowledged {
    submitted: Vec<TaskId>,
    completed: Vec<TaskId>,
    refused: usize,
}

/// Submits, claims and completes until it is told to stop; goes on whatever comes back.
async fn work(store: Arc<PostgresStore>, worker: WorkerId, over: Arc<AtomicBool>) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    while !over.load(Ordering::Relaxed) {
        let tasks = vec![draft(None), draft(None)];
        match store.submit(vec![Submission { tasks }]).await {
            Ok(verdicts) => {
                let ids = verdicts.into_iter().flat_map(Result::unwrap).map(|task| task.id);
                acknowledged.submitted.extend(ids);
            }
            Err(_) => {
                acknowledged.refused += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let request = ClaimRequest { worker, count: 1, auto_start: true, narrowed: None };
        let Ok(claimed) = store.claim(vec![request]).await else { continue };
        for claimed in claimed.into_iter().flat_map(Result::unwrap) {
            if let Ok(verdicts) = store.execute(vec![completion(&claimed)]).await
                && verdicts.iter().all(Result::is_ok)
            {
                acknowledged.completed.push(claimed.task.id);
            }
        }
    }
    acknowledged
}

/// Waits until the primary waits for its standby.
fn synchronize(primary: &TestServer) {
    let set = "ALTER SYSTEM SET synchronous_standby_names TO '*'";
    primary.sql("postgres", set).unwrap();
    primary.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    let begun = Instant::now();
    let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    while primary.sql("postgres", state).unwrap() != "1" {
        assert!(begun.elapsed() < PATIENCE, "the standby does not follow");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_was_acknowledged_outlives_every_failover_to_a_synchronous_standby() {
    let failovers = std::env::var("TASKLANE_FAILOVERS");
    let failovers = failovers.map_or(FAILOVERS, |count| count.parse().unwrap());
    let servers = [(); 2].map(|()| TestServer::start(Care::Durable).unwrap());
    servers[1].follow(&servers[0]).unwrap();
    synchronize(&servers[0]);
    let address = format!(
        "postgres:///postgres?user=postgres&host={}&host={}",
        servers[0].folder().display(),
        servers[1].folder().display()
    );
    let options = fresh();
    let store = Arc::new(runtime().block_on(PostgresStore::open(&address, &options)).unwrap());
    let over = Arc::new(AtomicBool::new(false));
    let workers = [(); 3].map(|()| runtime().block_on(register(&store)));
    let working =
        workers.map(|own| runtime().spawn(work(Arc::clone(&store), own, Arc::clone(&over))));
    for failover in 0..failovers {
        let (primary, standby) = (&servers[failover % 2], &servers[(failover + 1) % 2]);
        std::thread::sleep(Duration::from_millis(500));
        primary.crash().unwrap();
        standby.sql("postgres", "SELECT pg_promote()").unwrap();
        // It has no standby of its own yet, and must not wait for one.
        standby.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names").unwrap();
        standby.sql("postgres", "SELECT pg_reload_conf()").unwrap();
        let begun = Instant::now();
        while runtime().block_on(store.head()).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the store does not find the new primary");
        }
        primary.follow(standby).unwrap();
        synchronize(standby);
    }
    over.store(true, Ordering::Relaxed);
    runtime().block_on(async {
        let mut submitted = 0;
        for working in working {
            let acknowledged = working.await.unwrap();
            assert!(acknowledged.refused > 0, "the outages were noticed");
            submitted += acknowledged.submitted.len();
            for ids in acknowledged.submitted.chunks(500) {
                assert!(store.get(ids.to_vec()).await.unwrap().iter().all(Option::is_some));
            }
            for ids in acknowledged.completed.chunks(500) {
                for stored in store.get(ids.to_vec()).await.unwrap() {
                    assert_eq!(stored.unwrap().task.state.name(), StateName::Completed);
                }
            }
        }
        assert!(submitted > failovers, "{submitted}");
        assert_eq!(store.check().await.unwrap(), []);
    });
    // A standby is no copy that was restored: servers that start on it leave the leases alone.
    let at_home = format!(
        "SET search_path TO \"{}\"; SELECT value = home() FROM meta WHERE name = 'home'",
        options.schema
    );
    assert_eq!(servers[failovers % 2].sql("postgres", &at_home).unwrap(), "t");
}
