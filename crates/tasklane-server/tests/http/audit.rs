//! The audit log: what operators did and who was refused.

use serde_json::{Value, json};

use crate::key::Keyed;
use crate::site::Site;

fn records(keyed: &Keyed) -> Vec<Value> {
    let reply = keyed.get(&keyed.root, "/admin/audit");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["records"].as_array().unwrap().clone()
}

#[test]
fn what_operators_do_is_recorded_with_who_what_where_and_outcome() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "operate"}]));
    keyed.call(&key, "POST", "/admin/queues/mail/pause", None);
    keyed.call(&key, "DELETE", "/admin/dlq?queue=mail", None);
    keyed.call(&key, "POST", "/admin/tasks/none/retry", None).refused(404, "not-found");
    let records = records(&keyed);
    let shown = |record: &Value| {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        (text("action"), text("target"), text("outcome"))
    };
    let expected = [
        ("POST /admin/tasks/{id}/retry", "/admin/tasks/none/retry", "not-found"),
        ("DELETE /admin/dlq", "/admin/dlq?queue=mail", "done"),
        ("POST /admin/queues/{name}/pause", "/admin/queues/mail/pause", "done"),
        ("POST /admin/keys", &key[..15], "done"),
    ];
    let expected = expected.map(|(action, target, outcome)| {
        (action.to_owned(), target.to_owned(), outcome.to_owned())
    });
    assert_eq!(records.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(records[0]["who"], format!("{} (a test's)", &key[..15]));
    assert_eq!((&records[0]["from"], &records[0]["count"]), (&json!("127.0.0.1"), &json!(1)));
}

#[test]
fn looks_submissions_and_work_are_not_recorded() {
    let keyed = Keyed::new();
    let id = keyed.submit("mail");
    keyed.get(&keyed.root, "/api/v1/tasks");
    keyed.get(&keyed.root, "/admin/keys");
    keyed.call(&keyed.root, "DELETE", &format!("/api/v1/tasks/{id}"), None);
    keyed.post(&keyed.root, "/internal/workers/register", &json!({}));
    assert_eq!(records(&keyed), [Value::Null; 0]);
}

#[test]
fn an_open_server_records_too() {
    let site = Site::new();
    site.send("POST", "/admin/queues/q/pause", &[], b"");
    let page = site.get("/admin/audit").json();
    assert_eq!(page["records"][0]["who"], "anyone");
}

#[test]
fn who_was_refused_is_recorded_and_repetitions_are_folded() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "read"}]));
    for _ in 0..300 {
        keyed.site.get("/api/v1/tasks").refused(401, "unauthenticated");
    }
    keyed.call(&key, "POST", "/admin/backup", None).refused(403, "insufficient-scope");
    let of = |outcome: &str| {
        let mut records = records(&keyed);
        records.retain(|record| record["outcome"] == outcome);
        records
    };
    keyed.site.eventually("the refusals are recorded", || !of("insufficient-scope").is_empty());
    assert_eq!(of("insufficient-scope")[0]["who"], format!("{} (a test's)", &key[..15]));
    let refused = of("no key");
    assert!((1..=2).contains(&refused.len()), "{refused:?}");
    assert_eq!((&refused[0]["who"], &refused[0]["from"]), (&json!("nobody"), &json!("127.0.0.1")));
    // At the end what was folded is told too.
    let store = keyed.site.store.clone();
    keyed.site.ended().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let log = tasklane_store::Store::audit(&*store, tasklane_store::AuditFrom::After(0), 100);
    let log = runtime.block_on(log).unwrap();
    let told = log.iter().filter(|record| &*record.entry.outcome == "no key");
    assert_eq!(told.map(|record| record.entry.count).sum::<u64>(), 300);
}

#[test]
fn the_log_is_read_in_pages_and_its_chain_can_be_followed() {
    let keyed = Keyed::new();
    for n in 0..5 {
        keyed.call(&keyed.root, "POST", &format!("/admin/queues/q{n}/pause"), None);
    }
    let (mut numbers, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/admin/audit?limit=2{next}");
        let page = keyed.get(&keyed.root, &path).json();
        numbers.extend(page["records"].as_array().unwrap().iter().map(|r| r["number"].as_u64()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    assert_eq!(numbers, [5, 4, 3, 2, 1].map(Some));
    let page = keyed.get(&keyed.root, "/admin/audit?oldest_first=true").json();
    let records = page["records"].as_array().unwrap();
    assert_eq!(records[0]["previous"], "0".repeat(64));
    for pair in records.windows(2) {
        assert_eq!(pair[0]["hash"], pair[1]["previous"]);
    }
    keyed.get(&keyed.root, "/admin/audit?cursor=x").refused(400, "invalid-cursor");
}
