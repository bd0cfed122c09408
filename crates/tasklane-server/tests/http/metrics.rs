//! Metrics as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::site::Site;

/// Everything that is measured, by the name of its family.
const FAMILIES: [&str; 40] = [
    "assignment_timeouts",
    "auth_failures",
    "build",
    "claim_seconds",
    "dlq_size",
    "event_readers",
    "events_lag",
    "execution_timeouts",
    "http_request_seconds",
    "idempotent_replays",
    "lease_losses",
    "parked_claims",
    "parked_polls",
    "pending_by_type",
    "queue_depth",
    "queue_oldest_age_seconds",
    "queue_wait_bound_seconds",
    "rejected",
    "store_commit_batch_size",
    "store_commit_seconds",
    "store_stall_seconds",
    "task_duration_seconds",
    "task_retries",
    "task_transitions",
    "task_wait_seconds",
    "tasks_completed",
    "tasks_dead_lettered",
    "tasks_failed",
    "tasks_promoted",
    "tasks_pruned",
    "tasks_starving",
    "tasks_state",
    "tasks_submitted",
    "tls_handshakes_failed",
    "trace_spans_exported",
    "worker_breaker_open",
    "worker_capacity_used_ratio",
    "worker_deaths",
    "workers",
    "ws_clients",
];

