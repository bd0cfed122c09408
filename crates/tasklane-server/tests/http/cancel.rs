//! Cancelling tasks.

use serde_json::json;

use crate::site::{Held, Site, Worker};

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

/// Two tasks in the hands of one worker, the first of which is asked to stop.
fn asked<'a>(site: &'a Site) -> (Worker<'a>, Vec<Held>) {
    site.submit(json!({}));
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.poll(2);
    let reply = site.delete(&format!("/api/v1/tasks/{}", held[0].id));
    assert_eq!(reply.status, 202);
    (worker, held)
}

#[test]
fn the_answer_to_the_result_of_another_task_tells_what_to_stop() {
    let site = Site::new();
    let (worker, held) = asked(&site);
    // The feed tells the server a moment later. The same result again has the same answer.
    site.eventually("it is told", || {
        let answer = worker.complete(&held[1]).json();
        let told = json!({"task_id": held[1].id, "state": "completed", "cancel": [held[0].id]});
        assert!(answer == told || answer.get("cancel").is_none(), "{answer}");
        answer == told
    });
    let answer = worker.complete(&held[1]).json();
    assert_eq!(answer.get("cancel"), None, "once: heartbeats tell again");
    assert_eq!(worker.call("heartbeat", &json!({})).json()["cancel"], json!([held[0].id]));
}

#[test]
fn the_answer_to_many_results_tells_what_to_stop_besides() {
    let site = Site::new();
    let (worker, held) = asked(&site);
    let other = site.worker();
    let done = held[1].report(json!({"status": "completed"}));
    site.eventually("it is told", || {
        assert_eq!(other.call("result", &json!({"results": []})).json(), json!({"results": []}));
        let many = json!({"results": [done], "poll": {"available_capacity": 0}});
        worker.call("result", &many).json()["cancel"] == json!([held[0].id])
    });
}

#[test]
fn what_has_ended_meanwhile_is_not_told() {
    let site = Site::new();
    let (worker, held) = asked(&site);
    let last = site.submit(json!({}));
    worker.claim_one();
    site.delete(&format!("/api/v1/tasks/{last}"));
    // The feed tells of the first before it tells of the last.
    site.eventually("the last is told", || {
        let answer = worker.report(&held[0], json!({"status": "cancelled"})).json();
        let told = answer.get("cancel").cloned();
        assert!(told.is_none() || told == Some(json!([last])), "{answer}");
        told.is_some()
    });
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
