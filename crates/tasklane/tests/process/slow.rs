//! Slow calls in the log.

use serde_json::json;

use crate::client::{call, call_with};
use crate::server::Server;

#[test]
fn a_slow_call_is_a_line_with_its_ids_and_without_its_body() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasklane.toml");
    std::fs::write(&file, "log.slow_call_seconds = 0\n").unwrap();
    let server = Server::start(&folder.path().join("store"), &["--config", file.to_str().unwrap()]);
    let secret = "sk-do-not-tell";
    let trace = "x\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let task = json!({"type": "a", "payload": secret});
    let worker = call(server.address, "POST", "/internal/workers/register", &json!({})).1;
    let path = format!("/internal/workers/{}/poll", worker["worker_id"].as_str().unwrap());
    let poll = json!({"available_capacity": 1, "wait_ms": 200});
    assert_eq!(call(server.address, "POST", &path, &poll).0, 200);
    let (status, task) = call_with(server.address, trace, "POST", "/api/v1/tasks", &task);
    assert_eq!(status, 201);
    let claimed = call(server.address, "POST", &path, &json!({"available_capacity": 1})).1;
    let token = &claimed["tasks"][0]["lease_token"];
    let done = json!({"task_id": task["id"], "lease_token": token, "status": "completed"});
    let path = path.replace("/poll", "/result");
    assert_eq!(call(server.address, "POST", &path, &done).0, 200);
    let lines = server.logged("a slow call", 5);
    let text = format!("{lines:?}");
    assert!(!text.contains(secret), "{text}");
    let line = |route: &str| {
        let line = lines.iter().find(|line| line["route"] == route);
        line.unwrap_or_else(|| panic!("{route} is not in {text}")).clone()
    };
    let submit = line("/api/v1/tasks");
    assert_eq!((&submit["method"], &submit["status"]), (&json!("POST"), &json!(201)));
    assert_eq!(submit["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(submit["task_id"], task["id"], "{submit}");
    let settled = line("/internal/workers/{id}/result");
    assert_eq!(settled["task_id"], task["id"], "{settled}");
    assert!(submit["request_id"].as_str().is_some_and(|id| id.len() >= 16), "{submit}");
    let polled = line("/internal/workers/{id}/poll");
    assert_eq!(polled["asked_ms"], 200, "{polled}");
    assert!(polled["took_ms"].as_u64().is_some_and(|took| took >= 200), "{polled}");
    assert!(polled.get("trace_id").is_none(), "{polled}");
}
