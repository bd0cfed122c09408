//! Many tasks from a file.

use serde_json::{Value, json};

use super::{Site, printed, said};

#[test]
fn a_file_becomes_tasks_and_can_be_sent_again() {
    let site = Site::new();
    let file = site.folder.path().join("tasks.ndjson");
    // More than one batch, with a line in between that is empty.
    let lines: Vec<String> = (0..2_500)
        .map(|n| json!({"type": "a", "payload": n, "idempotency_key": n.to_string()}).to_string())
        .collect();
    std::fs::write(&file, lines.join("\n\n")).unwrap();
    let name = file.to_str().unwrap();
    let done = site.json(&["submit", "--bulk", name]);
    assert_eq!(done, json!({"submitted": 2_500, "replayed": 0}));
    assert_eq!(site.get("/api/v1/queue/stats")["total_tasks"], 2_500);
    let receipts = site.done(&["submit", "--bulk", name, "-o", "ndjson"]);
    let receipts: Vec<Value> =
        receipts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(receipts.len(), 2_500);
    assert!(receipts.iter().all(|receipt| receipt["replayed"] == true));
    assert_eq!(site.get("/api/v1/queue/stats")["total_tasks"], 2_500);
    let last = receipts[2_499]["id"].as_str().unwrap();
    assert_eq!(site.json(&["get", last])["payload"], 2_499);
}

#[test]
fn a_bad_line_is_named_and_what_came_before_its_batch_stays() {
    let site = Site::new();
    let good = "{\"type\":\"a\"}\n";
    let unreadable = format!("{}{{\"type\":\"a\",\"what\":1}}\n", good.repeat(1_001));
    let text = said(&site.fed(&["submit", "--bulk", "-"], &unreadable), 2);
    assert!(text.contains("1000 tasks submitted before this:"), "{text}");
    assert!(text.contains("standard input:1002: no task: unknown field"), "{text}");
    assert_eq!(site.get("/api/v1/queue/stats")["total_tasks"], 1_000);
    let refused = format!("\n{good}{}\n", r#"{"type":"a","max_retries":101}"#);
    let text = said(&site.fed(&["submit", "--bulk", "-"], &refused), 1);
    assert!(text.contains("standard input:3: this line is refused"), "{text}");
    assert_eq!(site.get("/api/v1/queue/stats")["total_tasks"], 1_000);
}

#[test]
fn a_payload_comes_from_a_file_or_the_standard_input() {
    let site = Site::new();
    std::fs::write(site.folder.path().join("payload.json"), " {\"a\": 1}\n").unwrap();
    let id = site.submit(&["a", "@payload.json"]);
    assert_eq!(site.json(&["get", &id])["payload"], json!({"a": 1}));
    let fed = printed(&site.fed(&["submit", "a", "-", "-o", "json"], "[1, 2]"), 0);
    let task: Value = serde_json::from_str(&fed).unwrap();
    assert_eq!(task["payload"], json!([1, 2]));
    let missing = site.said(&["submit", "a", "@nowhere.json"], 1);
    assert!(missing.contains("cannot read nowhere.json"), "{missing}");
}
