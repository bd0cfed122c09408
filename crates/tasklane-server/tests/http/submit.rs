//! Submitting tasks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kept::Kept;
use crate::site::Site;

#[test]
fn a_task_is_taken_and_shown_as_the_interface_says() {
    let site = Site::new();
    let reply = site.post(
        "/api/v1/tasks",
        &json!({"type": "email.send", "payload": {"to": "a"}, "priority": "high", "queue": "mail",
            "metadata": {"user_id": "123"}, "required_capabilities": ["gpu"], "max_retries": 7,
            "timeout_seconds": 12.5, "retry": {"strategy": "linear", "initial_seconds": 2}}),
    );
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.header("durability"), Some(Kept::chosen().durability()));
    assert!(reply.header("x-request-id").is_some());
    let task = reply.json();
    let expected = json!({"type": "email.send", "queue": "mail", "payload": {"to": "a"},
        "priority": "high", "effective_priority": "high", "state": "pending", "attempts": 0,
        "max_retries": 7, "deliveries": 0, "lease_losses": 0, "replays": 0,
        "required_capabilities": ["gpu"], "timeout_seconds": 12.5,
        "metadata": {"user_id": "123"}, "queue_position": 1});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&task[name], value, "{name} of {task}");
    }
    assert_eq!(task["retry"]["strategy"], "linear");
    let text = task.to_string();
    assert!(!text.contains("null"), "absent members are left out: {text}");
    let id = task["id"].as_str().unwrap();
    let mut again = site.task(id);
    assert_eq!(again["id"], task["id"]);
    again.as_object_mut().unwrap().retain(|name, _| !name.ends_with("_seconds"));
    for (name, value) in again.as_object().unwrap() {
        assert_eq!(&task[name], value, "{name}");
    }
}

