//! What operators do to tasks and dead letters, where nothing else tells it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::Site;

/// A dead letter of a task that had failed for the second time.
fn die(site: &Site, message: &str) -> String {
    let id = site.submit(json!({"max_retries": 1}));
    let worker = site.worker();
    worker.fail(&worker.claim_one(), json!({"message": message}));
    site.pass(Duration::from_secs(3_600));
    let again = site.worker();
    site.await_state(&id, "pending");
    again.fail(&again.claim_one(), json!({"message": message}));
    assert_eq!(site.state(&id), "dead_letter");
    id
}

fn ids(page: &Value) -> Vec<String> {
    page.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn dead_letters_are_listed_and_retried_together() {
    let site = Site::new();
    let (one, other) = (die(&site, "boom"), die(&site, "bang"));
    let mut listed = ids(&site.get("/admin/dlq").json()["entries"]);
    listed.sort();
    let mut both = vec![one.clone(), other.clone()];
    both.sort();
    assert_eq!(listed, both);
    assert_eq!(ids(&site.get("/admin/dlq?error=BANG").json()["entries"]), [other.as_str()]);
    let done = site.post("/admin/dlq/retry", &json!({"retry_all": true}));
    assert_eq!((done.status, &done.json()["replayed"]), (200, &json!(2)), "{done:?}");
    for id in [&one, &other] {
        assert_eq!((site.state(id).as_str(), &site.task(id)["attempts"]), ("pending", &json!(0)));
    }
    assert!(ids(&site.get("/admin/dlq").json()["entries"]).is_empty());
    site.post("/admin/dlq/retry", &json!({"retry_all": false})).refused(422, "validation-failed");
}

#[test]
fn a_replay_may_keep_what_was_tried_and_be_slow() {
    let site = Site::new();
    let id = die(&site, "boom");
    for wrong in [0, 100_001] {
        let reply = site.post("/api/v1/dlq/replay", &json!({"rate_per_second": wrong}));
        assert_eq!(reply.refused(422, "out-of-range")["errors"][0]["pointer"], "/rate_per_second");
    }
    let counted = site.post("/api/v1/dlq/replay", &json!({"dry_run": true}));
    assert_eq!(counted.json()["matched"], 1, "{counted:?}");
    // Also by its other name.
    let wish = json!({"rate_per_second": 1, "reset_retry_count": false, "new_priority": "low"});
    let done = site.post("/api/v1/dlq/replay", &wish);
    assert_eq!((done.status, &done.json()["replayed"]), (200, &json!(1)), "{done:?}");
    let task = site.task(&id);
    assert_eq!((&task["attempts"], &task["priority"]), (&json!(2), &json!("low")));
}

#[test]
fn a_task_that_is_scheduled_can_be_given_another_time() {
    let site = Site::new();
    let id = site.submit(json!({"delay_seconds": 3_600}));
    let sooner = site.in_time(Duration::from_secs(10));
    let body = json!({"scheduled_at": sooner}).to_string();
    let headers = [("content-type", "application/json")];
    let path = format!("/admin/tasks/{id}");
    let changed = site.send("PATCH", &path, &headers, body.as_bytes());
    assert_eq!((changed.status, &changed.json()["state"]), (200, &json!("scheduled")));
    site.pass(Duration::from_secs(11));
    site.await_state(&id, "pending");
    site.send("PATCH", &path, &headers, body.as_bytes()).refused(409, "invalid-state");
}

#[test]
fn tasks_are_found_by_their_worker_and_by_when_they_came() {
    let site = Site::new();
    let early = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.pass(Duration::from_secs(60));
    let between = site.in_time(Duration::ZERO);
    site.pass(Duration::from_secs(1));
    let late = site.submit(json!({}));
    let found = |query: &str| ids(&site.get(&format!("/api/v1/tasks?{query}")).json()["tasks"]);
    assert_eq!(found(&format!("created_before={between}")), [early.as_str()]);
    assert_eq!(found(&format!("created_after={between}")), [late.as_str()]);
    drop(held);
    let completed = site.worker();
    completed.complete(&completed.claim_one());
    assert_eq!(found(&format!("worker_id={}", completed.id)).len(), 1);
    let nobody = "0198c2f0-7a3e-7000-8000-000000000001";
    assert!(found(&format!("worker_id={nobody}")).is_empty());
}

#[test]
fn a_look_that_asks_to_wait_too_long_is_refused() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let reply = site.get(&format!("/api/v1/tasks/{id}?wait_seconds=61"));
    assert_eq!(reply.refused(422, "out-of-range")["errors"][0]["pointer"], "?wait_seconds");
}

#[test]
fn queues_are_listed_page_by_page() {
    let site = Site::new();
    let mut names = vec!["a", "b", "größe 7", "mail.eu", "z"];
    for queue in &names {
        site.submit(json!({"queue": queue}));
    }
    names.sort_unstable();
    let (mut listed, mut next) = (Vec::new(), String::new());
    for count in [2, 2, 1] {
        let page = site.get(&format!("/admin/queues?limit=2{next}")).json();
        let queues = page["queues"].as_array().unwrap().clone();
        assert_eq!(queues.len(), count, "{page}");
        listed.extend(queues.iter().map(|queue| queue["name"].as_str().unwrap().to_owned()));
        next = format!("&cursor={}", page["next_cursor"].as_str().unwrap_or_default());
    }
    assert_eq!((listed, next.as_str()), (names.iter().map(|&n| n.into()).collect(), "&cursor="));
    let all = site.get("/admin/queues").json();
    assert_eq!(all["queues"].as_array().unwrap().len(), names.len());
    site.get("/admin/queues?limit=1001").refused(422, "out-of-range");
    site.get("/admin/queues?cursor=mail").refused(400, "invalid-cursor");
}
