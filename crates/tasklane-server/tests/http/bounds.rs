//! The bounds of each member of a body.

use serde_json::{Value, json};

use crate::bad_input::UNKNOWN;
use crate::site::Site;

#[test]
fn each_member_of_a_submission_has_its_bounds() {
    let site = Site::new();
    let refuse = |members: Value, kind: &str, pointer: &str| {
        let mut task = json!({"type": "a"});
        task.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let problem = site.post("/api/v1/tasks", &task).refused(422, kind);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{task}");
        let batch = site.post("/api/v1/tasks/batch", &json!({"tasks": [{"type": "a"}, task]}));
        let problem = batch.refused(422, kind);
        assert_eq!(problem["errors"][0]["pointer"], format!("/tasks/1{pointer}"), "{task}");
    };
    let too_long = "x".repeat(129);
    for (members, kind, pointer) in [
        (json!({"priority": 7}), "out-of-range", "/priority"),
        (json!({"priority": -1}), "out-of-range", "/priority"),
        (json!({"priority": "urgent"}), "validation-failed", "/priority"),
        (json!({"priority": 1.5}), "validation-failed", "/priority"),
        (json!({"max_retries": 101}), "out-of-range", "/max_retries"),
        (json!({"max_retries": -1}), "out-of-range", "/max_retries"),
        (json!({"max_retries": 99_999_999_999_i64}), "out-of-range", "/max_retries"),
        (json!({"max_retries": "3"}), "validation-failed", "/max_retries"),
        (json!({"timeout_seconds": 0}), "out-of-range", "/timeout_seconds"),
        (json!({"timeout_seconds": -1}), "out-of-range", "/timeout_seconds"),
        (json!({"timeout_seconds": 1e12}), "out-of-range", "/timeout_seconds"),
        (json!({"delay_seconds": 1e9}), "out-of-range", "/scheduled_at"),
        (json!({"scheduled_at": "2126-01-01T00:00:00Z"}), "out-of-range", "/scheduled_at"),
        (json!({"scheduled_at": "tomorrow"}), "validation-failed", "/scheduled_at"),
        (
            json!({"scheduled_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}),
            "validation-failed",
            "/delay_seconds",
        ),
        (json!({"expires_at": "2000-01-01T00:00:00Z"}), "out-of-range", "/expires_at"),
        (json!({"type": ""}), "validation-failed", "/type"),
        (json!({"type": "a{b"}), "invalid-characters", "/type"),
        (json!({"type": "a\u{0}"}), "invalid-characters", "/type"),
        (json!({"type": too_long}), "invalid-characters", "/type"),
        (json!({"queue": "a:b"}), "invalid-characters", "/queue"),
        (json!({"queue": "a\u{202e}b"}), "invalid-characters", "/queue"),
        (json!({"queue": ""}), "validation-failed", "/queue"),
        (json!({"queue": 5}), "validation-failed", "/queue"),
        (json!({"required_capabilities": ["a:b"]}), "invalid-characters", "/required_capabilities"),
        (json!({"idempotency_key": ""}), "validation-failed", "/idempotency_key"),
        (json!({"idempotency_key": "a\u{0}"}), "invalid-characters", "/idempotency_key"),
        (json!({"ordering_key": "a\u{0}"}), "invalid-characters", "/ordering_key"),
        (json!({"metadata": {"a": "\u{0}"}}), "invalid-characters", "/metadata"),
        (json!({"metadata": {"a": 5}}), "validation-failed", "/metadata/a"),
        (json!({"metadata": []}), "validation-failed", "/metadata"),
        (json!({"retry": {"factor": 0.5}}), "out-of-range", "/retry/factor"),
        (json!({"retry": {"strategy": "often"}}), "validation-failed", "/retry/strategy"),
        (json!({"retry": {"first": 1}}), "validation-failed", "/retry/first"),
        (json!({"id": "not-an-id"}), "validation-failed", "/id"),
        (json!({"id": "9b2f8a1e-3c4d-4e5f-8a6b-7c8d9e0f1a2b"}), "validation-failed", "/id"),
        (json!({"dead_letter": 1}), "validation-failed", "/dead_letter"),
    ] {
        refuse(members, kind, pointer);
    }
    site.post("/api/v1/tasks", &json!({})).refused(422, "validation-failed");
    site.post("/api/v1/tasks/batch", &json!({"tasks": []})).refused(422, "validation-failed");
    let many: Vec<Value> = (0..10_001).map(|_| json!({"type": "a"})).collect();
    site.post("/api/v1/tasks/batch", &json!({"tasks": many})).refused(422, "validation-failed");
    let huge = site.post_text("/api/v1/tasks", r#"{"type":"a","max_retries":1e999}"#);
    huge.refused(422, "out-of-range");
    assert!(site.worker().poll(10).is_empty(), "nothing was taken");
}

#[test]
fn each_member_of_a_workers_call_has_its_bounds() {
    let site = Site::new();
    let worker = site.worker();
    for (verb, body, kind, pointer) in [
        ("poll", json!({}), "validation-failed", "/available_capacity"),
        ("poll", json!({"available_capacity": -1}), "out-of-range", "/available_capacity"),
        ("poll", json!({"available_capacity": 1, "wait_ms": 60_001}), "out-of-range", "/wait_ms"),
        (
            "poll",
            json!({"available_capacity": 1, "capabilities": ["a:b"]}),
            "invalid-characters",
            "/capabilities",
        ),
        (
            "heartbeat",
            json!({"health": {"cpu_percent": -1}}),
            "out-of-range",
            "/health/cpu_percent",
        ),
        ("heartbeat", json!({"status": "asleep"}), "validation-failed", "/status"),
        (
            "heartbeat",
            json!({"leases": [{"task_id": UNKNOWN}]}),
            "validation-failed",
            "/leases/0/lease_token",
        ),
        (
            "progress",
            json!({"task_id": UNKNOWN, "lease_token": "x"}),
            "validation-failed",
            "/lease_token",
        ),
        (
            "result",
            json!({"task_id": "x", "lease_token": "0".repeat(32), "status": "completed"}),
            "validation-failed",
            "/task_id",
        ),
        (
            "result",
            json!({"results": [], "poll": {"available_capacity": 1, "wait_ms": 99_999}}),
            "out-of-range",
            "/poll/wait_ms",
        ),
        ("result", json!({"results": 5}), "validation-failed", "/results"),
    ] {
        let problem = worker.call(verb, &body).refused(422, kind);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{verb} {body}");
    }
    for (body, kind, pointer) in [
        (json!({"capacity": 0}), "out-of-range", "/capacity"),
        (json!({"capacity": 10_001}), "out-of-range", "/capacity"),
        (json!({"types": ["a:b"]}), "invalid-characters", "/types"),
        (json!({"queues": [""]}), "validation-failed", "/queues"),
        (json!({"name": "a\u{7}"}), "invalid-characters", "/name"),
    ] {
        let problem = site.post("/internal/workers/register", &body).refused(422, kind);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
}
