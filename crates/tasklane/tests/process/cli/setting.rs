//! Settings of queues.

use serde_json::json;

use super::{Site, masked};

#[test]
fn a_queue_is_shown_with_who_has_set_what() {
    let site = Site::new();
    site.submit(&["a", "--queue", "mail"]);
    let sheet = "\
name mail
state open
depth 1
weight 1 (default)
order aging (default)
counts as normal AGE, high AGE, critical AGE
refuses from normal 1000000, high 5000000, all 10000000 (default)
retention as the server's (default)";
    assert_eq!(masked(&site.done(&["queues", "show", "mail"])), sheet);
    assert_eq!(site.json(&["queues", "show", "mail"]), site.get("/admin/queues/mail"));
}

#[test]
fn settings_are_changed_together_and_given_back() {
    let site = Site::new();
    let changed = site.done(&[
        "queues",
        "set",
        "mail",
        "--weight",
        "5",
        "--shares",
        "critical=60,high=20,normal=15,low=5",
        "--depth-limits",
        "normal=10,high=20,all=30",
        "--retention",
        "completed=1h,cancelled=2h,failed=7d,dead_letter=forever",
    ]);
    let sheet = "\
name mail
state open
depth 0
weight 5 (operator)
order weighted (operator)
shares critical 60, high 20, normal 15, low 5
refuses from normal 10, high 20, all 30 (operator)
retention completed AGE, cancelled AGE, failed 7d00h, dead_letter forever (operator)";
    assert_eq!(masked(&changed), sheet);
    let queue = site.get("/admin/queues/mail");
    assert_eq!(
        queue["retention"],
        json!({"completed_seconds": 3_600, "cancelled_seconds": 7_200,
        "failed_seconds": 604_800})
    );
    let aging = ["queues", "set", "mail", "--aging", "normal=5m,high=10m,critical=never"];
    let queue = site.json(&aging);
    assert_eq!(queue["aging"], json!({"normal_seconds": 300, "high_seconds": 600}));
    assert_eq!(queue["weight"], 5, "what is not named stays");
    let reset = ["queues", "set", "mail", "--reset", "order,weight,depth-limits,retention"];
    let queue = site.json(&reset);
    let origins: Vec<_> = queue["origins"].as_object().unwrap().values().collect();
    assert_eq!(origins, vec!["default"; 4]);
}

#[test]
fn half_a_setting_is_not_taken() {
    let site = Site::new();
    for (flag, value, words) in [
        ("--retention", "completed=1h", "each of completed, cancelled, failed, dead_letter once"),
        ("--retention", "completed=1,cancelled=1h,failed=1h,dead_letter=1h", "or forever"),
        ("--depth-limits", "normal=10,high=x,all=30", "high: \"x\" is no number"),
        ("--reset", "weights", "order, weight, depth_limits or retention"),
    ] {
        let text = site.said(&["queues", "set", "mail", flag, value], 2);
        assert!(text.contains(words), "{flag} {value}: {text}");
    }
    let text = site.said(&["queues", "set", "mail"], 2);
    assert!(text.contains("--weight"), "{text}");
    let text = site.said(&["queues", "set", "mail", "--weight", "0"], 1);
    assert!(text.contains("/weight") && text.contains("422 out-of-range"), "{text}");
    assert_eq!(site.get("/admin/queues")["queues"], json!([]), "nothing was set");
}
