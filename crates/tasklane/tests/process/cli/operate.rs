//! What changes something.

use serde_json::json;

use super::{Site, masked};

#[test]
fn queues_and_workers_are_paused_resumed_and_drained() {
    let site = Site::new();
    site.submit(&["a"]);
    let worker = site.work(json!({"status": "completed"}));
    let paused = "NAME STATE DEPTH WEIGHT ORDER\ndefault paused 0 1 aging";
    assert_eq!(masked(&site.done(&["pause", "default"])), paused);
    assert_eq!(site.get("/admin/queues/default")["paused"], true);
    site.done(&["resume", "default"]);
    assert_eq!(site.get("/admin/queues/default")["paused"], false);
    let state = |verb: &[&str]| {
        let shown = site.json(&[verb, &[&worker]].concat());
        shown["workers"][0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&["pause", "--worker"]), "paused");
    assert_eq!(state(&["resume", "--worker"]), "active");
    assert_eq!(state(&["drain"]), "draining");
    let one = site.done(&["workers", &worker]);
    assert!(masked(&one).contains("state draining\ntasks 0 of 1\n"), "{one}");
}

#[test]
fn tasks_are_cancelled_and_retried() {
    let site = Site::new();
    let id = site.submit(&["a", "--priority", "low"]);
    assert_eq!(site.json(&["cancel", &id])["tasks"][0]["state"], "cancelled");
    let retried = site.json(&["retry", &id, "--new-priority", "critical"]);
    let task = &retried["tasks"][0];
    assert_eq!((&task["state"], &task["priority"]), (&json!("pending"), &json!("critical")));
}

#[test]
fn dead_letters_are_looked_at_replayed_and_discarded() {
    let site = Site::new();
    let ids = [site.dead_letter("a"), site.dead_letter("a"), site.dead_letter("b")];
    let list = "\
ID TYPE QUEUE ATTEMPTS REASON ENDED ERROR
ID b default 1 not_retryable TIME no such user (permanent, E7)";
    assert_eq!(masked(&site.done(&["dlq", "list", "--type", "b"])), list);
    let summary = "\
COUNT TYPE REASON KIND LAST MESSAGE
2 a not_retryable permanent TIME no such user
1 b not_retryable permanent TIME no such user";
    assert_eq!(masked(&site.done(&["dlq", "summary"])), summary);
    let shown = masked(&site.done(&["dlq", "show", &ids[0]]));
    let attempts = "\
ATTEMPT WORKER STARTED ENDED OUTCOME ERROR
1 ID TIME TIME failed no such user (permanent, E7)";
    assert!(shown.starts_with("id ID\ntype a\n") && shown.ends_with(attempts), "{shown}");
    let replayed = site.json(&["dlq", "replay", &ids[0]]);
    assert_eq!(replayed["tasks"][0]["state"], "pending");
    let dry = site.done(&["dlq", "replay", "--type", "a", "--dry-run"]);
    assert_eq!(dry, "1 dead letter would be replayed\n");
    assert_eq!(site.json(&["dlq", "replay", "--type", "a"]), json!({"replayed": 1}));
    assert_eq!(site.json(&["dlq", "discard", &ids[2], "--yes"]), json!({"changed": 1}));
    assert_eq!(site.json(&["dlq", "list"]), json!({"entries": []}));
    assert!(site.said(&["get", &ids[2]], 3).contains("no such task"));
}
