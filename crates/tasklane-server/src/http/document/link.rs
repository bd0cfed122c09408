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
const OF_QUEUES: &[&str] =
    &["admin_get_queue", "admin_update_queue", "admin_pause_queue", "admin_resume_queue"];

/// Adds all of them.
pub(super) fn add(document: &mut Value) {
    for (_, _, operation) in super::each_operation(document) {
        let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default();
        let links = match id {
            "submit" | "get" | "admin_retry_task" => by_id("$response.body#/id", OF_TASKS),
            "submit_batch" => by_id("$response.body#/tasks/0/id", OF_TASKS),
            "register" => by_id("$response.body#/worker_id", OF_WORKERS),
            "admin_create_key" => by_id("$response.body#/key/id", &["admin_revoke_key"]),
            "poll" => of_leases(),
            "admin_list_queues" => by("name", "$response.body#/queues/0/name", OF_QUEUES),
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
    by("id", found, operations)
}

fn by(parameter: &str, found: &str, operations: &[&str]) -> Map<String, Value> {
    let link = |name: &&str| {
        ((*name).to_owned(), json!({"operationId": name, "parameters": {parameter: found}}))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_leads_to_a_call_that_takes_what_it_gives() {
        let mut document = super::super::shown().clone();
        let mut takes = std::collections::HashMap::new();
        for (_, _, operation) in super::super::each_operation(&mut document) {
            let names = operation["parameters"].as_array().into_iter().flatten();
            let names: Vec<_> = names.map(|parameter| parameter["name"].clone()).collect();
            takes.insert(operation["operationId"].clone(), names);
        }
        let mut count = 0;
        for (path, _, operation) in super::super::each_operation(&mut document) {
            let responses = operation["responses"].as_object().unwrap().values();
            let links = responses.filter_map(|response| response["links"].as_object());
            for link in links.flat_map(Map::values) {
                let there = &takes[&link["operationId"]];
                for name in link["parameters"].as_object().unwrap().keys() {
                    assert!(there.contains(&json!(name)), "{path}: {link}");
                    count += 1;
                }
            }
        }
        assert!(count > 50, "only {count} links");
    }
}
