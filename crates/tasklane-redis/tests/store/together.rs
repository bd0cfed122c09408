//! What is kept together for many tasks: those that were completed at once, and what a worker holds.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{Clock, Command, Intent, Retention, StateName};
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::conformance::ManualClock;
use tasklane_store::{Filter, Prune, Query, Store, maintain};

use crate::work::{self, claim, completion, open, run, tasks, token, worker};

#[test]
fn tasks_completed_at_once_are_listed_as_few_and_removed_as_many_as_asked() {
    let server = TestServer::start(&[]).unwrap();
    let lists = || -> i64 { server.command(&["ZCARD", "{together}:ended:0:completed"]).unwrap() };
    run(async {
        let address = format!("{}?namespace=together", server.address());
        let store = open(&address, Mode::Fast).await;
        let worker = worker(&store).await;
        store.submit(tasks(150)).await.unwrap().remove(0).unwrap();
        let claimed = claim(&store, worker, 150).await;
        let settles = claimed.iter().map(|task| completion(task.task.id, token(task)));
        let settled = store.execute(settles.collect()).await.unwrap();
        assert!(settled.iter().all(Result::is_ok));
        assert_eq!((lists(), store.check().await.unwrap()), (3, vec![]));

        let discard = Command { task: claimed[70].task.id, intent: Intent::Discard };
        store.execute(vec![discard]).await.unwrap().remove(0).unwrap();
        let filter = Filter { states: vec![StateName::Completed], ..Filter::default() };
        let query = Query::new(filter, 1_000);
        let listed: HashSet<_> =
            store.list(query).await.unwrap().tasks.into_iter().map(|task| task.task.id).collect();
        assert_eq!((listed.len(), listed.contains(&claimed[70].task.id)), (149, false));

        let retention = Retention { completed: Some(Duration::ZERO), ..Retention::default() };
        let mut left = 149;
        for limit in [10, 64, 1] {
            let pruned = store.prune(Prune { retention, limit, ..Prune::default() }).await.unwrap();
            // The one that was discarded may be among those looked at.
            assert!((limit - 1..=limit).contains(&(pruned.tasks_total() as usize)) && pruned.more);
            left -= pruned.tasks_total();
            assert_eq!(store.stats().await.unwrap().total(StateName::Completed), left);
            assert_eq!(store.check().await.unwrap(), []);
        }
        while store.prune(Prune { retention, ..Prune::default() }).await.unwrap().more {}
        assert_eq!((lists(), store.stats().await.unwrap().total(StateName::Completed)), (0, 0));
    });
}

#[test]
fn leases_of_many_workers_are_looked_at_in_slices_past_those_that_nobody_takes_back() {
    const WORKERS: usize = 70;
    let server = TestServer::start(&[]).unwrap();
    let clock = Arc::new(ManualClock::default());
    run(async {
        let options =
            Options { clock: Some(clock.clone() as Arc<dyn Clock>), ..work::options(Mode::Fast) };
        let store = RedisStore::open(&server.address(), &options).await.unwrap();
        let mut held = HashSet::new();
        for number in 0..WORKERS {
            let (worker, count) = (worker(&store).await, if number == 0 { 300 } else { 2 });
            store.submit(tasks(count)).await.unwrap().remove(0).unwrap();
            held.extend(claim(&store, worker, count).await.into_iter().map(|task| task.task.id));
        }
        assert_eq!(store.overdue(50).await.unwrap().commands, []);
        clock.advance(Duration::from_secs(31));
        let mut proposed = HashSet::new();
        for _ in 0..(held.len().div_ceil(50) + 4) {
            let overdue = store.overdue(50).await.unwrap();
            assert!(overdue.commands.len() <= 50);
            proposed.extend(overdue.commands.into_iter().map(|command| command.task));
        }
        assert_eq!(proposed, held, "each is proposed, though none was carried out");
        maintain(&store).await.unwrap();
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.total(StateName::Pending) as usize, held.len());
        let leases: i64 = server.command(&["EXISTS", "{tasklane}:leases"]).unwrap();
        assert_eq!((leases, store.check().await.unwrap()), (0, vec![]));
    });
}
