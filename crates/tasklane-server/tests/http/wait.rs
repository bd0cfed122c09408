//! Looks that wait for the end of a task.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tasklane_core::{StateName, TaskId};
use tasklane_server::engine::EngineError;

use crate::site::Site;

const LONG: Duration = Duration::from_secs(30);

fn id_of(text: &str) -> TaskId {
    text.parse().unwrap()
}

#[test]
fn it_wakes_when_the_task_ends() {
    let site = Site::new();
    let worker = site.worker();
    // How late it is by itself: the machine may have been busy the other times.
    let late = |end: &str| {
        let id = site.submit(json!({}));
        let held = worker.claim_one();
        let waiting = {
            let (engine, id) = (Arc::clone(&site.engine), id_of(&id));
            site.spawn(async move {
                let stored = engine.wait_terminal(id, LONG).await.unwrap();
                (stored.task.state.name(), Instant::now())
            })
        };
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        let reply = worker.report(&held, json!({ "status": end }));
        assert_eq!(reply.status, 200, "{reply:?}");
        let settled = Instant::now();
        let (state, woken) = site.run(waiting).unwrap();
        assert_eq!(state.as_str(), end);
        woken.saturating_duration_since(settled)
    };
    for end in ["completed", "cancelled"] {
        let late = (0..5).map(|_| late(end)).min().unwrap();
        assert!(late < Duration::from_millis(100), "{late:?}");
    }
}

#[test]
fn it_gives_what_there_is_when_the_time_is_up() {
    let site = Site::new();
    let id = id_of(&site.submit(json!({})));
    let started = Instant::now();
    let stored = site.run(site.engine.wait_terminal(id, Duration::from_millis(60))).unwrap();
    assert_eq!(stored.task.state.name(), StateName::Pending);
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[test]
fn what_has_ended_or_is_not_there_is_not_waited_for() {
    let site = Site::new();
    let id = site.submit(json!({}));
    site.delete(&format!("/api/v1/tasks/{id}"));
    let stored = site.run(site.engine.wait_terminal(id_of(&id), LONG)).unwrap();
    assert_eq!(stored.task.state.name(), StateName::Cancelled);
    let unknown = id_of("01980000-0000-7000-8000-000000000000");
    let refused = site.run(site.engine.wait_terminal(unknown, LONG));
    assert_eq!(refused.unwrap_err(), EngineError::NotFound("task"));
}

#[test]
fn it_ends_with_the_server() {
    let site = Site::new();
    let id = id_of(&site.submit(json!({})));
    let engine = Arc::clone(&site.engine);
    let waiting = site.spawn(async move { engine.wait_terminal(id, LONG).await });
    std::thread::sleep(Duration::from_millis(20));
    site.begin_shutdown();
    let stored = site.run(waiting).unwrap().unwrap();
    assert_eq!(stored.task.state.name(), StateName::Pending);
}

#[test]
fn a_look_that_waits_is_answered_when_the_task_ends() {
    let site = Site::new();
    let worker = site.worker();
    let id = site.submit(json!({}));
    let held = worker.claim_one();
    std::thread::scope(|scope| {
        let look = || site.get(&format!("/api/v1/tasks/{id}?wait_seconds=30"));
        let (started, waiting) = (Instant::now(), scope.spawn(look));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished());
        worker.complete(&held);
        let reply = waiting.join().unwrap();
        assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
        assert_eq!((reply.status, &*reply.string("/state")), (200, "completed"));
        assert_eq!(reply.json()["result"], json!({"ok": true}));
    });
    let waited = site.submit(json!({}));
    let reply = site.get(&format!("/api/v1/tasks/{waited}?wait_seconds=0.05"));
    assert_eq!((reply.status, &*reply.string("/state")), (200, "pending"));
}
