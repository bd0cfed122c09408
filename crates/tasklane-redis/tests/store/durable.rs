//! What the answer to a write means (S1).

use std::time::Duration;

use tasklane_core::StateName;
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{Durability, Store, StoreError};

use crate::work::{
    DURABLE, LONG, claim, completion, open, options, repeatable, run, submit, token, until, worker,
};

/// A replica of another server that has everything it has.
pub(crate) fn replica_of(primary: &TestServer, settings: &[&str]) -> TestServer {
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = TestServer::start(&[settings, &["--replicaof", &of]].concat()).unwrap();
    let replicas = || primary.command::<u32>(&["WAIT", "1", "100"]).unwrap();
    let _: () = primary.command(&["SET", "probe", "1"]).unwrap();
    let begun = std::time::Instant::now();
    while replicas() < 1 {
        assert!(begun.elapsed() < LONG, "the replica does not follow");
    }
    replica
}

/// How often a server has carried out a command.
pub(crate) fn calls(server: &TestServer, command: &str) -> u64 {
    let stats: String = server.command(&["INFO", "commandstats"]).unwrap();
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Replicas have half of this to confirm: enough for those that do, and not too long where none does.
fn impatient() -> Options {
    Options { command_time_max: Duration::from_secs(12), ..options(Mode::Durable) }
}

#[test]
fn a_server_that_syncs_every_write_keeps_tasks_through_its_end_and_says_so() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        assert_eq!(store.status().durability, Durability::Aof);
        let id = submit(&store).await.unwrap();
        server.kill().unwrap();
        server.begin().unwrap();
        let store = open(&server.address(), Mode::Durable).await;
        assert!(store.get(vec![id]).await.unwrap()[0].is_some());
    });
}

#[test]
fn fast_means_memory_and_says_so() {
    let server = TestServer::start(&["--appendonly", "no"]).unwrap();
    let store = run(RedisStore::open(&server.address(), &options(Mode::Fast))).unwrap();
    assert_eq!(store.status().durability, Durability::Memory);
}

#[test]
fn a_write_that_a_paused_replica_does_not_confirm_is_reported_as_unknown() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let replica = replica_of(&primary, &[]);
    let address = format!("{}?replicas=1", primary.address());
    run(async {
        let store = RedisStore::open(&address, &impatient()).await.unwrap();
        submit(&store).await.unwrap();
        replica.pause().unwrap();
        let unknown = submit(&store).await;
        assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
        assert!(store.status().trouble.is_some());
        replica.resume().unwrap();
        submit(&store).await.unwrap();
        // It had been written: nothing was undone.
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 3);
        assert_eq!(store.status().trouble, None);
    });
}

