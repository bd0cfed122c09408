//! Workers and servers that die or stop in the middle of a task.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::server::{Server, signal, sleeping};
use crate::worker::Worker;

const LEASE: Duration = Duration::from_millis(2_000);
const LEASE_FLAG: [&str; 2] = ["--lease-ms", "2000"];

#[test]
fn a_killed_workers_task_is_finished_by_another_within_the_lease_and_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &LEASE_FLAG);
    let mut first = Worker::start(server.address);
    first.hear("registered");
    let id = server.submit(sleeping(500));
    assert_eq!(first.hear("claimed")["task"], id);
    let second = Worker::start(server.address);
    second.hear("registered");
    let killed = Instant::now();
    first.child.kill().unwrap();
    assert_eq!(second.hear("claimed")["task"], id);
    let taken_over = killed.elapsed();
    assert!(taken_over <= LEASE + Duration::from_secs(1), "after {taken_over:?}");
    let task = server.await_state(&id, "completed", Duration::from_secs(5));
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
    let id = server.submit(sleeping(300));
    let old_fence = first.hear("claimed")["fence"].as_u64().unwrap();
    signal(&first.child, "STOP");
    let second = Worker::start(server.address);
    let new_fence = second.hear("claimed")["fence"].as_u64().unwrap();
    assert!(new_fence > old_fence);
    second.hear("reported");
    let before = server.task(&id);
    signal(&first.child, "CONT");
    let stale = first.hear("reported");
    // Its worker was declared dead as well, which the refusal says instead.
    let refused = (stale["status"].as_u64().unwrap(), stale["type"].as_str().unwrap());
    assert!(matches!(refused, (409, "lease-lost") | (410, "worker-gone")), "{stale}");
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