#[test]
fn a_payload_is_kept_as_the_bytes_that_came() {
    let site = Site::new();
    let payload = r#"{"b": 1.50,  "a":[ ], "a": "é\u00e9", "n": 123456789012345678901234567890}"#;
    let reply = site.post_text("/api/v1/tasks", &format!(r#"{{"type":"a","payload":{payload}}}"#));
    assert_eq!(reply.status, 201, "{reply:?}");
    assert!(reply.text.contains(payload));
    let id = reply.string("/id");
    assert!(site.get(&format!("/api/v1/tasks/{id}")).text.contains(payload));
    let worker = site.worker();
    let polled = worker.call("poll", &json!({"available_capacity": 1}));
    assert!(polled.text.contains(payload));
}

#[test]
fn other_spellings_are_taken() {
    let site = Site::new();
    let reply = site.post(
        "/api/v1/tasks",
        &json!({"task_type": "a", "parameters": 5, "timeout": 9, "priority": "medium",
            "retry_policy": {"strategy": "fixed"}, "run_at": "2030-01-01T00:00:00Z"}),
    );
    let task = reply.json();
    assert_eq!((reply.status, &task["state"]), (201, &json!("scheduled")), "{reply:?}");
    assert_eq!(task["scheduled_at"], "2030-01-01T00:00:00.000000Z");
    let shown = [&task["type"], &task["payload"], &task["timeout_seconds"], &task["priority"]];
    assert_eq!(shown, [&json!("a"), &json!(5), &json!(9), &json!("normal")]);
}

#[test]
fn priorities_are_words_or_numbers() {
    let site = Site::new();
    for (given, word) in [(json!(0), "low"), (json!(1), "normal"), (json!(3), "critical")] {
        let id = site.submit(json!({"priority": given}));
        assert_eq!(site.task(&id)["priority"], word);
    }
}

#[test]
fn a_repeated_key_gives_the_same_task_and_says_so() {
    let site = Site::new();
    let key = [("content-type", "application/json"), ("idempotency-key", "k1")];
    let body = br#"{"type":"a","payload":1}"#;
    let first = site.send("POST", "/api/v1/tasks", &key, body);
    assert_eq!(first.status, 201, "{first:?}");
    let again = site.send("POST", "/api/v1/tasks", &key, body);
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(again.string("/id"), first.string("/id"));
    // The header and the member are one thing.
    let member =
        site.post("/api/v1/tasks", &json!({"type":"a","payload":1,"idempotency_key":"k1"}));
    assert_eq!((member.status, member.string("/id")), (200, first.string("/id")));
    let other = site.send("POST", "/api/v1/tasks", &key, br#"{"type":"a","payload":2}"#);
    other.refused(422, "idempotency-mismatch");
    let both = br#"{"type":"a","payload":1,"idempotency_key":"k2"}"#;
    site.send("POST", "/api/v1/tasks", &key, both).refused(422, "validation-failed");
}

#[test]
fn an_id_of_the_clients_own_makes_sending_again_safe() {
    let site = Site::new();
    let id = "0198c5f0-0000-7000-8000-000000000001";
    let task = json!({"type": "a", "id": id});
    assert_eq!(site.post("/api/v1/tasks", &task).status, 201);
    let again = site.post("/api/v1/tasks", &task);
    assert_eq!((again.status, again.string("/id")), (200, id.to_owned()));
    let other = json!({"type": "b", "id": id});
    site.post("/api/v1/tasks", &other).refused(422, "idempotency-mismatch");
}

#[test]
fn a_batch_is_taken_whole_in_order() {
    let site = Site::new();
    let tasks: Vec<Value> = (0..100).map(|n| json!({"type": "a", "payload": n})).collect();
    let reply = site.post("/api/v1/tasks/batch", &json!({"tasks": tasks}));
    assert_eq!(reply.status, 201, "{reply:?}");
    let answer = reply.json();
    let ids: Vec<&str> =
        answer["tasks"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 100);
    for n in [0, 50, 99] {
        assert_eq!(site.task(ids[n])["payload"], n);
    }
    assert_eq!(answer["tasks"][0], json!({"id": ids[0], "state": "pending"}));
}

#[test]
fn a_batch_with_one_bad_task_changes_nothing_and_names_it() {
    let site = Site::new();
    let bad = json!({"tasks": [{"type": "a"}, {"type": "a:b"}]});
    let problem = site.post("/api/v1/tasks/batch", &bad).refused(422, "invalid-characters");
    assert_eq!(problem["errors"][0]["pointer"], "/tasks/1/type");
    let mismatch = json!({"tasks": [{"type": "a", "idempotency_key": "k"}, {"type": "b", "idempotency_key": "k"}]});
    let problem = site.post("/api/v1/tasks/batch", &mismatch).refused(422, "idempotency-mismatch");
    assert_eq!(problem["errors"][0]["pointer"], "/tasks/1");
    assert!(site.worker().poll(10).is_empty());
}

#[test]
fn a_batch_takes_no_key_for_all_of_its_tasks() {
    let site = Site::new();
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let reply = site.send("POST", "/api/v1/tasks/batch", &headers, br#"{"tasks":[{"type":"a"}]}"#);
    reply.refused(422, "validation-failed");
}

#[test]
fn a_trace_goes_from_the_producer_to_the_worker() {
    let site = Site::new();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers =
        [("content-type", "application/json"), ("traceparent", parent), ("tracestate", "vendor=1")];
    let reply = site.send("POST", "/api/v1/tasks", &headers, br#"{"type":"a"}"#);
    assert_eq!(reply.string("/trace_id"), "0af7651916cd43dd8448eb211c80319c");
    let held = site.worker().claim_one();
    assert_eq!(
        (&held.whole["traceparent"], &held.whole["tracestate"]),
        (&json!(parent), &json!("vendor=1"))
    );
}

#[test]
fn a_task_without_a_trace_gets_one_and_a_garbled_one_is_not_passed_on() {
    let site = Site::new();
    let headers = [("content-type", "application/json"), ("traceparent", "nonsense")];
    let reply = site.send("POST", "/api/v1/tasks", &headers, br#"{"type":"a"}"#);
    let trace = reply.string("/trace_id");
    assert_eq!(trace.len(), 32);
    let held = site.worker().claim_one();
    let parent = held.whole["traceparent"].as_str().unwrap();
    assert!(parent.starts_with(&format!("00-{trace}-")) && parent.len() == 55, "{parent}");
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_back() {
    let site = Site::new();
    let patch = json!({"depth_limits": {"normal": 2, "high": 3, "all": 4}});
    let reply = site.send(
        "PATCH",
        "/admin/queues/default",
        &[("content-type", "application/json")],
        patch.to_string().as_bytes(),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    let submit =
        |priority: &str| site.post("/api/v1/tasks", &json!({"type": "a", "priority": priority}));
    assert_eq!((submit("low").status, submit("normal").status), (201, 201));
    submit("normal").refused(429, "queue-full");
    assert_eq!(submit("high").status, 201);
    submit("high").refused(429, "queue-full");
    assert_eq!(submit("critical").status, 201);
    submit("critical").refused(503, "queue-full");
}

#[test]
fn who_came_early_has_few_ahead() {
    let site = Site::new();
    let submit = |_| {
        let id = site.submit(json!({}));
        site.pass(Duration::from_secs(1));
        // Places count from when the queue is known.
        site.run(site.engine.refresh_snapshot()).unwrap();
        id
    };
    let ids: Vec<String> = (0..10).map(submit).collect();
    let ahead = |id: &str| {
        let told = site.get(&format!("/api/v1/tasks/{id}/explain")).json();
        let obstacles = told["obstacles"].as_array().unwrap().clone();
        let found = obstacles.iter().find(|obstacle| obstacle["code"] == "tasks_ahead");
        found.map_or(0, |obstacle| obstacle["count"].as_u64().unwrap())
    };
    let all = |expected: [u64; 3]| {
        site.eventually("the queue is known", || [0, 4, 9].map(|at| ahead(&ids[at])) == expected);
    };
    all([0, 4, 9]);
    site.pass(Duration::from_secs(3_600));
    site.run(site.engine.refresh_snapshot()).unwrap();
    all([0, 4, 9]);
}

#[test]
fn who_came_together_may_be_the_last() {
    let site = Site::new();
    let batch = json!({"tasks": vec![json!({"type": "a"}); 5]});
    let taken = site.post("/api/v1/tasks/batch", &batch).json();
    site.pass(Duration::from_secs(60));
    let path = format!("/api/v1/tasks/{}/explain", taken["tasks"][0]["id"].as_str().unwrap());
    site.eventually("the queue is known", || {
        let told = site.get(&path).json();
        let obstacles = told["obstacles"].as_array().unwrap().clone();
        obstacles.iter().any(|obstacle| obstacle["code"] == "tasks_ahead" && obstacle["count"] == 4)
    });
}

#[test]
fn positions_count_what_goes_before() {
    let site = Site::new();
    site.submit(json!({}));
    site.eventually("the queue is known", || {
        let reply = site.post("/api/v1/tasks", &json!({"type": "a", "priority": "low"}));
        reply.json()["queue_position"].as_u64() > Some(1)
    });
    let first = site.post("/api/v1/tasks", &json!({"type": "a", "priority": "critical"}));
    assert_eq!(first.json()["queue_position"], 1, "nothing critical goes before it");
}
