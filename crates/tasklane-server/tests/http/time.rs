//! What time does to tasks.

use std::time::Duration;

use serde_json::json;

use crate::site::Site;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_delayed_task_comes_due() {
    let site = Site::new();
    let id = site.submit(json!({"delay_seconds": 60}));
    assert_eq!(site.state(&id), "scheduled");
    assert!(site.worker().poll(1).is_empty());
    site.pass(seconds(61));
    site.await_state(&id, "pending");
}

#[test]
fn a_due_task_reaches_a_waiting_worker() {
    let site = Site::new();
    let id = site.submit(json!({"delay_seconds": 20}));
    let worker = site.worker();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| worker.call("poll", &json!({"available_capacity": 1, "wait_ms": 20_000})));
        site.await_parked(1);
        site.pass(seconds(21));
        assert_eq!(waiting.join().unwrap().json()["tasks"][0]["id"], id);
    });
}

#[test]
fn an_attempt_that_runs_too_long_fails_as_a_timeout_and_gets_longer() {
    let site = Site::new();
    let id = site.submit(json!({"timeout_seconds": 10}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.pass(seconds(11));
    site.await_state(&id, "retrying");
    let task = site.task(&id);
    assert_eq!((&task["error"]["kind"], &task["attempts"]), (&json!("timeout"), &json!(1)));
    assert_eq!(task["timeout_seconds"], 15);
    worker.complete(&held).refused(409, "lease-lost");
}

#[test]
fn a_task_that_is_not_started_in_time_goes_back() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    worker.call("poll", &json!({"available_capacity": 1, "auto_start": false}));
    site.pass(seconds(20));
    worker.call("heartbeat", &json!({}));
    site.pass(seconds(11));
    site.await_state(&id, "pending");
    assert_eq!(site.task(&id)["lease_losses"], 0);
}

#[test]
fn what_is_too_late_is_cancelled() {
    let site = Site::new();
    let id = site.submit(json!({"expires_at": site.in_time(seconds(60))}));
    site.pass(seconds(3_600));
    site.await_state(&id, "cancelled");
    assert_eq!(site.task(&id)["reason"], "expired");
}

#[test]
fn waiting_raises_what_a_task_counts_as() {
    let site = Site::new();
    let old = site.submit(json!({"priority": "low"}));
    site.pass(seconds(1_201));
    let fresh = site.submit(json!({"priority": "normal"}));
    let shown = site.task(&old);
    assert_eq!((&shown["priority"], &shown["effective_priority"]), (&json!("low"), &json!("high")));
    let claimed: Vec<_> = site.worker().poll(2).into_iter().map(|held| held.id).collect();
    assert_eq!(claimed, [old, fresh]);
}

#[test]
fn five_lost_leases_in_a_row_are_poison() {
    let site = Site::new();
    let id = site.submit(json!({}));
    for _ in 0..5 {
        site.worker().claim_one();
        site.pass(seconds(31));
        site.eventually("it is taken back", || site.state(&id) != "running");
    }
    let task = site.task(&id);
    assert_eq!((&task["state"], &task["reason"]), (&json!("dead_letter"), &json!("poison")));
}

#[test]
fn retention_removes_what_has_ended() {
    let site = Site::with(|settings, _| settings.prune_every = Duration::from_millis(5));
    let id = site.submit(json!({}));
    let worker = site.worker();
    worker.complete(&worker.claim_one());
    site.pass(seconds(25 * 3_600));
    site.eventually("it is removed", || site.get(&format!("/api/v1/tasks/{id}")).status == 404);
}
