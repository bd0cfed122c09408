//! Several servers on one store.

use std::collections::HashSet;

use tasklane_core::StateName;
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::Store;

use crate::work::{self, LONG, claim, run, shared, tasks, worker};

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
fn namespaces_know_nothing_of_each_other() {
    run(async {
        let (one, other) = (open("mine").await, open("yours").await);
        one.submit(tasks(2)).await.unwrap();
        assert_eq!(other.stats().await.unwrap().total(StateName::Pending), 0);
        assert_ne!(one.head().await.unwrap().epoch, other.head().await.unwrap().epoch);
    });
}
