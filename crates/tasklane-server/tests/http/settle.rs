//! Reporting how attempts ended.

use serde_json::json;

use crate::kept::Kept;
use crate::site::Site;

#[test]
fn a_dead_letter_that_is_discarded_is_gone_for_good() {
    let site = Site::new();
    let worker = site.worker();
    let id = site.submit(json!({}));
    worker.fail(&worker.claim_one(), json!({"message": "no", "kind": "permanent"}));
    let reply = site.delete(&format!("/api/v1/dlq/{id}"));
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    assert_eq!(reply.header("durability"), Some(Kept::chosen().durability()));
    site.get(&format!("/api/v1/tasks/{id}")).refused(404, "not-found");
}

#[test]
fn a_completion_ends_a_task_with_its_result() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let reply = worker.complete(&held);
    assert_eq!((reply.status, reply.json()), (200, json!({"task_id": id, "state": "completed"})));
    let task = site.task(&id);
    let shown = (&task["state"], &task["result"], &task["attempts"], &task["worker_id"]);
    assert_eq!(shown, (&json!("completed"), &json!({"ok": true}), &json!(1), &json!(worker.id)));
    assert!(task["completed_at"].is_string());
}

#[test]
fn repeating_a_settle_answers_the_same_and_another_one_is_refused() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let first = worker.complete(&held);
    assert_eq!(worker.complete(&held).json(), first.json());
    worker.report(&held, json!({"status": "completed", "result": 2})).refused(409, "lease-lost");
    worker.fail(&held, json!({"message": "x"})).refused(409, "lease-lost");
}

#[test]
fn a_failure_is_retried_after_its_backoff() {
    let site = Site::new();
    let id = site
        .submit(json!({"retry": {"strategy": "fixed", "initial_seconds": 10, "jitter": "none"}}));
    let worker = site.worker();
    let held = worker.claim_one();
    let error = json!({"message": "reset", "kind": "transient", "code": "ECONNRESET", "details": {"a": 1}, "stack": "at x"});
    let reply = worker.fail(&held, error);
    assert_eq!(reply.json()["state"], "retrying", "{reply:?}");
    assert!(reply.json()["next_retry_at"].is_string());
    let task = site.task(&id);
    assert_eq!((&task["attempts"], &task["error"]["code"]), (&json!(1), &json!("ECONNRESET")));
    assert_eq!(task["next_retry_at"], reply.json()["next_retry_at"]);
    assert!(worker.poll(1).is_empty());
    site.pass(std::time::Duration::from_secs(11));
    site.await_state(&id, "pending");
    assert_eq!(worker.claim_one().whole["attempt"], 2);
}

#[test]
fn what_may_not_be_retried_becomes_a_dead_letter() {
    let site = Site::new();
    let worker = site.worker();
    for (error, reason) in [
        (json!({"message": "x", "kind": "permanent"}), "not_retryable"),
        (json!({"message": "x", "retryable": false}), "not_retryable"),
        (json!({"message": "x", "retriable": false}), "not_retryable"),
    ] {
        let id = site.submit(json!({}));
        let reply = worker.fail(&worker.claim_one(), error);
        assert_eq!(reply.json()["state"], "dead_letter", "{reply:?}");
        assert_eq!(site.task(&id)["reason"], reason);
    }
    let id = site.submit(json!({"max_retries": 0}));
    worker.fail(&worker.claim_one(), json!({"message": "x"}));
    assert_eq!(site.task(&id)["reason"], "retries_exhausted");
    let id = site.submit(json!({"max_retries": 0, "dead_letter": false}));
    worker.fail(&worker.claim_one(), json!({"message": "x"}));
    assert_eq!(site.state(&id), "failed");
}

#[test]
fn the_workers_own_delay_wins() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let report = json!({"status": "failed", "error": {"message": "busy", "kind": "rate_limited"}, "retry_after_seconds": 3600});
    let reply = worker.report(&held, report);
    let task = site.task(&held.id);
    let due = reply.string("/next_retry_at");
    assert_eq!(task["next_retry_at"], due);
    site.pass(std::time::Duration::from_secs(3_000));
    assert_eq!(site.state(&held.id), "retrying");
}

