//! How long things are kept.

use super::*;

#[test]
fn what_has_ended_is_kept_as_long_as_it_is_set() {
    let states = ["completed", "cancelled", "failed", "dead_letter"];
    let kept = |section: &str, how_long: &str| {
        let members = states.map(|state| format!("{state}_seconds = {how_long}\n")).concat();
        format!("[{section}]\n{members}")
    };
    let prune = "[maintenance]\nprune_every_ms = 10\n";
    let site = Site::new(prune);
    // What is set for all, and for one queue against it.
    for (all, mail) in [("0", "\"forever\""), ("\"forever\"", "0")] {
        site.configure(
            &[prune, &kept("retention", all), &kept("queues.mail.retention", mail)].concat(),
        );
        let (gone, stays) = if all == "0" { ("default", "mail") } else { ("mail", "default") };
        let paths = |queue: &str| {
            let task = |more: Value| {
                let mut task = json!({"queue": queue, "dead_letter": true});
                task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                site.claimed(&task)
            };
            let completed = task(json!({}));
            site.settle(&completed, "completed", &json!({}));
            let cancelled = task(json!({}));
            site.settle(&cancelled, "cancelled", &json!({}));
            let failed = task(json!({"dead_letter": false}));
            site.fail(&failed, &json!({"kind": "permanent"}));
            let dead = task(json!({}));
            site.fail(&dead, &json!({"kind": "permanent"}));
            [completed, cancelled, failed, dead]
                .map(|task| format!("/api/v1/tasks/{}", task["id"].as_str().unwrap()))
        };
        let (stays, gone) = (paths(stays), paths(gone));
        for path in &gone {
            site.eventually("nothing is kept", |site| site.is_gone(path));
        }
        for (path, state) in stays.iter().zip(states) {
            assert_eq!(site.get(path)["state"], state);
        }
    }
}

#[test]
fn events_keys_and_workers_are_kept_as_long_as_it_is_set() {
    let removed = |config: &str| {
        let rare = "lease_ms = 20\n[maintenance]\nprune_every_ms = 3600000\n";
        let site = Site::new(&format!("{rare}{config}"));
        let id = site.server.submit(json!({"type": "a", "idempotency_key": "k"}));
        assert_eq!(site.call("DELETE", &format!("/api/v1/tasks/{id}"), &Value::Null).0, 200);
        let worker = format!("/admin/workers/{}", site.worker);
        site.eventually("it is dead", |site| site.get(&worker)["state"] == "dead");
        let removed = site.post("/admin/maintenance", &json!({}));
        ["events", "idempotency_records", "workers"].map(|name| removed[name] != 0)
    };
    assert_eq!(removed(""), [false, false, false]);
    for (setting, expected) in [
        ("events_seconds = 0", [true, false, false]),
        ("events_max = 1", [true, false, false]),
        ("idempotency_seconds = 0", [false, true, false]),
        ("workers_seconds = 0", [false, false, true]),
    ] {
        assert_eq!(removed(&format!("[retention]\n{setting}\n")), expected, "{setting}");
    }
}
