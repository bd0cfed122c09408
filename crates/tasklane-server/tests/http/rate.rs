//! Who calls too often waits; what keeps leases does not.

use std::time::Duration;

use serde_json::{Value, json};
use tasklane_server::{Authentication, Rate, Settings};

use crate::key::Keyed;
use crate::site::{Reply, Site};

fn rate(per_second: f64, burst: f64) -> Rate {
    Rate { per_second, burst }
}

/// A server with keys whose calls are counted.
fn keyed(change: impl FnOnce(&mut Settings)) -> Keyed {
    let keyed = Keyed::new();
    // Its first keys are made before anybody counts.
    let mut settings = (*keyed.site.engine.settings()).clone();
    change(&mut settings);
    keyed.site.run(keyed.site.engine.change_settings(settings)).unwrap();
    keyed
}

fn limited(reply: &Reply) -> u32 {
    reply.refused(429, "rate-limited");
    reply.header("retry-after").unwrap().parse().unwrap()
}

#[test]
fn a_key_gets_its_burst_then_its_rate_and_another_key_its_own() {
    let keyed = keyed(|_| {});
    let (one, other) = (keyed.key(json!([{"verb": "read"}])), keyed.key(json!([{"verb": "read"}])));
    let mut settings = (*keyed.site.engine.settings()).clone();
    settings.rate_limits.key = rate(0.1, 3.0);
    keyed.site.run(keyed.site.engine.change_settings(settings)).unwrap();
    let call = |key: &str| keyed.get(key, "/api/v1/tasks");
    for _ in 0..3 {
        assert_eq!(call(&one).status, 200);
    }
    assert_eq!(limited(&call(&one)), 10);
    assert_eq!(call(&other).status, 200);
    keyed.site.pass(Duration::from_secs(10));
    assert_eq!(call(&one).status, 200);
    assert_eq!(limited(&call(&one)), 10);
    let metrics = keyed.site.get("/metrics").text;
    assert!(metrics.contains(r#"tasklane_rejected_total{reason="rate-limited"} 2"#), "{metrics}");
}

#[test]
fn every_task_of_a_batch_counts_and_a_large_one_is_paid_for_afterwards() {
    let keyed = keyed(|settings| settings.rate_limits.key = rate(1.0, 5.0));
    let batch = |count: usize| {
        let tasks = json!({"tasks": vec![json!({"type": "a"}); count]});
        keyed.post(&keyed.root, "/api/v1/tasks/batch", &tasks)
    };
    assert_eq!(batch(2).status, 201);
    assert_eq!(batch(20).status, 201, "it is larger than the bucket, which is not empty");
    // Five were there and 22 were taken; one more call needs one.
    assert_eq!(limited(&batch(1)), 18);
    keyed.site.pass(Duration::from_secs(18));
    assert_eq!(batch(1).status, 201);
    limited(&batch(1));
    keyed.site.pass(Duration::from_secs(1));
    let tasks = keyed.get(&keyed.root, "/api/v1/tasks?limit=100").json();
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 23, "what was refused was not taken");
}

#[test]
fn what_keeps_and_settles_leases_is_never_refused() {
    let keyed = keyed(|settings| {
        settings.rate_limits.key = rate(0.001, 4.0);
        settings.rate_limits.address = rate(0.001, 4.0);
    });
    let call = |path: &str, body: Value| keyed.post(&keyed.root, path, &body);
    let id = call("/internal/workers/register", json!({})).string("/worker_id");
    call("/api/v1/tasks", json!({"type": "a"}));
    let worker = |verb: &str| format!("/internal/workers/{id}/{verb}");
    let asked = json!({"available_capacity": 1, "auto_start": false});
    let task = call(&worker("poll"), asked.clone()).json()["tasks"][0].clone();
    call("/api/v1/tasks", json!({"type": "a"}));
    limited(&call("/api/v1/tasks", json!({"type": "a"})));
    limited(&call(&worker("poll"), asked.clone()));
    limited(&call("/internal/workers/register", json!({})));
    let lease = json!({"task_id": task["id"], "lease_token": task["lease_token"]});
    for _ in 0..5 {
        assert_eq!(call(&worker("heartbeat"), json!({})).status, 200);
    }
    assert_eq!(call(&worker("start"), lease.clone()).status, 200);
    assert_eq!(call(&worker("progress"), lease.clone()).status, 200);
    let mut result = lease;
    result["status"] = json!("completed");
    let settled = call(&worker("result"), json!({"results": [result], "poll": asked}));
    assert_eq!(settled.json()["tasks"].as_array().unwrap().len(), 1, "{settled:?}");
    let path = format!("/internal/workers/{id}");
    assert_eq!(keyed.call(&keyed.root, "DELETE", &path, None).status, 204);
    limited(&keyed.get(&keyed.root, "/api/v1/tasks"));
    limited(&keyed.site.get("/metrics"));
    for probe in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(keyed.site.get(probe).status, 200, "{probe}");
    }
}

