//! Links: which answers hold what other calls need, so that a reader of the document, or a test that
//! goes by it, can follow a task through its life.

use serde_json::{Map, Value, json};

const OF_TASKS: &[&str] = &[
    "get",
    "cancel",
    "explain_task",
    "task_history",
    "task_progress",
    "get_dead_letter",
    "discard_dead_letter",
    "replay_dead_letter",
    "admin_update_task",
    "admin_retry_task",
];
const OF_WORKERS: &[&str] = &[
    "poll",
    "heartbeat",
    "deregister",
    "admin_get_worker",
    "admin_pause_worker",
    "admin_resume_worker",
    "admin_drain_worker",
];
const OF_LEASES: &[&str] = &["start", "progress", "result"];

/// Adds all of them.
pub(super) fn add(document: &mut Value) {
    for (_, _, operation) in super::each_operation(document) {
        let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default();
        let links = match id {
            "submit" => by_id("$response.body#/id", OF_TASKS),
            "submit_batch" => by_id("$response.body#/tasks/0/id", OF_TASKS),
            "register" => by_id("$response.body#/worker_id", OF_WORKERS),
            "admin_create_key" => by_id("$response.body#/key/id", &["admin_revoke_key"]),
            "poll" => of_leases(),
            _ => continue,
        };
        let Some(Value::Object(responses)) = operation.get_mut("responses") else { continue };
        for (status, response) in responses {
            if let (true, Value::Object(response)) = (status.starts_with('2'), response) {
                response.insert("links".into(), Value::Object(links.clone()));
            }
        }
    }
}

fn by_id(found: &str, operations: &[&str]) -> Map<String, Value> {
    let link = |name: &&str| {
        ((*name).to_owned(), json!({"operationId": name, "parameters": {"id": found}}))
    };
    operations.iter().map(link).collect()
}

/// What a poll hands out, the worker reports on.
fn of_leases() -> Map<String, Value> {
    let body = json!({
        "task_id": "$response.body#/tasks/0/id",
        "lease_token": "$response.body#/tasks/0/lease_token",
    });
    let link = |name: &&str| {
        let link = json!({
            "operationId": name,
            "parameters": {"id": "$request.path.id"},
            "requestBody": body,
        });
        ((*name).to_owned(), link)
    };
    OF_LEASES.iter().map(link).collect()
}
