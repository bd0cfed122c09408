//! A server that was started again may have forgotten something: a new epoch begins.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{Clock, NewTask, Policies, QueueName, Refusal, StateName, TaskType, Timestamp};
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::conformance::ManualClock;
use tasklane_store::{Claimed, Cursor, Store, StoreError, Submission, maintain};

use crate::traffic::{self, Told, judge, produce};
use crate::work::{
    DURABLE, claim, completion, open, options, run, submit, tasks, token, until, worker,
};

fn again(server: &TestServer) {
    server.kill().unwrap();
    server.begin().unwrap();
}

async fn submit_to(store: &RedisStore, queue: &str) -> Result<(), StoreError> {
    let mut task = NewTask::new(TaskType::new("a").unwrap(), "payload");
    task.queue = QueueName::new(queue).unwrap();
    let tasks = vec![task.resolve(&Policies::default()).unwrap()];
    store.submit(vec![Submission { tasks }]).await?.remove(0).unwrap();
    Ok(())
}

#[test]
fn a_server_that_forgot_everything_begins_anew() {
    let server = TestServer::start(&["--appendonly", "no"]).unwrap();
    run(async {
        let (one, other) =
            (open(&server.address(), Mode::Fast).await, open(&server.address(), Mode::Fast).await);
        for queue in ["a", "b"] {
            submit_to(&one, queue).await.unwrap();
        }
        let seen = other.head().await.unwrap();
        again(&server);
        // Lanes have other numbers than either of them remembers.
        until(async || submit_to(&other, "c").await.is_ok()).await;
        until(async || submit_to(&one, "b").await.is_ok()).await;
        for store in [&one, &other] {
            let queues = store.queues().await.unwrap();
            let mut names: Vec<_> = queues.iter().map(|queue| queue.queue.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["b", "c"]);
            assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 2);
            assert_eq!(store.check().await.unwrap(), []);
        }
        assert!(one.events_after(seen, 10).await.unwrap().gap, "what was read is not there");
        let worker = worker(&one).await;
        assert_eq!(claim(&one, worker, 5).await.len(), 2);
    });
}

#[test]
fn who_has_read_what_is_still_there_misses_nothing_and_is_told_of_no_gap() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        submit(&store).await.unwrap();
        let seen = store.head().await.unwrap();
        for _ in 0..3 {
            again(&server);
            until(async || submit(&store).await.is_ok()).await;
        }
        let page = store.events_after(seen, 10).await.unwrap();
        assert_ne!(page.next.epoch, seen.epoch);
        assert_eq!((page.gap, page.events.len()), (false, 3));
        let ahead = Cursor { epoch: seen.epoch, position: seen.position.next() };
        assert!(store.events_after(ahead, 10).await.unwrap().gap, "that was never there");
    });
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-rT").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Puts a copy of its file back in place of what a server has.
fn put_back(server: &TestServer, file: &Path, kept: &Path) {
    server.kill().unwrap();
    std::fs::remove_dir_all(file).unwrap();
    copy(kept, file);
    server.begin().unwrap();
}

#[test]
fn a_copy_that_is_put_back_keeps_its_leases_until_they_end() {
    let server = TestServer::start(&DURABLE).unwrap();
    let clock = Arc::new(ManualClock::default());
    let (file, kept) = (server.folder().join("appendonlydir"), server.folder().join("kept"));
    run(async {
        let options = Options { clock: Some(clock.clone()), ..options(Mode::Fast) };
        let store = RedisStore::open(&server.address(), &options).await.unwrap();
        store.submit(tasks(2)).await.unwrap().remove(0).unwrap();
        let early = worker(&store).await;
        let held = claim(&store, early, 2).await;
        let settle = async |held: &Claimed| {
            let settled = store.execute(vec![completion(held.task.id, token(held))]).await;
            settled.unwrap().remove(0)
        };
        copy(&file, &kept);
        settle(&held[0]).await.unwrap();
        put_back(&server, &file, &kept);
        until(async || submit(&store).await.is_ok()).await;
        // It was completed after the copy, so it is once more.
        assert!(!settle(&held[0]).await.unwrap().repeated);
        clock.advance(Duration::from_secs(31));
        maintain(&store).await.unwrap();
        let late = worker(&store).await;
        let mut again = claim(&store, late, 1_000).await;
        again.retain(|claimed| claimed.task.id == held[1].task.id);
        assert!(again[0].task.fence > held[1].task.fence);
        assert_eq!(settle(&held[1]).await, Err(Refusal::LeaseLost));
        settle(&again[0]).await.unwrap();
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_claim_that_was_forgotten_gives_way_to_the_next_with_a_higher_fence() {
    let server = TestServer::start(&DURABLE).unwrap();
    let clock = Arc::new(ManualClock::default());
    let (file, kept) = (server.folder().join("appendonlydir"), server.folder().join("kept"));
    run(async {
        let options = Options { clock: Some(clock.clone()), ..options(Mode::Fast) };
        let store = RedisStore::open(&server.address(), &options).await.unwrap();
        let id = submit(&store).await.unwrap();
        let (early, late) = (worker(&store).await, worker(&store).await);
        copy(&file, &kept);
        let first = claim(&store, early, 1).await.remove(0);
        put_back(&server, &file, &kept);
        // The clock of whoever takes over is behind.
        clock.set_wall(Timestamp::from_micros(clock.wall().as_micros() - 3_600_000_000));
        until(async || submit(&store).await.is_ok()).await;
        let mut second = claim(&store, late, 1_000).await;
        second.retain(|claimed| claimed.task.id == id);
        let second = second.remove(0);
        assert_eq!(first.task.id, id);
        assert!(second.task.fence > first.task.fence, "{second:?}");
        let stale = store.execute(vec![completion(id, token(&first))]).await.unwrap();
        assert_eq!(stale, [Err(Refusal::LeaseLost)]);
        let current = store.execute(vec![completion(id, token(&second))]).await.unwrap();
        assert!(current[0].is_ok(), "{current:?}");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn what_was_answered_is_there_though_redis_is_killed_with_several_writes_under_way() {
    let server = TestServer::start(&DURABLE).unwrap();
    run(async {
        let store = open(&server.address(), Mode::Durable).await;
        let told = Told::default();
        let kill = async {
            for _ in 0..5 {
                // Long enough alone that it knows what is there, and sends writes behind one another.
                told.more(400).await;
                again(&server);
            }
            told.more(20).await;
            told.end();
        };
        let produce = async || produce(&store, &told, 40).await;
        let work = async || traffic::work(&store, &told, 40).await;
        tokio::join!(kill, produce(), produce(), produce(), produce(), work(), work(), work());
        judge(&store, &told).await;
    });
}
