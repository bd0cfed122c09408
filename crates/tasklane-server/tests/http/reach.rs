//! How far keys reach: what is out of reach is not there.

use serde_json::{Value, json};

use crate::key::Keyed;
use crate::listener::{Listener, Socket};

#[test]
fn tasks_are_submitted_only_where_the_key_reaches() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "submit", "queues": ["mail*"], "types": ["a"]}]));
    let submit = |task: Value| keyed.post(&key, "/api/v1/tasks", &task);
    assert_eq!(submit(json!({"type": "a", "queue": "mail.eu"})).status, 201);
    submit(json!({"type": "a", "queue": "video"})).refused(403, "insufficient-scope");
    submit(json!({"type": "b", "queue": "mail"})).refused(403, "insufficient-scope");
    submit(json!({"type": "a"})).refused(403, "insufficient-scope");
    let tasks = json!({"tasks": [{"type": "a", "queue": "mail"}, {"type": "a", "queue": "x"}]});
    keyed.post(&key, "/api/v1/tasks/batch", &tasks).refused(403, "insufficient-scope");
    let all = keyed.get(&keyed.root, "/api/v1/tasks").json();
    assert_eq!(all["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn lists_counts_and_counters_are_of_what_is_within_reach() {
    let keyed = Keyed::new();
    for queue in ["mail", "video", "video", "mail.eu", "video"] {
        keyed.submit(queue);
    }
    let key = keyed.narrow("read", &["mail*"]);
    let page = keyed.get(&key, "/api/v1/tasks?counts=true&limit=2").json();
    assert_eq!((page["tasks"].as_array().unwrap().len(), &page["count"]), (2, &json!(2)));
    let named = keyed.get(&key, "/api/v1/tasks?queue=video&counts=true").json();
    assert_eq!((named["tasks"].as_array().unwrap().len(), &named["count"]), (0, &json!(0)));
    let stats = keyed.get(&key, "/api/v1/queue/stats").json();
    assert_eq!(stats["total_tasks"], 2);
    for lately in ["throughput", "recovery"] {
        assert_eq!(stats[lately], Value::Null, "of all queues: {stats}");
    }
    keyed.get(&key, "/api/v1/queue/stats?queue=video").refused(404, "not-found");
    keyed.get(&key, "/api/v1/stats/minutes").refused(403, "insufficient-scope");
    let queues = keyed.get(&key, "/admin/queues").json();
    let names: Vec<_> = queues["queues"].as_array().unwrap().iter().map(|q| &q["name"]).collect();
    assert_eq!(names, ["mail", "mail.eu"]);
    let whole = keyed.get(&keyed.root, "/api/v1/queue/stats").json();
    assert_eq!(whole["total_tasks"], 5);
    assert!(whole["throughput"].is_object(), "{whole}");
}

#[test]
fn a_key_for_some_types_sees_how_many_of_those_wait() {
    let keyed = Keyed::new();
    for task_type in ["a", "b", "b"] {
        let task = json!({"type": task_type, "queue": "q"});
        assert_eq!(keyed.post(&keyed.root, "/api/v1/tasks", &task).status, 201);
    }
    let scope = |verb: &str| keyed.key(json!([{"verb": verb, "types": ["a"]}]));
    let (read, operate) = (scope("read"), scope("operate"));
    assert_eq!(keyed.get(&read, "/admin/queues/q").json()["depth"], 1);
    assert_eq!(keyed.get(&keyed.root, "/admin/queues/q").json()["depth"], 3);
    keyed.call(&operate, "POST", "/admin/queues/q/pause", None).refused(403, "insufficient-scope");
}

#[test]
fn operations_on_many_change_only_what_is_within_reach() {
    let keyed = Keyed::new();
    let (own, foreign) = (keyed.submit("mail"), keyed.submit("video"));
    let key = keyed.narrow("operate", &["mail"]);
    let body = json!({"filter": {"states": ["pending"]}});
    let reply = keyed.post(&key, "/api/v1/tasks/cancel", &body);
    assert_eq!((reply.status, reply.json()["changed"].as_u64()), (200, Some(1)), "{reply:?}");
    let state = |id: &str| keyed.get(&keyed.root, &format!("/api/v1/tasks/{id}")).string("/state");
    assert_eq!((state(&own), state(&foreign)), ("cancelled".into(), "pending".into()));
    let purged = keyed.call(&key, "DELETE", "/admin/queues/normal", None);
    assert_eq!(purged.json()["changed"], 0, "{purged:?}");
    let ids = json!({"task_ids": [foreign]});
    let requeued = keyed.post(&key, "/admin/tasks/requeue", &ids).json();
    assert_eq!(requeued["refused"][0]["error"], "not-found", "{requeued}");
}

#[test]
fn a_worker_claims_only_what_its_key_reaches() {
    let keyed = Keyed::new();
    let key = keyed.narrow("work", &["mail*"]);
    for queue in ["video", "mail", "mail.eu"] {
        keyed.submit(queue);
    }
    let claimed = |spec: Value| {
        let worker = keyed.register(&key, &spec);
        let reply = keyed.poll(&key, &worker).json();
        let tasks = reply["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["queue"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(claimed(json!({"queues": ["video"]})), [""; 0]);
    assert_eq!(claimed(json!({"queues": ["mail.eu", "video"]})), ["mail.eu"]);
    assert_eq!(claimed(json!({})), ["mail"]);
}

#[test]
fn a_worker_answers_to_its_own_key_alone() {
    let keyed = Keyed::new();
    let (own, other) = (keyed.narrow("work", &["*"]), keyed.narrow("work", &["*"]));
    let worker = keyed.register(&own, &json!({}));
    keyed.submit("mail");
    let held = keyed.poll(&own, &worker).json()["tasks"][0].clone();
    let lease = json!({"task_id": held["id"], "lease_token": held["lease_token"]});
    let result = json!({"task_id": held["id"], "lease_token": held["lease_token"],
        "status": "completed"});
    for (verb, body) in [
        ("poll", json!({"available_capacity": 1})),
        ("start", lease.clone()),
        ("progress", lease),
        ("heartbeat", json!({})),
        ("result", result.clone()),
    ] {
        let path = format!("/internal/workers/{worker}/{verb}");
        keyed.post(&other, &path, &body).refused(403, "insufficient-scope");
    }
    let path = format!("/internal/workers/{worker}");
    keyed.call(&other, "DELETE", &path, None).refused(403, "insufficient-scope");
    let settled = keyed.post(&own, &format!("{path}/result"), &result);
    assert_eq!(settled.status, 200, "{settled:?}");
    assert_eq!(keyed.call(&own, "DELETE", &path, None).status, 204);
}

#[test]
fn a_worker_from_before_there_were_keys_has_to_register_again() {
    let keyed = Keyed::new();
    let spec = tasklane_core::WorkerSpec::new(Default::default(), 1).unwrap();
    let worker = keyed.site.run(keyed.site.engine.register(spec)).unwrap();
    keyed.poll(&keyed.root, &worker.to_string()).refused(410, "worker-gone");
}

#[test]
fn live_readers_hear_only_of_what_is_within_reach() {
    let keyed = Keyed::new();
    let key = keyed.narrow("read", &["mail"]);
    let header = format!("authorization: Bearer {key}\r\n");
    let mut socket = Socket::open(&keyed.site, "/ws", &header).unwrap();
    assert_eq!(socket.expect()["type"], "system.hello");
    let mut stream = Listener::with(&keyed.site, "", &header);
    assert_eq!(stream.expect().kind, "system.hello");
    keyed.register(&keyed.root, &json!({}));
    keyed.submit("video");
    let own = keyed.submit("mail");
    assert_eq!(socket.expect()["data"]["task_id"], own);
    assert_eq!(stream.expect().data["data"]["task_id"], own);
}

#[test]
fn an_explanation_names_only_what_is_within_reach() {
    let keyed = Keyed::new();
    let submit = |task_type: &str| {
        let task = json!({"type": task_type, "queue": "mail", "ordering_key": "k"});
        keyed.post(&keyed.root, "/api/v1/tasks", &task).string("/id")
    };
    let (holder, blocked) = (submit("secret"), submit("open"));
    let explain = |key: &str, id: &str| keyed.get(key, &format!("/api/v1/tasks/{id}/explain"));
    let narrow = keyed.key(json!([{"verb": "read", "types": ["open"]}]));
    let told = explain(&narrow, &blocked);
    assert_eq!(told.json()["obstacles"][0]["code"], "ordering_key", "{told:?}");
    assert!(!told.text.contains(&holder), "{}", told.text);
    assert!(explain(&keyed.root, &blocked).text.contains(&holder));
    // A worker that is none of its business does not count.
    keyed.register(&keyed.root, &json!({"queues": ["video"]}));
    let mail = keyed.narrow("read", &["mail"]);
    let obstacle = |key: &str| explain(key, &holder).json()["obstacles"][0].clone();
    assert_eq!(obstacle(&mail)["code"], "no_workers");
    let all = obstacle(&keyed.root);
    assert_eq!((&all["code"], &all["count"]), (&json!("no_worker_takes_it"), &json!(1)));
    keyed.register(&keyed.root, &json!({"queues": ["mail"], "types": ["other"]}));
    let own = obstacle(&mail);
    assert_eq!((&own["code"], &own["count"]), (&json!("no_worker_takes_it"), &json!(1)));
    assert_eq!(obstacle(&keyed.root)["count"], 2);
}

#[test]
fn health_counts_only_what_is_within_reach() {
    let keyed = Keyed::new();
    let worker = keyed.register(&keyed.root, &json!({"queues": ["video"], "capacity": 9}));
    for _ in 0..5 {
        keyed.submit("video");
    }
    let tasks = keyed.poll(&keyed.root, &worker).json()["tasks"].as_array().unwrap().clone();
    let failed = |task: &Value| {
        json!({"task_id": task["id"], "lease_token": task["lease_token"], "status": "failed",
            "error": {"message": "no"}})
    };
    let results = json!({"results": tasks.iter().map(failed).collect::<Vec<_>>()});
    let path = format!("/internal/workers/{worker}/result");
    assert_eq!(keyed.post(&keyed.root, &path, &results).status, 200);
    let health = |key: &str| keyed.get(key, "/admin/health").json();
    let all = health(&keyed.root);
    assert_eq!((&all["open_breakers"], &all["parked_polls"]), (&json!(1), &json!(0)), "{all}");
    let own = health(&keyed.narrow("read", &["mail"]));
    assert_eq!((&own["open_breakers"], own.get("parked_polls")), (&json!(0), None), "{own}");
    assert_eq!(own["workers"]["unhealthy"], 0);
    let video = health(&keyed.narrow("read", &["video"]));
    assert_eq!(video["open_breakers"], 1);
}
