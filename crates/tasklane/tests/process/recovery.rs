//! Workers and servers that die or stop in the middle of a task.

use std::time::Duration;

use serde_json::{Value, json};
use tasklane_client::wire::Time;

use crate::client::{PATIENCE, call};
use crate::server::{Server, signal, sleeping};
use crate::worker::Worker;

const LEASE: Duration = Duration::from_millis(5_000);
const LEASE_FLAG: [&str; 2] = ["--lease-ms", "5000"];
/// How long work takes: enough to signal its worker before it is done, and to report it within the
/// lease afterwards.
const WORK_MS: u64 = 2_500;

/// How long after a task's first claim the second came, as the server saw it.
fn between_claims(server: &Server, id: &str) -> Duration {
    let path = format!("/api/v1/tasks/{id}/history");
    let (status, answer) = call(server.address, "GET", &path, &Value::Null);
    assert_eq!(status, 200, "{answer}");
    let entries = answer["history"].as_array().unwrap().iter();
    let claims = entries.filter(|entry| entry["type"] == "task.claimed");
    let times: Vec<Time> =
        claims.map(|claim| claim["timestamp"].as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(times.len(), 2, "{answer}");
    times[1].0.since(times[0].0)
}

#[test]
fn a_killed_workers_task_is_finished_by_another_within_the_lease_and_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &LEASE_FLAG);
    let mut first = Worker::start(server.address);
    first.hear("registered");
    let id = server.submit(sleeping(WORK_MS));
    assert_eq!(first.hear("claimed")["task"], id);
    first.child.kill().unwrap();
    let second = Worker::start(server.address);
    second.hear("registered");
    assert_eq!(second.hear("claimed")["task"], id);
    let taken_over = between_claims(&server, &id);
    assert!(taken_over <= LEASE + Duration::from_secs(1), "after {taken_over:?}");
    let task = server.await_state(&id, "completed", PATIENCE);
    let counts = [&task["deliveries"], &task["attempts"], &task["lease_losses"]];
    assert_eq!(counts, [&json!(2), &json!(1), &json!(0)], "{task}");
    assert_eq!(second.hear("reported")["status"], 200);
}

#[test]
fn a_worker_that_stood_still_past_its_lease_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &LEASE_FLAG);
    let first = Worker::start(server.address);
    first.hear("registered");
    let id = server.submit(sleeping(WORK_MS));
    let old_fence = first.hear("claimed")["fence"].as_u64().unwrap();
    signal(&first.child, "STOP");
    let second = Worker::start(server.address);
    let new_fence = second.hear("claimed")["fence"].as_u64().unwrap();
    assert!(new_fence > old_fence);
    second.hear("reported");
    let before = server.task(&id);
    signal(&first.child, "CONT");
    let stale = first.hear("reported");
    let refused = (stale["status"].as_u64().unwrap(), stale["type"].as_str().unwrap());
    assert_eq!(refused, (409, "lease-lost"), "{stale}");
    let after = server.task(&id);
    for member in ["state", "result", "attempts", "deliveries", "updated_at", "worker_id"] {
        assert_eq!(after[member], before[member], "{member}");
    }
    assert_eq!(after["result"]["fence"], new_fence);
}

#[test]
fn what_was_acknowledged_is_there_after_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let ids: Vec<String> = (0..50).map(|_| server.submit(json!({"type": "a"}))).collect();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let server = Server::start(folder.path(), &[]);
    for id in ids {
        assert_eq!(server.task(&id)["state"], "pending");
    }
}