#[test]
fn an_address_is_the_peers_unless_a_trusted_proxy_says_otherwise() {
    let call = |site: &Site, forwarded: &str| {
        site.send("GET", "/api/v1/tasks", &[("x-forwarded-for", forwarded)], b"")
    };
    let site = Site::with(|settings, _| settings.rate_limits.address = rate(1.0, 2.0));
    assert_eq!(call(&site, "203.0.113.1").status, 200);
    assert_eq!(call(&site, "203.0.113.2").status, 200);
    limited(&call(&site, "203.0.113.3"));
    limited(&site.get("/api/v1/tasks"));
    let site = Site::with(|settings, _| {
        settings.rate_limits.address = rate(1.0, 1.0);
        settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    assert_eq!(call(&site, "203.0.113.1").status, 200);
    limited(&call(&site, "203.0.113.1"));
    limited(&call(&site, "198.51.100.7, 203.0.113.1"));
    assert_eq!(call(&site, "203.0.113.2").status, 200);
    assert_eq!(call(&site, "2001:db8:0:1::1").status, 200);
    limited(&call(&site, "2001:db8:0:1:2::3"));
    assert_eq!(call(&site, "2001:db8:0:2::1").status, 200);
    // What is recorded is beyond the proxy too.
    site.pass(Duration::from_secs(1));
    let headers = [("x-forwarded-for", "203.0.113.9")];
    assert_eq!(site.send("POST", "/admin/queues/q/pause", &headers, b"").status, 200);
    let records = site.send("GET", "/admin/audit", &[("x-forwarded-for", "203.0.113.8")], b"");
    assert_eq!(records.json()["records"][0]["from"], "203.0.113.9");
}

#[test]
fn an_open_server_counts_the_tasks_of_batches_too() {
    let site = Site::with(|settings, _| settings.rate_limits.address = rate(1.0, 5.0));
    let batch = json!({"tasks": vec![json!({"type": "a"}); 10]});
    assert_eq!(site.post("/api/v1/tasks/batch", &batch).status, 201);
    assert_eq!(limited(&site.post("/api/v1/tasks/batch", &batch)), 6);
}

#[test]
fn who_tries_keys_is_slowed_and_nobody_else_at_that_address() {
    let keyed = keyed(|settings| settings.rate_limits.failures = rate(0.1, 3.0));
    for _ in 0..3 {
        keyed.get("tl_nonsense", "/api/v1/tasks").refused(401, "unauthenticated");
    }
    assert_eq!(limited(&keyed.get("tl_nonsense", "/api/v1/tasks")), 10);
    limited(&keyed.post("tl_nonsense", "/internal/workers/7/heartbeat", &json!({})));
    limited(&keyed.site.get("/api/v1/tasks"));
    assert_eq!(keyed.get(&keyed.root, "/api/v1/tasks").status, 200, "a good key is good");
    keyed.site.pass(Duration::from_secs(10));
    keyed.get("tl_nonsense", "/api/v1/tasks").refused(401, "unauthenticated");
    limited(&keyed.get("tl_nonsense", "/api/v1/tasks"));
}

#[test]
fn limits_change_while_the_server_runs() {
    let site = Site::with(|settings, _| settings.authentication = Authentication::Off);
    let change = |address: Rate| {
        let mut settings = (*site.engine.settings()).clone();
        settings.rate_limits.address = address;
        site.run(site.engine.change_settings(settings)).unwrap();
    };
    for _ in 0..50 {
        assert_eq!(site.get("/api/v1/tasks").status, 200, "there is no limit unless one is set");
    }
    change(rate(1.0, 1.0));
    assert_eq!(site.get("/api/v1/tasks").status, 200);
    limited(&site.get("/api/v1/tasks"));
    change(Rate::OFF);
    assert_eq!(site.get("/api/v1/tasks").status, 200);
}
