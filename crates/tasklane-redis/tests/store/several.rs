//! Several servers on one store.

use std::collections::HashSet;
use std::time::Duration;

use tasklane_core::{Command, DepthLimits, Intent, QueueName, QueueSettings, StateName, TaskId};
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::{ClaimRequest, Claimed, Store};

use crate::work::{self, LONG, claim, completion, run, shared, tasks, token, until, worker};

async fn open(namespace: &str) -> RedisStore {
    let address = format!("{}?namespace={namespace}", shared().address());
    work::open(&address, Mode::Fast).await
}

#[test]
fn servers_that_write_at_once_give_out_each_task_once() {
    run(async {
        let stores = [open("several").await, open("several").await, open("several").await];
        let work = async |store: &RedisStore| {
            let worker = worker(store).await;
            let mut claimed = Vec::new();
            for _ in 0..20 {
                store.submit(tasks(5)).await.unwrap().remove(0).unwrap();
                let tasks = claim(store, worker, 5).await;
                claimed.extend(tasks.into_iter().map(|claimed| claimed.task.id));
            }
            claimed
        };
        let [one, two, three] = &stores;
        let (one_has, two_has, three_has) = tokio::join!(work(one), work(two), work(three));
        let all: Vec<_> = [one_has, two_has, three_has].concat();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "none twice");
        let stats = one.stats().await.unwrap();
        let waiting = stats.total(StateName::Pending) as usize;
        assert_eq!((all.len() + waiting, one.check().await.unwrap()), (300, vec![]));
    });
}

/// Claims and completes, many at a time, until so many are done.
async fn drain(store: &RedisStore, count: usize) -> Vec<TaskId> {
    let worker = worker(store).await;
    let mut done = Vec::new();
    let mut held: Vec<Claimed> = Vec::new();
    while done.len() < count {
        let settles = held.iter().map(|task| completion(task.task.id, token(task))).collect();
        done.extend(held.iter().map(|task| task.task.id));
        let request = ClaimRequest { worker, count: 50, auto_start: true, narrowed: None };
        let (settled, mut claimed) = store.execute_and_claim(settles, vec![request]).await.unwrap();
        assert!(settled.iter().all(Result::is_ok), "{settled:?}");
        held = claimed.remove(0).unwrap();
    }
    done
}

#[test]
fn what_is_decided_while_a_write_is_under_way_gives_out_each_task_once() {
    run(async {
        let (one, other) = (open("ahead").await, open("ahead").await);
        for _ in 0..10 {
            one.submit(tasks(500)).await.unwrap().remove(0).unwrap();
        }
        // One is alone for long stretches, in which it decides ahead; the other comes in between.
        let disturb = async {
            for _ in 0..30 {
                other.submit(tasks(1)).await.unwrap().remove(0).unwrap();
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        };
        let drains =
            async { tokio::join!(drain(&one, 1000), drain(&one, 1000), drain(&one, 1000)) };
        let ((first, second, third), ()) = tokio::join!(drains, disturb);
        let all = [first, second, third].concat();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "none twice");
        let stats = other.stats().await.unwrap();
        assert_eq!(stats.total(StateName::Completed) as usize, all.len());
        assert_eq!(other.check().await.unwrap(), vec![]);
    });
}

#[test]
fn what_a_server_remembers_gives_way_to_what_others_have_written() {
    run(async {
        let (one, other) = (open("remembered").await, open("remembered").await);
        let here = worker(&one).await;
        let submitted = one.submit(tasks(6)).await.unwrap().remove(0).unwrap();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.extend(claim(&one, here, 1).await);
        }
        // Each of these is known to be otherwise by the one that did not write it.
        let waiting: Vec<_> = submitted.iter().skip(4).map(|task| task.id).collect();
        let cancel = |task| Command { task, intent: Intent::Cancel };
        let cancelled = other.execute(waiting.iter().copied().map(cancel).collect()).await.unwrap();
        assert!(cancelled.iter().all(Result::is_ok));
        assert!(claim(&one, here, 5).await.is_empty(), "nothing is left to be claimed");
        let first = held.first().unwrap();
        let settle = completion(first.task.id, token(first));
        assert!(!other.execute(vec![settle.clone()]).await.unwrap().remove(0).unwrap().repeated);
        assert!(one.execute(vec![settle]).await.unwrap().remove(0).unwrap().repeated);
        assert_eq!(one.check().await.unwrap(), vec![]);
    });
}

#[test]
fn nobody_is_refused_because_of_what_was_true_before() {
    run(async {
        let (one, other) = (open("refused").await, open("refused").await);
        let settings = QueueSettings { depth: DepthLimits::flat(2), ..QueueSettings::default() };
        one.configure(QueueName::default_queue(), settings).await.unwrap();
        let submit = async || one.submit(tasks(1)).await.unwrap().remove(0);
        for _ in 0..2 {
            submit().await.unwrap();
        }
        for _ in 0..3 {
            submit().await.unwrap_err();
        }
        let there = worker(&other).await;
        assert_eq!(claim(&other, there, 1).await.len(), 1);
        submit().await.unwrap();
        submit().await.unwrap_err();
    });
}

#[test]
fn what_one_server_writes_is_a_hint_to_the_others() {
    run(async {
        let (one, other) = (open("hint").await, open("hint").await);
        let mut hints = other.watch();
        let before = *hints.borrow_and_update();
        one.submit(tasks(3)).await.unwrap();
        let head = one.head().await.unwrap().position;
        let told = hints.wait_for(|signal| signal.last >= head);
        let told = *tokio::time::timeout(LONG, told).await.unwrap().unwrap();
        assert!(told.claimable >= before.claimable + 3);
    });
}

#[test]
fn a_hint_tells_of_each_task_once_and_where_on_whichever_server() {
    run(async {
        let (one, two) = (open("hinted").await, open("hinted").await);
        let (seen_one, seen_two) = (one.watch().borrow().claimable, two.watch().borrow().claimable);
        let (one_worker, two_worker) = (worker(&one).await, worker(&two).await);
        // Both write: what one of them is writing, the other may see before that one knows.
        let work = async |store: &RedisStore, worker| {
            for _ in 0..50 {
                store.submit(tasks(2)).await.unwrap();
                let claimed = claim(store, worker, 2).await;
                let settles = claimed.iter().map(|task| completion(task.task.id, token(task)));
                store.execute(settles.collect()).await.unwrap();
            }
        };
        tokio::join!(work(&one, one_worker), work(&two, two_worker));
        for (store, seen) in [(&one, seen_one), (&two, seen_two)] {
            let head = store.head().await.unwrap();
            let mut hint = store.watch();
            until(async || hint.borrow_and_update().claimable - seen >= 200).await;
            // Whatever is told once too often comes with the next look.
            store.submit(tasks(1)).await.unwrap();
            let extra = if std::ptr::eq(store, &one) { 1 } else { 2 };
            until(async || hint.borrow_and_update().claimable - seen >= 200 + extra).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(hint.borrow().claimable - seen, 200 + extra);
            assert!(hint.borrow().last > head.position);
            assert_eq!(store.claimable_since(seen).unwrap().len(), 1);
        }
    });
}

#[test]
fn namespaces_know_nothing_of_each_other() {
    run(async {
        let (one, other) = (open("mine").await, open("yours").await);
        one.submit(tasks(2)).await.unwrap();
        assert_eq!(other.stats().await.unwrap().total(StateName::Pending), 0);
        assert_ne!(one.head().await.unwrap().epoch, other.head().await.unwrap().epoch);
    });
}
