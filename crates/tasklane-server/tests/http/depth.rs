//! How deep a queue may get: tiers by priority, for each queue its own (S20).

use serde_json::{Value, json};
use tasklane_core::{DepthLimits, QueueName};
use tasklane_server::QueueDefaults;

use crate::site::{Reply, Site};

/// A server on which `mail` has small tiers, and every other queue larger ones.
fn site() -> Site {
    Site::with(|settings, _| {
        let of = |normal, high, all| {
            let depth = Some(DepthLimits::new(normal, high, all).unwrap());
            QueueDefaults { depth, ..QueueDefaults::default() }
        };
        settings.queue_defaults = of(5, 6, 7);
        settings.queues.insert(QueueName::new("mail").unwrap(), of(2, 3, 4));
    })
}

fn submit(site: &Site, queue: &str, priority: &str) -> Reply {
    site.post("/api/v1/tasks", &json!({"type": "a", "queue": queue, "priority": priority}))
}

fn taken(reply: &Reply) {
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[test]
fn each_tier_refuses_what_is_less_urgent_and_the_last_one_all() {
    let site = site();
    taken(&submit(&site, "mail", "low"));
    taken(&submit(&site, "mail", "normal"));
    for priority in ["low", "normal"] {
        let refused = submit(&site, "mail", priority);
        refused.refused(429, "queue-full");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    taken(&submit(&site, "mail", "high"));
    submit(&site, "mail", "high").refused(429, "queue-full");
    submit(&site, "mail", "normal").refused(429, "queue-full");
    taken(&submit(&site, "mail", "critical"));
    for priority in ["low", "normal", "high", "critical"] {
        let refused = submit(&site, "mail", priority);
        refused.refused(503, "queue-full");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    let metrics = site.get("/metrics").text;
    assert!(metrics.contains(r#"tasklane_rejected_total{reason="queue-full"} 8"#), "{metrics}");
    // Another queue has tiers of its own: those that are configured for all.
    taken(&submit(&site, "video", "normal"));
    site.eventually("it has what is configured for all", || {
        let queue = site.get("/admin/queues/video").json();
        queue["depth_limits"] == json!({"normal": 5, "high": 6, "all": 7})
    });
    for _ in 0..4 {
        taken(&submit(&site, "video", "normal"));
    }
    submit(&site, "video", "normal").refused(429, "queue-full");
}

#[test]
fn a_batch_that_does_not_fit_is_refused_whole() {
    let site = site();
    let batch = |priorities: &[&str]| {
        let task = |priority: &&str| json!({"type": "a", "queue": "mail", "priority": priority});
        let tasks: Vec<Value> = priorities.iter().map(task).collect();
        site.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }))
    };
    let problem = batch(&["normal", "normal", "normal"]).refused(429, "queue-full");
    assert_eq!(problem["errors"][0]["pointer"], "/tasks/2");
    let problem = batch(&["critical"; 5]).refused(503, "queue-full");
    assert_eq!(problem["errors"][0]["pointer"], "/tasks/4");
    let stats = site.get("/api/v1/queue/stats").json();
    assert_eq!(stats["total_tasks"], 0, "nothing of either was taken");
    taken(&batch(&["normal", "normal", "high", "critical"]));
}

#[test]
fn a_full_queue_is_still_worked_off() {
    let site = site();
    for _ in 0..4 {
        taken(&submit(&site, "mail", "critical"));
    }
    let worker = site.worker();
    let held = worker.claim_one();
    taken(&submit(&site, "mail", "critical"));
    submit(&site, "mail", "critical").refused(503, "queue-full");
    assert_eq!(worker.call("heartbeat", &json!({})).status, 200);
    assert_eq!(worker.complete(&held).status, 200);
    assert_eq!(worker.poll(9).len(), 4);
    taken(&submit(&site, "mail", "low"));
}
