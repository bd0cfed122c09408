//! What contradicts itself: a check finds it, and a store that knows of it does not take itself for well.

use tasklane_core::{Command, Intent, StateName};
use tasklane_redis::Mode;
use tasklane_redis::test_server::TestServer;
use tasklane_store::{Store, StoreError};

use crate::work::{open, run, submit, tasks};

/// Removes the only task that there is, but not what tells of it.
const REMOVE: &str = "local ids = redis.call('HKEYS', '{tasklane}:task') \
                      return redis.call('HDEL', '{tasklane}:task', ids[1])";

#[test]
fn an_id_that_is_listed_though_its_task_is_gone_is_found() {
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let gone = submit(&store).await.unwrap();
        assert_eq!(server.command::<u32>(&["EVAL", REMOVE, "0"]).unwrap(), 1);
        let kept = submit(&store).await.unwrap();
        let findings = store.check().await.unwrap();
        let of =
            |id| findings.iter().filter(|found| found.place.contains(&format!("{id}"))).count();
        assert_eq!((of(gone), of(kept)), (1, 0), "{findings:?}");
    });
}

#[test]
fn tasks_that_come_and_go_during_a_check_are_no_finding() {
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        let come_and_go = async {
            for _ in 0..100 {
                let submitted = store.submit(tasks(5)).await.unwrap().remove(0).unwrap();
                for intent in [Intent::Cancel, Intent::Discard] {
                    let command = |id| Command { task: id, intent: intent.clone() };
                    let commands = submitted.iter().map(|task| command(task.id)).collect();
                    let done = store.execute(commands).await.unwrap();
                    assert!(done.iter().all(Result::is_ok), "{done:?}");
                }
            }
        };
        let check = async {
            for _ in 0..100 {
                assert_eq!(store.check().await.unwrap(), []);
            }
        };
        tokio::join!(come_and_go, check);
    });
}

fn command(server: &TestServer, parts: &[&str]) {
    server.command::<()>(parts).unwrap();
}

#[test]
fn a_write_that_stopped_half_way_is_trouble_though_later_ones_succeed() {
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        // Something else is where the feed will be, so a write stops there.
        command(&server, &["SET", "{tasklane}:feed", "in the way"]);
        let half = submit(&store).await;
        assert!(matches!(&half, Err(StoreError::Corrupt(text)) if text.contains("half way")));
        command(&server, &["DEL", "{tasklane}:feed"]);
        submit(&store).await.unwrap();
        let trouble = store.status().trouble;
        assert!(trouble.is_some_and(|trouble| trouble.contains("half way")));
        assert!(!store.check().await.unwrap().is_empty(), "half of a task is there");
        assert!(store.status().trouble.is_some(), "a look has found it, so it stays");
    });
}

#[test]
fn a_write_that_stopped_half_way_is_forgiven_once_a_check_has_found_nothing_wrong() {
    let server = TestServer::start(&[]).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Fast).await;
        submit(&store).await.unwrap();
        // Nothing of a task is written before this.
        command(&server, &["RENAME", "{tasklane}:task", "{tasklane}:aside"]);
        command(&server, &["SET", "{tasklane}:task", "in the way"]);
        assert!(matches!(submit(&store).await, Err(StoreError::Corrupt(_))));
        command(&server, &["RENAME", "{tasklane}:aside", "{tasklane}:task"]);
        submit(&store).await.unwrap();
        assert!(store.status().trouble.is_some());
        assert_eq!(store.check().await.unwrap(), []);
        assert_eq!(store.status().trouble, None);
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 2);
    });
}