/// Every sample by its name with labels; checks the form on the way.
fn scrape(site: &Site) -> BTreeMap<String, f64> {
    let reply = site.get("/metrics");
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(reply.text.ends_with("# EOF\n"), "{}", reply.text);
    let mut samples = BTreeMap::new();
    let mut described = BTreeSet::new();
    let mut histograms = Vec::new();
    for line in reply.text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            if words.next() == Some("TYPE") {
                let family = words.next().unwrap();
                assert!(described.insert(family.to_owned()), "twice: {line}");
                if words.next() == Some("histogram") {
                    histograms.push(family.to_owned());
                }
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("tasklane_"), "{line}");
        let family = name.split('{').next().unwrap();
        let known = |suffix: &str| {
            family.strip_suffix(suffix).is_some_and(|family| described.contains(family))
        };
        let suffixes = ["", "_total", "_bucket", "_sum", "_count", "_info"];
        assert!(suffixes.iter().any(|suffix| known(suffix)), "no type: {line}");
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert!(before.is_none(), "twice: {line}");
    }
    let samples: BTreeMap<String, f64> = samples;
    for family in histograms {
        let of = |part: &str, more: &str| -> f64 {
            let begin = format!("{family}_{part}");
            let fits = |name: &str| {
                let rest = name.strip_prefix(&begin);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
                    && name.contains(more)
            };
            samples.iter().filter(|(name, _)| fits(name)).map(|(_, value)| value).sum()
        };
        let (all, counted) = (of("bucket", r#"le="+Inf""#), of("count", ""));
        assert_eq!(all, counted, "the last bucket of {family} has everything");
    }
    samples
}

#[test]
fn every_family_is_there_with_its_labels() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..3 {
        site.submit(json!({"queue": "mail", "priority": "high"}));
    }
    let held = worker.poll(3);
    worker.complete(&held[0]);
    worker.fail(&held[1], json!({"message": "no", "kind": "transient"}));
    worker.fail(&held[2], json!({"message": "no", "kind": "permanent"}));
    site.submit(json!({"queue": "mail", "idempotency_key": "k"}));
    let again = json!({"type": "a", "queue": "mail", "idempotency_key": "k"});
    assert_eq!(site.post("/api/v1/tasks", &again).status, 200);
    site.get("/api/v1/tasks/x").refused(404, "not-found");
    let dead = r#"tasklane_tasks_dead_lettered_total{queue="mail",reason="not_retryable"}"#;
    site.eventually("all is counted", || {
        let samples = scrape(&site);
        samples.contains_key(dead) && samples["tasklane_events_lag"] == 0.0
    });
    let samples = scrape(&site);
    for (name, value) in [
        (r#"tasklane_tasks_submitted_total{queue="mail",type="a",priority="high"}"#, 3.0),
        (r#"tasklane_tasks_completed_total{queue="mail",type="a",status="completed"}"#, 1.0),
        (r#"tasklane_tasks_completed_total{queue="mail",type="a",status="dead_letter"}"#, 1.0),
        (r#"tasklane_tasks_failed_total{queue="mail",kind="transient"}"#, 1.0),
        (r#"tasklane_task_retries_total{queue="mail",priority="high",reason="transient"}"#, 1.0),
        (dead, 1.0),
        ("tasklane_lease_losses_total", 0.0),
        ("tasklane_execution_timeouts_total", 0.0),
        ("tasklane_idempotent_replays_total", 1.0),
        (r#"tasklane_rejected_total{reason="not-found"}"#, 1.0),
        ("tasklane_tasks_pruned_total", 0.0),
        (r#"tasklane_queue_depth{queue="mail",priority="normal"}"#, 1.0),
        (r#"tasklane_queue_depth{queue="mail",priority="high"}"#, 0.0),
        (r#"tasklane_queue_oldest_age_seconds{queue="mail",priority="normal"}"#, 0.0),
        (r#"tasklane_queue_wait_bound_seconds{queue="mail",priority="low"}"#, 3_600.0),
        (r#"tasklane_pending_by_type{type="a"}"#, 1.0),
        (r#"tasklane_tasks_state{state="retrying"}"#, 1.0),
        (r#"tasklane_dlq_size{queue="mail"}"#, 1.0),
        (r#"tasklane_workers{state="active"}"#, 1.0),
        ("tasklane_worker_capacity_used_ratio", 0.0),
        ("tasklane_worker_breaker_open", 0.0),
        (r#"tasklane_task_wait_seconds_count{priority="high"}"#, 3.0),
        (
            r#"tasklane_task_duration_seconds_count{type="a",status="completed",priority="high"}"#,
            1.0,
        ),
        ("tasklane_claim_seconds_count", 1.0),
        ("tasklane_events_lag", 0.0),
        ("tasklane_ws_clients", 0.0),
        (r#"tasklane_http_request_seconds_count{route="/api/v1/tasks",status="201"}"#, 4.0),
        (r#"tasklane_http_request_seconds_count{route="/api/v1/tasks/{id}",status="404"}"#, 1.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
    assert!(samples.keys().any(|name| name.starts_with("tasklane_build_info{version=")));
}

#[test]
fn the_families_are_those_of_the_list() {
    let site = Site::new();
    site.worker();
    (0..3).for_each(|_| drop(site.submit(json!({"priority": "low"}))));
    site.pass(Duration::from_secs(1_201));
    let worker = site.worker();
    let held = worker.poll(3);
    worker.fail(&held[0], json!({"message": "no", "kind": "transient"}));
    worker.fail(&held[1], json!({"message": "no", "kind": "permanent"}));
    site.get("/api/v1/tasks/x").refused(404, "not-found");
    let families = || -> BTreeSet<String> {
        let text = site.get("/metrics").text;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE tasklane_"));
        types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let listed: BTreeSet<_> = FAMILIES.map(str::to_owned).into();
    site.eventually("each has something to tell", || families().is_superset(&listed));
    assert_eq!(families(), listed);
}

#[test]
fn changes_of_state_are_counted() {
    let site = Site::new();
    let worker = site.worker();
    let id = site.submit(json!({}));
    let poll = json!({"available_capacity": 1, "auto_start": false});
    assert_eq!(worker.call("poll", &poll).json()["tasks"][0]["id"], id.as_str());
    site.pass(Duration::from_secs(29));
    worker.call("heartbeat", &json!({}));
    site.pass(Duration::from_secs(2));
    site.await_state(&id, "pending");
    worker.complete(&worker.claim_one());
    let done = r#"tasklane_task_transitions_total{from="running",to="completed"}"#;
    site.eventually("all is counted", || {
        let samples = scrape(&site);
        samples.contains_key(done) && samples["tasklane_assignment_timeouts_total"] > 0.0
    });
    let samples = scrape(&site);
    for (from, to) in [
        ("new", "pending"),
        ("pending", "assigned"),
        ("assigned", "pending"),
        ("pending", "running"),
        ("running", "completed"),
    ] {
        let name = format!(r#"tasklane_task_transitions_total{{from="{from}",to="{to}"}}"#);
        assert_eq!(samples.get(&name), Some(&1.0), "{name}");
    }
    assert_eq!(samples["tasklane_assignment_timeouts_total"], 1.0);
}

#[test]
fn what_the_store_measures_of_itself_is_shown() {
    let site = Site::new();
    site.submit(json!({}));
    let tasks: Vec<_> = (0..100).map(|_| json!({"type": "a"})).collect();
    assert_eq!(site.post("/api/v1/tasks/batch", &json!({ "tasks": tasks })).status, 201);
    let mut samples = scrape(&site);
    // The two are read one after the other, and maintenance writes meanwhile.
    site.eventually("both have counted the same", || {
        samples = scrape(&site);
        samples["tasklane_store_commit_batch_size_count"]
            == samples["tasklane_store_commit_seconds_count"]
    });
    let commits = samples["tasklane_store_commit_seconds_count"];
    assert!(commits >= 2.0, "{commits}");
    assert!(samples["tasklane_store_commit_batch_size_sum"] >= 101.0);
    let up_to = |size: u32| {
        samples[&format!(r#"tasklane_store_commit_batch_size_bucket{{le="{size}.0"}}"#)]
    };
    assert_eq!((up_to(64), up_to(128)), (commits - 1.0, commits));
    assert!(samples["tasklane_store_commit_seconds_sum"] > 0.0);
    assert!(samples.contains_key("tasklane_store_stall_seconds_count"));
}

#[test]
fn starving_tasks_are_counted() {
    let site = Site::new();
    site.submit(json!({"priority": "low"}));
    assert_eq!(scrape(&site)["tasklane_tasks_starving"], 0.0);
    site.pass(Duration::from_secs(2_881));
    assert_eq!(scrape(&site)["tasklane_tasks_starving"], 1.0);
}

#[test]
fn promotions_and_deaths_are_counted() {
    let site = Site::new();
    site.submit(json!({"priority": "low"}));
    site.pass(Duration::from_secs(1_201));
    site.worker().claim_one();
    site.pass(Duration::from_secs(100));
    let promoted = r#"tasklane_tasks_promoted_total{from="low",to="high"}"#;
    let died = r#"tasklane_worker_deaths_total{reason="silent"}"#;
    site.eventually("both are counted", || {
        let samples = scrape(&site);
        samples.get(promoted) == Some(&1.0) && samples.get(died) == Some(&1.0)
    });
    assert_eq!(scrape(&site).get("tasklane_lease_losses_total"), Some(&1.0));
}

#[test]
fn types_and_queues_are_bounded() {
    let site = Site::new();
    let task = |number: usize| json!({"type": format!("t{number}"), "queue": format!("q{number}")});
    let tasks: Vec<_> = (0..1_100).map(task).collect();
    assert_eq!(site.post("/api/v1/tasks/batch", &json!({ "tasks": tasks })).status, 201);
    let submitted = |samples: &BTreeMap<String, f64>| {
        let names = samples.iter().filter(|(name, _)| name.contains("tasks_submitted_total"));
        names.map(|(_, value)| *value).sum::<f64>()
    };
    site.eventually("all is counted", || submitted(&scrape(&site)) == 1_100.0);
    let samples = scrape(&site);
    let others = samples[r#"tasklane_pending_by_type{type="other"}"#];
    assert_eq!(others, 900.0);
    let queues = samples.keys().filter(|name| name.starts_with("tasklane_queue_depth{")).count();
    assert_eq!(queues, 1_001);
    assert_eq!(samples[r#"tasklane_queue_depth{queue="other",priority="normal"}"#], 100.0);
}
