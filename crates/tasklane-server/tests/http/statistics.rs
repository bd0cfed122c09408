//! What was done lately.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tasklane_core::QueueName;
use tasklane_server::engine::Engine;
use tasklane_server::{Server, Settings};
use tasklane_store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::site::{PATIENCE, Site};

fn completed(engine: &Engine, count: u64) -> bool {
    engine.statistics().completed_last_minute() == count
}

#[test]
fn figures_follow_what_happens() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..3 {
        site.submit(json!({"queue": "mail"}));
    }
    site.pass(Duration::from_secs(4));
    let held = worker.poll(3);
    site.pass(Duration::from_secs(2));
    worker.complete(&held[0]);
    worker.complete(&held[1]);
    worker.fail(&held[2], json!({"message": "no", "kind": "permanent"}));
    site.eventually("all is counted", || site.engine.statistics().failed_last_minute() == 1);
    let lately = site.engine.statistics();
    assert_eq!(lately.completed_last_minute(), 2);
    assert_eq!(lately.average_duration(), Duration::from_secs(2));
    let wait = lately.wait_percentile(0.5).as_secs_f64();
    assert!((3.7..4.3).contains(&wait), "{wait}");
    assert_eq!(lately.claims_per_second(&QueueName::new("mail").unwrap()), 3.0 / 60.0);
    assert_eq!((lately.lease_losses_last_hour(), lately.timeouts_last_hour()), (0, 0));
    let minutes = site.get("/api/v1/stats/minutes").json();
    let sum = |name: &str| {
        let all = minutes["minutes"].as_array().unwrap().iter();
        all.map(|minute| minute[name].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("submitted"), sum("claimed"), sum("completed")), (3, 3, 2));
    assert_eq!((sum("failed"), sum("dead_lettered")), (1, 1));
    site.pass(Duration::from_secs(61));
    assert_eq!(site.engine.statistics().completed_last_minute(), 0);
}

#[test]
fn losses_and_timeouts_are_counted_for_an_hour() {
    let site = Site::new();
    site.submit(json!({}));
    site.worker().claim_one();
    site.pass(Duration::from_secs(31));
    site.eventually("a loss", || site.engine.statistics().lease_losses_last_hour() == 1);
    site.submit(json!({"queue": "other", "timeout_seconds": 5}));
    let worker = site.register(json!({"queues": ["other"]}));
    worker.claim_one();
    site.pass(Duration::from_secs(6));
    site.eventually("a timeout", || site.engine.statistics().timeouts_last_hour() == 1);
    site.pass(Duration::from_secs(3_601));
    let lately = site.engine.statistics();
    assert_eq!((lately.lease_losses_last_hour(), lately.timeouts_last_hour()), (0, 0));
}

#[test]
fn minutes_beyond_a_day_or_none_are_refused() {
    let site = Site::new();
    for bad in ["0", "1441", "-1"] {
        let path = format!("/api/v1/stats/minutes?minutes={bad}");
        site.get(&path).refused(422, "out-of-range");
    }
    site.get("/api/v1/stats/minutes?minutes=x").refused(422, "validation-failed");
    site.get("/api/v1/stats/minutes?hours=1").refused(422, "validation-failed");
    assert_eq!(site.get("/api/v1/stats/minutes?minutes=1440").status, 200);
}

#[test]
fn a_new_server_knows_what_was_done_before_it() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        site.submit(json!({}));
        worker.complete(&worker.claim_one());
    }
    let store: Arc<dyn Store> = site.store.clone();
    site.run(async {
        let server = Server::new(store, Settings::default());
        let engine = Arc::clone(server.engine());
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = tokio::spawn(server.run(listener, stop.clone()));
        let started = Instant::now();
        while !completed(&engine, 5) {
            assert!(started.elapsed() < PATIENCE, "not counted");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.cancel();
        running.await.unwrap().unwrap();
    });
}

#[test]
fn the_recent_pace_makes_estimates() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..60 {
        site.submit(json!({}));
    }
    assert_eq!(worker.poll(60).len(), 60);
    site.eventually("a wait is estimated", || {
        let reply = site.post("/api/v1/tasks", &json!({"type": "a"})).json();
        reply["estimated_wait_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0)
    });
}
