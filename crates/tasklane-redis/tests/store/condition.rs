//! What the store asks of a server before tasks are entrusted to it, and afterwards.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tasklane_core::StateName;
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, RedisStore};
use tasklane_store::{Store, StoreError};
use tempfile::TempDir;

use crate::durable::{calls, replica_of};
use crate::work::{DURABLE, open, options, repeatable, run, submit, tasks, until};

const EVICTING: [&str; 4] = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];

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
    let server = TestServer::start(&EVICTING).unwrap();
    assert!(refusal(&server, Mode::Fast).contains("noeviction"));
    // Only what is to expire is removed by this one, and nothing of ours is.
    configure(&server, "maxmemory-policy", "volatile-lru");
    run(open(&server.address(), Mode::Fast));
}

/// The address of a server for a user to whom its settings are not shown.
fn blind(server: &TestServer) -> String {
    let user = ["ACL", "SETUSER", "blind", "on", ">password", "~*", "&*", "+@all", "-config|get"];
    server.command::<()>(&user).unwrap();
    format!("redis://blind:password@127.0.0.1:{}/", server.port())
}

#[test]
fn settings_that_are_not_shown_are_no_way_around_what_is_looked_at() {
    for (settings, word) in [
        (vec!["--appendonly", "no"], "appendonly yes"),
        ([&DURABLE[..], &EVICTING[..]].concat(), "noeviction"),
    ] {
        let server = TestServer::start(&settings).unwrap();
        let refused = run(RedisStore::open(&blind(&server), &options(Mode::Durable)));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn commands_that_were_taken_from_everybody_are_no_way_around_it_either() {
    let nameless = ["--rename-command", "CONFIG", ""];
    let server = TestServer::start(&[&nameless[..], &EVICTING[..]].concat()).unwrap();
    assert!(refusal(&server, Mode::Fast).contains("noeviction"));
    let server = TestServer::start(&[&nameless[..], &DURABLE[..]].concat()).unwrap();
    run(open(&server.address(), Mode::Durable));
}

#[test]
fn a_policy_that_removes_tasks_stops_writes_though_settings_are_not_shown() {
    let settings = [&DURABLE[..], &["--maxmemory", "100mb"]].concat();
    let server = TestServer::start(&settings).unwrap();
    run(async {
        let store = open(&blind(&server), Mode::Durable).await;
        submit(&store).await.unwrap();
        configure(&server, "maxmemory-policy", "allkeys-random");
        let word = "maxmemory-policy noeviction";
        until(async || store.status().trouble.is_some_and(|trouble| trouble.contains(word))).await;
        assert!(matches!(submit(&store).await, Err(StoreError::Unavailable(_))));
        configure(&server, "maxmemory-policy", "noeviction");
        until(async || submit(&store).await.is_ok()).await;
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 2, "none lost");
    });
}

#[test]
fn a_newer_server_that_does_not_show_its_settings_is_asked_whether_its_file_is_synced() {
    let server = TestServer::start_valkey(&["--appendonly", "yes"]).unwrap();
    run(async {
        let store = open(&blind(&server), Mode::Durable).await;
        let before = calls(&server, "waitaof");
        submit(&store).await.unwrap();
        assert!(calls(&server, "waitaof") > before);
    });
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

#[test]
fn writes_that_are_refused_for_want_of_replicas_are_tried_again_until_they_are_not() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        configure(&server, "min-replicas-to-write", "1");
        let refused = submit(&store).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        // What maintenance does all the time: there is nothing to be done.
        let looked = store.overdue(10).await;
        assert!(matches!(looked, Err(StoreError::Unavailable(_))), "{looked:?}");
        assert!(store.status().trouble.is_some());
        configure(&server, "min-replicas-to-write", "0");
        store.overdue(10).await.unwrap();
        assert_eq!(store.status().trouble, None);
    });
}

/// Makes a server a replica of whatever is at a port; of nothing without one.
fn demote(server: &TestServer, port: Option<u16>) {
    let (host, port) =
        port.map_or(("NO", "ONE".to_owned()), |port| ("127.0.0.1", port.to_string()));
    server.command::<()>(&["REPLICAOF", host, &port]).unwrap();
}

/// An address that leads elsewhere later.
struct Moving(TempDir);

impl Moving {
    fn to(server: &TestServer) -> Self {
        let moving = Self(tempfile::tempdir().unwrap());
        moving.lead_to(server);
        moving
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    fn text(&self) -> String {
        format!("unix://{}", self.path().display())
    }

    fn lead_to(&self, server: &TestServer) {
        let next = self.0.path().join("next");
        symlink(server.folder().join("socket"), &next).unwrap();
        std::fs::rename(next, self.path()).unwrap();
    }
}

#[test]
fn a_server_that_becomes_a_replica_stops_writes_until_it_is_none() {
    let (server, other) = (TestServer::start(&DURABLE).unwrap(), TestServer::start(&[]).unwrap());
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        submit(&store).await.unwrap();
        demote(&server, Some(other.port()));
        let word = "replica";
        until(async || store.status().trouble.is_some_and(|trouble| trouble.contains(word))).await;
        let refused = submit(&store).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        demote(&server, None);
        until(async || submit(&store).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
    });
}

#[test]
fn a_server_that_became_a_replica_is_left_for_whatever_its_address_leads_to_now() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let (replica, other) = (replica_of(&primary, &DURABLE), TestServer::start(&[]).unwrap());
    let address = Moving::to(&primary);
    run(async {
        let store = open(&address.text(), Mode::Durable).await;
        let id = submit(&store).await.unwrap();
        let _: u32 = primary.command(&["WAIT", "1", "60000"]).unwrap();
        demote(&primary, Some(other.port()));
        // A look has met it, and nothing that was written.
        let word = "replica";
        until(async || store.status().trouble.is_some_and(|trouble| trouble.contains(word))).await;
        demote(&replica, None);
        address.lead_to(&replica);
        until(async || submit(&store).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
        // Looks have followed: there is nothing any more where they were made.
        assert!(store.get(vec![id]).await.unwrap()[0].is_some());
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 2);
    });
}

#[test]
fn looks_follow_a_write_that_met_a_replica_first() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let (replica, other) = (replica_of(&primary, &DURABLE), TestServer::start(&[]).unwrap());
    let address = Moving::to(&primary);
    run(async {
        let store = open(&address.text(), Mode::Durable).await;
        submit(&store).await.unwrap();
        let _: u32 = primary.command(&["WAIT", "1", "60000"]).unwrap();
        demote(&replica, None);
        address.lead_to(&replica);
        demote(&primary, Some(other.port()));
        let mut id = None;
        until(async || {
            id = submit(&store).await.ok();
            id.is_some()
        })
        .await;
        assert!(store.get(id.into_iter().collect()).await.unwrap()[0].is_some());
    });
}
