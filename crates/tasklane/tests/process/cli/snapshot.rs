//! Every other table and document, as it comes out.

use serde_json::{Value, json};

use super::{Site, masked, printed, tasklane};
use crate::client::eventually;

/// A document without what is another each time.
fn shape(mut document: Value) -> Value {
    fn blank(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members.iter_mut() {
                    let name = name.as_str();
                    let varies = name.ends_with("_at")
                        || name.ends_with("_seconds") && value.is_f64()
                        || ["id", "task_id", "worker_id", "cursor", "seq", "timestamp", "place"]
                            .contains(&name)
                        || ["at", "hash", "previous", "from", "trace_id"].contains(&name);
                    if varies {
                        *value = json!("*");
                    } else {
                        blank(value);
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(blank),
            _ => {}
        }
    }
    blank(&mut document);
    document
}

#[test]
fn what_was_cancelled_retried_and_waited_for_is_listed() {
    let site = Site::new();
    let id = site.submit(&["a"]);
    let row = |state: &str| {
        format!(
            "ID TYPE QUEUE PRIORITY STATE ATTEMPTS AGE ERROR\nID a default normal {state} 0/4 AGE"
        )
    };
    assert_eq!(masked(&site.done(&["cancel", &id])), row("cancelled"));
    assert_eq!(masked(&site.done(&["retry", &id])), row("pending"));
    site.done(&["cancel", &id]);
    let waited = site.command(&["wait", &id]).output().unwrap();
    assert_eq!(masked(&printed(&waited, 1)), row("cancelled"));
    let task = shape(site.json(&["get", &id]));
    assert_eq!(
        task,
        json!({
            "id": "*", "type": "a", "queue": "default", "payload": null, "trace_id": "*",
            "priority": "normal", "effective_priority": "normal",
            "state": "cancelled", "reason": "requested",
            "attempts": 0, "max_retries": 3, "deliveries": 0, "lease_losses": 0, "replays": 1,
            "timeout_seconds": 600,
            "retry": {"strategy": "exponential", "initial_seconds": 1, "factor": 2.0,
                "max_seconds": 300, "jitter": "proportional"},
            "created_at": "*", "updated_at": "*", "completed_at": "*",
            "age_seconds": "*", "state_seconds": "*",
        })
    );
}

#[test]
fn a_task_that_failed_before_it_was_completed_has_no_error_in_lists() {
    let site = Site::new();
    let id = site.dead_letter("a");
    site.done(&["dlq", "replay", &id]);
    site.work(json!({"status": "completed", "result": 7}));
    let row = masked(&site.done(&["list"]));
    assert!(row.ends_with("ID a default normal completed 1/1 AGE"), "{row}");
    let sheet = masked(&site.done(&["get", &id]));
    assert!(sheet.ends_with("result 7\nfailed before no such user (permanent, E7)"), "{sheet}");
}

#[test]
fn why_a_task_does_not_run_is_told_in_words_and_data() {
    let site = Site::new();
    let id = site.submit(&["a"]);
    let explained = "\
id ID
state pending
position 1
critical in AGE
why it waits for a worker: no worker is registered
- no worker is registered";
    assert_eq!(masked(&site.done(&["explain", &id])), explained);
    let document = site.json(&["explain", &id]);
    assert_eq!(document["obstacles"][0]["code"], "no_workers", "{document}");
}

#[test]
fn workers_are_shown_one_by_one_and_in_rows() {
    let site = Site::new();
    site.submit(&["a"]);
    let id = site.work(json!({"status": "completed"}));
    let row = |state: &str| {
        format!(
            "ID NAME STATE TASKS BREAKER QUEUES TYPES SEEN\n\
             ID tester {state} 0/1 closed all all TIME"
        )
    };
    assert_eq!(masked(&site.done(&["pause", "--worker", &id])), row("paused"));
    let both = site.json(&["resume", "default", "--worker", &id]);
    assert_eq!(both["queues"][0]["name"], "default");
    assert_eq!(both["workers"][0]["state"], "active");
    assert_eq!(masked(&site.done(&["drain", &id])), row("draining"));
    let sheet = "\
id ID
name tester
state draining
tasks 0 of 1
breaker closed
failures 0 in a row
queues all
types all
registered TIME
seen TIME";
    assert_eq!(masked(&site.done(&["workers", &id])), sheet);
    let path = format!("/admin/workers/{id}");
    assert_eq!(shape(site.json(&["workers", &id])), shape(site.get(&path)));
}

#[test]
fn counters_and_events_are_what_the_server_says() {
    let site = Site::new();
    let dead = site.dead_letter("b");
    let id = site.submit(&["a"]);
    // Minutes are counted a moment after what they count.
    let stats = || site.get("/api/v1/queue/stats");
    eventually("the failure is counted", || stats()["throughput"]["failed_last_minute"] == 1);
    assert_eq!(shape(site.json(&["stats"])), shape(stats()));
    let path = format!("/api/v1/tasks/{id}/history");
    assert_eq!(shape(site.json(&["history", &id])), shape(site.get(&path)));
    assert_eq!(
        shape(site.json(&["dlq", "show", &dead])),
        shape(site.get(&format!("/api/v1/dlq/{dead}")))
    );
    assert_eq!(shape(site.json(&["dlq", "list"])), shape(site.get("/api/v1/dlq")));
    assert_eq!(shape(site.json(&["dlq", "summary"])), shape(site.get("/api/v1/dlq/summary")));
}

#[test]
fn counts_of_what_was_done_are_sentences_and_documents() {
    let site = Site::new();
    for _ in 0..2 {
        site.submit(&["a"]);
    }
    assert_eq!(site.done(&["purge", "normal", "--dry-run"]), "2 tasks would be cancelled\n");
    assert_eq!(site.json(&["purge", "normal", "--yes"]), json!({"changed": 2}));
    site.submit(&["a"]);
    assert_eq!(site.done(&["purge", "normal", "--yes"]), "1 task cancelled\n");
    for empty in [["list", "--state", "running"], ["dlq", "list", "--all"]] {
        assert_eq!(site.done(&empty), "");
    }
    assert_eq!(site.said(&["dlq", "list"], 0), "there are no dead letters\n");
    assert_eq!(site.said(&["workers"], 0), "there are no workers\n");
}

#[test]
fn copies_are_told_as_documents_too() {
    let site = Site::new();
    let copy = site.folder.path().join("copy.db");
    let copied = site.json(&["backup", copy.to_str().unwrap()]);
    assert_eq!(shape(copied), json!({"to": copy.to_str().unwrap(), "took_seconds": "*"}));
    let restore = ["restore", "copy.db", "--store", "sqlite:new", "-o", "json"];
    let restored = tasklane(site.folder.path(), &restore).output().unwrap();
    let restored: Value = serde_json::from_str(&printed(&restored, 0)).unwrap();
    assert_eq!(shape(restored), json!({"store": "sqlite:new", "took_seconds": "*"}));
}

#[test]
fn keys_and_the_audit_log_have_tables_and_documents() {
    let site = Site::new();
    let create = ["keys", "create", "--name", "mailer", "--scope", "submit,read", "--queue", "m*"];
    let secret = site.done(&create);
    assert!(secret.starts_with("tl_") && secret.lines().count() == 1, "{secret}");
    let id = &secret[..15];
    let keys = masked(&site.done(&["keys", "list"])).replace(id, "KEY");
    let table = "\
ID NAME STATE GOOD SCOPES
KEY mailer active for ever submit in m*, read in m*";
    assert_eq!(keys, table);
    let key = &site.json(&["keys", "list"])["keys"][0];
    assert_eq!((&key["id"], &key["name"]), (&json!(id), &json!("mailer")));
    site.done(&["pause", "mail"]);
    let audit = masked(&site.done(&["audit", "list"])).replace(id, "KEY");
    let table = "\
NUMBER TIME WHO FROM TIMES OUTCOME ACTION
2 TIME anyone 127.0.0.1 1 done POST /admin/queues/mail/pause
1 TIME anyone 127.0.0.1 1 done POST /admin/keys KEY";
    assert_eq!(audit, table);
    let record = &site.json(&["audit", "list", "--limit", "1"])["records"][0];
    assert_eq!(
        shape(record.clone()),
        json!({"number": 2, "at": "*", "who": "anyone", "action": "POST /admin/queues/{name}/pause",
            "target": "/admin/queues/mail/pause", "from": "*", "outcome": "done", "count": 1,
            "previous": "*", "hash": "*"})
    );
}