#[test]
fn a_release_costs_no_attempt_and_may_carry_a_delay() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let reply = worker.report(&worker.claim_one(), json!({"status": "released"}));
    assert_eq!((reply.status, reply.json()["state"].clone()), (200, json!("pending")));
    assert!(worker.poll(1).is_empty(), "not back to the same worker at once");
    let other = site.worker();
    let held = other.claim_one();
    assert_eq!(
        (held.whole["attempt"].clone(), site.task(&id)["attempts"].clone()),
        (json!(1), json!(0))
    );
    other.report(&held, json!({"status": "released", "delay_seconds": 60}));
    assert_eq!(site.state(&id), "scheduled");
}

#[test]
fn many_results_have_their_own_verdicts_and_the_next_tasks_come_along() {
    let site = Site::new();
    for _ in 0..4 {
        site.submit(json!({}));
    }
    let worker = site.register(json!({"capacity": 2}));
    let held = worker.poll(2);
    let mut stale = held[1].clone();
    stale.token = "0".repeat(32);
    let unknown = json!({"task_id": "0198c5f0-0000-7000-8000-000000000001", "lease_token": stale.token, "status": "completed"});
    let reply = worker.call(
        "result",
        &json!({"results": [held[0].report(json!({"status": "completed"})), stale.report(json!({"status": "completed"})), unknown],
            "poll": {"available_capacity": 2}}),
    );
    let answer = reply.json();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(answer["results"][0], json!({"task_id": held[0].id, "state": "completed"}));
    assert_eq!(answer["results"][1], json!({"task_id": held[1].id, "error": "lease-lost"}));
    assert_eq!(answer["results"][2]["error"], "not-found");
    assert_eq!(answer["tasks"].as_array().unwrap().len(), 1, "room for one more");
    assert_eq!(answer["directive"], "none");
}

#[test]
fn results_in_any_order_of_members_are_told_apart() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    let text = format!(
        r#" {{ "poll": {{"available_capacity": 0}}, "results": [{}] }}"#,
        held.report(json!({"status": "completed"}))
    );
    let reply = site.post_text(&format!("/internal/workers/{}/result", worker.id), &text);
    assert_eq!(reply.json()["results"][0]["state"], "completed", "{reply:?}");
}

#[test]
fn a_report_with_members_of_another_status_is_refused() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    for (report, pointer) in [
        (json!({"status": "completed", "error": {"message": "x"}}), "/error"),
        (json!({"status": "failed", "result": 1}), "/result"),
        (json!({"status": "completed", "delay_seconds": 1}), "/delay_seconds"),
        (json!({"status": "released", "retry_after_seconds": 1}), "/retry_after_seconds"),
    ] {
        let problem = worker.report(&held, report.clone()).refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
        let many = worker.call("result", &json!({"results": [held.report(report)]}));
        let problem = many.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], format!("/results/0{pointer}"));
    }
    worker.report(&held, json!({"status": "done"})).refused(422, "validation-failed");
    worker
        .report(&held, json!({"status": "released", "delay_seconds": 1e9}))
        .refused(422, "out-of-range");
    assert_eq!(site.state(&held.id), "running");
}

#[test]
fn progress_is_shown_and_resets_with_a_new_attempt() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let held = worker.claim_one();
    site.pass(std::time::Duration::from_secs(10));
    let report = |members| worker.call("progress", &held.report(members));
    let reply = report(
        json!({"percent": 50, "step": 2, "steps": 5, "message": "half", "metadata": {"a": 1}}),
    );
    assert_eq!((reply.status, reply.json()), (200, json!({"cancel": false})));
    let progress = site.task(&id)["progress"].clone();
    assert_eq!((&progress["percent"], &progress["message"]), (&json!(50.0), &json!("half")));
    assert_eq!((&progress["metadata"], &progress["eta_seconds"]), (&json!({"a": 1}), &json!(10)));
    assert_eq!(report(json!({"progress_percent": 60, "status_message": "more"})).status, 200);
    report(json!({"percent": 101})).refused(422, "out-of-range");
    let mut stale = held.clone();
    stale.token = "0".repeat(32);
    worker.call("progress", &stale.report(json!({}))).refused(409, "lease-lost");
}
