//! Cancelling tasks.

use serde_json::json;

use crate::site::Site;

#[test]
fn what_waits_is_cancelled_at_once() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let reply = site.delete(&format!("/api/v1/tasks/{id}"));
    assert_eq!((reply.status, reply.json()["state"].clone()), (200, json!("cancelled")));
    assert_eq!(reply.json()["reason"], "requested");
    assert!(site.worker().poll(1).is_empty());
    let problem = site.delete(&format!("/api/v1/tasks/{id}")).refused(409, "invalid-state");
    assert_eq!(problem["current_state"], "cancelled");
}

#[test]
fn what_runs_is_asked_of_its_worker() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let reply = site.delete(&format!("/api/v1/tasks/{id}"));
    assert_eq!((reply.status, reply.json()["state"].clone()), (202, json!("running")));
    assert!(reply.json()["cancel_requested_at"].is_string());
    assert_eq!(worker.call("heartbeat", &json!({})).json()["cancel"], json!([id]));
    assert_eq!(worker.call("progress", &held.report(json!({}))).json(), json!({"cancel": true}));
    let settled = worker.report(&held, json!({"status": "cancelled"}));
    assert_eq!(settled.json()["state"], "cancelled");
}

#[test]
fn a_completion_that_comes_first_wins() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.delete(&format!("/api/v1/tasks/{id}"));
    assert_eq!(worker.complete(&held).json()["state"], "completed");
}

#[test]
fn a_failure_under_a_cancel_is_a_cancel() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.delete(&format!("/api/v1/tasks/{id}"));
    assert_eq!(worker.fail(&held, json!({"message": "x"})).json()["state"], "cancelled");
}

#[test]
fn what_is_not_there_cannot_be_cancelled() {
    let site = Site::new();
    for id in ["0198c5f0-0000-7000-8000-000000000001", "nothing"] {
        site.delete(&format!("/api/v1/tasks/{id}")).refused(404, "not-found");
        site.get(&format!("/api/v1/tasks/{id}")).refused(404, "not-found");
    }
}
