//! Signs of life.

use std::time::Duration;

use serde_json::json;

use crate::site::Site;

#[test]
fn a_heartbeat_renews_every_lease() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    for _ in 0..4 {
        site.pass(Duration::from_secs(20));
        let reply = worker.call("heartbeat", &json!({"current_load": 1}));
        let expected = json!({"acknowledged": true, "should_drain": false, "directive": "none",
            "cancel": [], "lost": []});
        assert_eq!((reply.status, reply.json()), (200, expected));
    }
    assert_eq!(site.state(&id), "running");
    assert_eq!(worker.complete(&held).status, 200);
}

#[test]
fn named_leases_are_renewed_and_lost_ones_told() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let mut stale = held.clone();
    stale.token = "0".repeat(32);
    let reply = worker.call("heartbeat", &json!({"leases": [held.report(json!({}))]}));
    assert_eq!(reply.json()["lost"], json!([]));
    let reply = worker.call("heartbeat", &json!({"leases": [stale.report(json!({}))]}));
    assert_eq!(reply.json()["lost"], json!([held.id]));
}

#[test]
fn a_lost_lease_goes_to_another_worker_and_costs_no_attempt() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.pass(Duration::from_secs(29));
    assert_eq!(site.state(&id), "running");
    site.pass(Duration::from_secs(2));
    site.await_state(&id, "pending");
    let other = site.worker();
    let again = other.claim_one();
    let fence = |held: &crate::site::Held| held.whole["fence"].as_u64().unwrap();
    assert!(fence(&again) > fence(&held));
    worker.complete(&held).refused(409, "lease-lost");
    let task = site.task(&id);
    assert_eq!((&task["deliveries"], &task["attempts"]), (&json!(2), &json!(0)));
    assert_eq!((&task["state"], &task["lease_losses"]), (&json!("running"), &json!(1)));
    assert_eq!(other.complete(&again).status, 200);
}

#[test]
fn a_lease_that_has_ended_is_explained() {
    // Maintenance looks when the server starts, and then not again: nobody reclaims.
    let site = Site::with(|settings, _| settings.maintain_every = Duration::from_secs(3_600));
    let id = site.submit(json!({}));
    let worker = site.worker();
    worker.claim_one();
    let ends = site.in_time(Duration::from_secs(30));
    let explained = || site.get(&format!("/api/v1/tasks/{id}/explain")).json();
    assert_eq!(explained()["obstacles"], json!([]));
    site.pass(Duration::from_secs(31));
    let told = explained();
    let detail = "its lease ended 1.0 s ago and is being reclaimed: the task is offered again";
    let expired = json!({"code": "lease_expired", "detail": detail, "until": ends,
        "worker_id": worker.id});
    assert_eq!(told["obstacles"][0], expired, "{told}");
    assert!(told["summary"].as_str().unwrap().ends_with(detail), "{told}");
    assert_eq!(worker.call("heartbeat", &json!({})).status, 200);
    assert_eq!(explained()["obstacles"], json!([]), "it was renewed in time");
}

#[test]
fn a_worker_that_is_silent_for_too_long_is_dead() {
    let site = Site::new();
    let worker = site.worker();
    site.pass(Duration::from_secs(31));
    site.eventually("it is declared dead", || {
        worker.call("heartbeat", &json!({})).status == 410 || {
            site.pass(Duration::from_secs(31));
            false
        }
    });
    worker.call("poll", &json!({"available_capacity": 1})).refused(410, "worker-gone");
}

#[test]
fn a_worker_under_strain_gets_no_more_until_it_recovers() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let report = |memory: f64| {
        worker
            .call("heartbeat", &json!({"health": {"cpu_percent": 10, "memory_percent": memory}}))
            .json()
    };
    assert_eq!(report(95.0)["directive"], "none", "once is not enough");
    assert_eq!(report(50.0)["directive"], "none");
    assert_eq!(report(95.0)["directive"], "none", "not in a row");
    assert_eq!(report(95.0)["directive"], "pause");
    assert!(worker.poll(1).is_empty());
    assert_eq!(report(50.0)["directive"], "none");
    assert_eq!(worker.poll(1).len(), 1);
}

#[test]
fn a_worker_may_say_that_it_drains() {
    let site = Site::new();
    let worker = site.worker();
    let reply = worker.call("heartbeat", &json!({"status": "draining"})).json();
    assert_eq!((&reply["directive"], &reply["should_drain"]), (&json!("drain"), &json!(true)));
}

#[test]
fn health_out_of_range_is_refused() {
    let site = Site::new();
    let worker = site.worker();
    let bad = json!({"health": {"cpu_usage_percent": 101}});
    let problem = worker.call("heartbeat", &bad).refused(422, "out-of-range");
    assert_eq!(problem["errors"][0]["pointer"], "/health/cpu_percent");
}
