//! What the store asks of a server before tasks are entrusted to it, and afterwards.

use tasklane_core::StateName;
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::{Store, StoreError};

use crate::durable::replica_of;
use crate::work::{DURABLE, open, options, repeatable, run, submit, tasks, until};

fn refusal(server: &TestServer, mode: Mode) -> String {
    run(RedisStore::open(&server.address(), &options(mode))).unwrap_err().to_string()
}

fn configure(server: &TestServer, name: &str, value: &str) {
    server.command::<()>(&["CONFIG", "SET", name, value]).unwrap();
}

#[test]
fn a_server_without_its_file_is_refused_and_told_what_to_set() {
    let server = TestServer::start(&["--appendonly", "no"]).unwrap();
    assert!(refusal(&server, Mode::Durable).contains("appendonly yes"));
}

#[test]
fn a_file_that_is_synced_later_is_not_enough_where_that_cannot_be_waited_for() {
    let server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]).unwrap();
    assert!(refusal(&server, Mode::Durable).contains("appendfsync always"));
}

#[test]
fn a_server_that_would_remove_tasks_is_refused() {
    let settings = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let server = TestServer::start(&settings).unwrap();
    assert!(refusal(&server, Mode::Fast).contains("noeviction"));
    // Only what is to expire is removed by this one, and nothing of ours is.
    configure(&server, "maxmemory-policy", "volatile-lru");
    run(open(&server.address(), Mode::Fast));
}

#[test]
fn a_replica_is_refused() {
    let primary = TestServer::start(&[]).unwrap();
    let replica = replica_of(&primary, &[]);
    assert!(refusal(&replica, Mode::Fast).contains("primary"));
}

/// What is set while a store is open, what it is told, and how it is set right again.
fn is_noticed(name: &str, wrong: &str, right: &str, word: &str) {
    let settings = [&DURABLE[..], &["--maxmemory", "100mb"]].concat();
    let server = TestServer::start(&settings).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        store.submit(repeatable()).await.unwrap();
        configure(&server, name, wrong);
        until(async || store.status().trouble.is_some_and(|trouble| trouble.contains(word))).await;
        for tasks in [tasks(1), repeatable()] {
            let refused = store.submit(tasks).await;
            assert!(matches!(&refused, Err(StoreError::Unavailable(text)) if text.contains(word)));
        }
        configure(&server, name, right);
        until(async || submit(&store).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 3, "none lost");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_policy_that_removes_tasks_stops_writes_until_it_is_set_right() {
    is_noticed("maxmemory-policy", "allkeys-lru", "noeviction", "maxmemory-policy noeviction");
}

#[test]
fn a_file_that_is_no_longer_synced_stops_writes_until_it_is() {
    is_noticed("appendfsync", "everysec", "always", "appendfsync always");
}

#[test]
fn a_file_that_is_no_longer_kept_stops_writes_until_it_is() {
    is_noticed("appendonly", "no", "yes", "appendonly yes");
}
