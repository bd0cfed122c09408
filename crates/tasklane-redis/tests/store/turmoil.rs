//! What is done to a server while producers and workers go on: it is refused or heals, and nothing that
//! was answered is lost.

use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::{Store, StoreError};

use crate::traffic::{self, Told, judge, produce};
use crate::work::{DURABLE, open, run, submit, tasks, until};

/// Tasks that are taken between two disturbances, at least.
const MORE: usize = 200;

fn configure(server: &TestServer, name: &str, value: &str) {
    server.command::<()>(&["CONFIG", "SET", name, value]).unwrap();
}

/// Two servers under load, and what happens to their Redis meanwhile. In the end all is well again.
fn under_load(settings: &[&str], disturb: impl AsyncFn(&TestServer, &RedisStore, &Told)) {
    let server = TestServer::start(&[&DURABLE[..], settings].concat()).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        let beside = open(&server.address(), Mode::Durable).await;
        let told = Told::default();
        let disturb = async {
            told.more(MORE).await;
            disturb(&server, &store, &told).await;
            told.more(MORE).await;
            told.end();
        };
        let here = async || produce(&store, &told, 5).await;
        let there = async || produce(&beside, &told, 5).await;
        let work = async |store: &RedisStore| traffic::work(store, &told, 10).await;
        tokio::join!(disturb, here(), here(), there(), work(&store), work(&beside), work(&beside));
        judge(&store, &told).await;
        // Either may hear of the end later than the other.
        for store in [&store, &beside] {
            until(async || submit(store).await.is_ok() && store.status().trouble.is_none()).await;
        }
    });
}

#[test]
fn scripts_that_are_forgotten_under_load_cost_nothing() {
    under_load(&[], async |server, store, told| {
        for _ in 0..20 {
            server.command::<()>(&["SCRIPT", "FLUSH"]).unwrap();
            told.more(20).await;
            assert_eq!(store.status().trouble, None);
        }
    });
}

#[test]
fn a_policy_that_would_remove_tasks_stops_all_writes_under_load_until_it_is_set_right() {
    under_load(&["--maxmemory", "200mb"], async |server, store, told| {
        for _ in 0..2 {
            configure(server, "maxmemory-policy", "allkeys-lru");
            let word = "noeviction";
            let says = || store.status().trouble.is_some_and(|trouble| trouble.contains(word));
            until(async || says()).await;
            let refused = submit(store).await;
            assert!(matches!(&refused, Err(StoreError::Unavailable(text)) if text.contains(word)));
            configure(server, "maxmemory-policy", "noeviction");
            told.more(MORE).await;
        }
    });
}

#[test]
fn memory_that_is_reached_under_load_stops_submissions_while_what_is_there_is_completed() {
    under_load(&["--maxmemory-policy", "noeviction"], async |server, store, told| {
        for _ in 0..3 {
            // More than workers complete in a moment.
            store.submit(tasks(500)).await.unwrap().remove(0).unwrap();
            configure(server, "maxmemory", "1");
            until(async || matches!(submit(store).await, Err(StoreError::Full(_)))).await;
            told.more_completed(MORE / 4).await;
            assert!(matches!(submit(store).await, Err(StoreError::Full(_))));
            configure(server, "maxmemory", "0");
            told.more(MORE).await;
        }
    });
}