#[test]
fn what_a_paused_replica_does_not_have_is_not_safe_because_it_is_asked_for_again() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let replica = replica_of(&primary, &[]);
    let address = format!("{}?replicas=1", primary.address());
    run(async {
        let store = RedisStore::open(&address, &impatient()).await.unwrap();
        submit(&store).await.unwrap();
        let worker = worker(&store).await;
        let held = claim(&store, worker, 1).await.remove(0);
        let settle = || store.execute(vec![completion(held.task.id, token(&held))]);
        replica.pause().unwrap();
        for _ in 0..2 {
            let (submitted, settled) = tokio::join!(store.submit(repeatable()), settle());
            assert!(matches!(submitted, Err(StoreError::OutcomeUnknown(_))), "{submitted:?}");
            assert!(matches!(settled, Err(StoreError::OutcomeUnknown(_))), "{settled:?}");
        }
        replica.resume().unwrap();
        let submitted = store.submit(repeatable()).await.unwrap().remove(0).unwrap();
        assert!(submitted.iter().all(|task| task.replayed), "{submitted:?}");
        assert!(settle().await.unwrap().remove(0).unwrap().repeated);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_store_is_ready_again_once_a_replica_confirms_and_not_before() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let replica = replica_of(&primary, &[]);
    let address = format!("{}?replicas=1", primary.address());
    run(async {
        let store = RedisStore::open(&address, &impatient()).await.unwrap();
        replica.pause().unwrap();
        let unknown = submit(&store).await;
        assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
        // What maintenance does all the time: there is nothing to be done.
        let looked = store.overdue(10).await;
        assert!(matches!(looked, Err(StoreError::OutcomeUnknown(_))), "{looked:?}");
        assert!(store.status().trouble.is_some());
        replica.resume().unwrap();
        until(async || store.overdue(10).await.is_ok()).await;
        assert_eq!(store.status().trouble, None);
    });
}

#[test]
fn a_write_that_too_few_replicas_have_is_reported_as_unknown() {
    let primary = TestServer::start(&DURABLE).unwrap();
    let _replica = replica_of(&primary, &[]);
    let address = format!("{}?replicas=2", primary.address());
    run(async {
        // Opening writes nothing that anybody waits for but its epoch, which is told as any write.
        let refused = RedisStore::open(&address, &impatient()).await;
        assert!(matches!(refused, Err(StoreError::OutcomeUnknown(_))), "{refused:?}");
    });
}

#[test]
fn a_newer_server_is_asked_whether_its_file_is_synced() {
    let server = TestServer::start_valkey(&["--appendonly", "yes"]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        assert_eq!(store.status().durability, Durability::Aof);
        let before = calls(&server, "waitaof");
        submit(&store).await.unwrap();
        assert!(calls(&server, "waitaof") > before);
    });
}

#[test]
fn a_repetition_waits_for_the_file_and_a_look_that_finds_nothing_does_not() {
    let server = TestServer::start_valkey(&["--appendonly", "yes"]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        store.submit(repeatable()).await.unwrap();
        let before = calls(&server, "waitaof");
        let submitted = store.submit(repeatable()).await.unwrap().remove(0).unwrap();
        assert!(submitted.iter().all(|task| task.replayed), "{submitted:?}");
        let after = calls(&server, "waitaof");
        assert!(after > before);
        store.overdue(10).await.unwrap();
        assert_eq!(calls(&server, "waitaof"), after);
    });
}

#[test]
fn a_server_that_does_not_sync_while_it_rewrites_is_asked_whether_its_file_is_synced() {
    let settings = [&DURABLE[..], &["--no-appendfsync-on-rewrite", "yes"]].concat();
    let server = TestServer::start_valkey(&settings).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        let before = calls(&server, "waitaof");
        submit(&store).await.unwrap();
        assert!(calls(&server, "waitaof") > before);
    });
}

#[test]
fn a_repetition_on_a_connection_where_nobody_has_looked_waits_as_that_server_asks() {
    let server = TestServer::start_valkey(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        store.submit(repeatable()).await.unwrap();
        // As on another server.
        let _: () = server.command(&["CONFIG", "SET", "appendfsync", "everysec"]).unwrap();
        let _: u32 = server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        let before = calls(&server, "waitaof");
        let submitted = store.submit(repeatable()).await.unwrap().remove(0).unwrap();
        assert!(submitted.iter().all(|task| task.replayed), "{submitted:?}");
        assert!(calls(&server, "waitaof") > before);
    });
}

#[test]
fn a_replica_that_keeps_no_file_does_not_count_where_files_count() {
    let primary = TestServer::start_valkey(&["--appendonly", "yes"]).unwrap();
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = TestServer::start_valkey(&["--replicaof", &of, "--appendonly", "yes"]).unwrap();
    let address = format!("{}?replicas=1", primary.address());
    run(async {
        let store = RedisStore::open(&address, &options(Mode::Durable)).await.unwrap();
        submit(&store).await.unwrap();
        let _: () = replica.command(&["CONFIG", "SET", "appendonly", "no"]).unwrap();
        let unknown = async || {
            let store = RedisStore::open(&address, &impatient()).await?;
            store.submit(repeatable()).await
        };
        // The second is a repetition: it is there, but not in both files.
        for unknown in [unknown().await, unknown().await] {
            assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
        }
    });
}
