//! Each thing that can be wrong with a server, and a server that is well.

use serde_json::{Value, json};
use tasklane_client::wire;

use super::check::{Verdict, judge};
use super::look::Seen;

/// What a server shows that is well, with changes.
fn seen(health: Value, stats: Value) -> Seen {
    let in_years = "2999-01-01T00:00:00Z";
    let mut whole = json!({
        "status": "ok", "version": env!("CARGO_PKG_VERSION"), "durability": "fsync",
        "now": "2026-01-01T00:00:00Z", "uptime_seconds": 1, "parked_polls": 0,
        "open_breakers": 0,
        "workers": {"active": 1, "paused": 0, "draining": 0, "unhealthy": 0, "dead": 0,
            "total_capacity": 5, "used_capacity": 0},
        "machine": {"authentication": "keys", "events_lag": 0,
            "disk": {"free_bytes": 9u64 << 30, "total_bytes": 10u64 << 30},
            "files": {"open": 10, "max": 65536}, "certificate_ends_at": in_years}});
    merge(&mut whole, health);
    let depth = json!({"depth": 0, "oldest_age_seconds": 0, "running": 0});
    let mut counters = json!({
        "queues": {"critical": depth, "high": depth, "normal": depth, "low": depth},
        "scheduled": 0, "retrying": 0, "blocked": 0, "dlq_size": 0, "total_tasks": 0,
        "workers": whole["workers"], "waits": {}});
    merge(&mut counters, stats);
    Seen {
        url: "https://queue.example.org".to_owned(),
        has_key: true,
        reached: Ok(()),
        ready: Ok(()),
        health: Ok(serde_json::from_value(whole).unwrap()),
        clock: Some((0.0, 0.01)),
        stats: Ok(serde_json::from_value(counters).unwrap()),
        queues: Ok(Vec::new()),
        minutes: Ok(wire::Minutes { minutes: Vec::new() }),
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn verdict(seen: &Seen, check: &str) -> Verdict {
    let findings = judge(seen);
    let found = findings.iter().find(|finding| finding.check == check);
    let found = found.unwrap_or_else(|| panic!("no {check} in {findings:?}"));
    let advised = matches!(found.verdict, Verdict::Warning | Verdict::Problem);
    assert_eq!(found.advice.is_some(), advised, "{found:?}");
    found.verdict
}

#[test]
fn a_server_that_is_well_has_nothing_wrong() {
    let findings = judge(&seen(json!({}), json!({})));
    let wrong: Vec<_> = findings.iter().filter(|f| f.verdict != Verdict::Ok).collect();
    assert!(wrong.is_empty() && findings.len() >= 12, "{findings:?}");
}

#[test]
fn what_is_wrong_with_a_server_is_found() {
    let machine = |members: Value| json!({"machine": members});
    for (health, check, expected) in [
        (json!({"version": "9.9.9"}), "version", Verdict::Warning),
        (json!({"durability": "memory"}), "durability", Verdict::Warning),
        (json!({"durability": "interval"}), "durability", Verdict::Warning),
        (machine(json!({"authentication": "off"})), "door", Verdict::Problem),
        (machine(json!({"events_lag": 1_000_000})), "events", Verdict::Problem),
        (machine(json!({"disk": {"free_bytes": 1 << 20}})), "disk", Verdict::Problem),
        (machine(json!({"disk": {"free_bytes": 512 << 20}})), "disk", Verdict::Warning),
        (machine(json!({"files": {"open": 1020, "max": 1024}})), "files", Verdict::Problem),
        (machine(json!({"files": {"max": 1024}})), "files", Verdict::Warning),
        (
            machine(json!({"certificate_ends_at": "2020-01-01T00:00:00Z"})),
            "certificate",
            Verdict::Problem,
        ),
        (json!({"machine": null}), "machine", Verdict::Unknown),
    ] {
        assert_eq!(verdict(&seen(health.clone(), json!({})), check), expected, "{health}");
    }
}

#[test]
fn tasks_that_nobody_takes_are_found() {
    let waiting = json!({"queues": {"low": {"depth": 3}}});
    assert_eq!(verdict(&seen(json!({}), waiting.clone()), "workers"), Verdict::Ok);
    let alone = json!({"queues": waiting["queues"], "workers": {"active": 0}});
    assert_eq!(verdict(&seen(json!({}), alone), "workers"), Verdict::Problem);
    let sick = json!({"workers": {"unhealthy": 1}});
    assert_eq!(verdict(&seen(json!({}), sick), "workers"), Verdict::Warning);
}

#[test]
fn clocks_that_differ_are_found_as_far_as_can_be_told() {
    let mut seen = seen(json!({}), json!({}));
    for (clock, expected) in [
        ((-1.0, 0.0), Verdict::Ok),
        ((5.0, 0.1), Verdict::Warning),
        ((-5.0, 0.1), Verdict::Warning),
        ((100.0, 0.1), Verdict::Problem),
        ((100.0, 99.0), Verdict::Ok),
    ] {
        seen.clock = Some(clock);
        assert_eq!(verdict(&seen, "clock"), expected, "{clock:?}");
    }
}

#[test]
fn who_may_not_look_is_told_what_is_missing() {
    let mut seen = seen(json!({}), json!({}));
    seen.health = Err((401, "send a key".to_owned()));
    seen.stats = Err((401, "send a key".to_owned()));
    assert_eq!(verdict(&seen, "key"), Verdict::Problem);
    assert_eq!(verdict(&seen, "workers"), Verdict::Unknown);
    seen.ready = Err("the disk is full".to_owned());
    assert_eq!(verdict(&seen, "ready"), Verdict::Problem);
    seen.reached = Err("cannot reach it".to_owned());
    assert_eq!(judge(&seen).len(), 1);
}

#[test]
fn a_key_on_an_open_line_is_found() {
    let mut seen = seen(json!({}), json!({}));
    seen.url = "http://queue.example.org".to_owned();
    assert_eq!(verdict(&seen, "door"), Verdict::Warning);
    seen.url = "http://127.0.0.1:7170".to_owned();
    assert_eq!(verdict(&seen, "door"), Verdict::Ok);
}
