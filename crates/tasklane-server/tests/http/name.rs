//! Members and events by their names on the wire. Typed clients share the types that give these names, so
//! that nothing else would notice another one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::listener::Listener;
use crate::site::{Reply, Site};

/// Checks that an object has these members and no others.
#[track_caller]
fn assert_names(value: &Value, names: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    let mut found: Vec<&str> = object.keys().map(String::as_str).collect();
    let mut wanted: Vec<&str> = names.split_whitespace().collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{value}");
}

fn patch(site: &Site, path: &str, body: &Value) -> Reply {
    let headers = [("content-type", "application/json")];
    let reply = site.send("PATCH", path, &headers, body.to_string().as_bytes());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

/// A task with all that can be said of one.
fn full(site: &Site) -> Value {
    let task = json!({"type": "a", "queue": "q", "payload": 1, "priority": "low", "max_retries": 2,
        "required_capabilities": ["gpu"], "metadata": {"user": "7"}, "ordering_key": "o",
        "idempotency_key": "k", "dead_letter": false, "timeout_seconds": 60,
        "expires_at": site.in_time(Duration::from_secs(60)), "retry": {"strategy": "fixed", "factor": 2,
        "initial_seconds": 1, "max_seconds": 9, "jitter": "none"}});
    let reply = site.post("/api/v1/tasks", &task);
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()
}

/// What every task shows, and what that one does besides.
const OF_TASKS: &str = "id type queue payload priority effective_priority state attempts max_retries \
    deliveries lease_losses replays timeout_seconds retry trace_id created_at updated_at age_seconds \
    state_seconds";
const OF_FULL: &str =
    "required_capabilities dead_letter idempotency_key ordering_key metadata expires_at";

#[test]
fn members_of_a_task_come_with_its_states() {
    let site = Site::new();
    let submitted = full(&site);
    assert_names(&submitted, &format!("{OF_TASKS} {OF_FULL} queue_position"));
    assert_names(&submitted["retry"], "strategy initial_seconds factor max_seconds jitter");
    let shown = |more: &str| {
        let task = site.task(submitted["id"].as_str().unwrap());
        assert_names(&task, &format!("{OF_TASKS} {OF_FULL} {more}"));
        task
    };
    let worker = site.register(json!({"capabilities": ["gpu"]}));
    let assign = json!({"available_capacity": 1, "auto_start": false});
    let polled = worker.call("poll", &assign).json();
    assert_names(&polled, "tasks directive");
    let claimed = "id type queue payload priority attempt max_retries lease_token fence lease_ms \
        timeout_seconds metadata ordering_key traceparent created_at";
    assert_names(&polled["tasks"][0], claimed);
    shown("worker_id assigned_at");
    let held = crate::site::Held::from(&polled["tasks"][0]);
    assert_names(&worker.call("start", &held.report(json!({}))).json(), "task_id state");
    let progress = json!({"percent": 10, "step": 1, "steps": 9, "message": "m", "metadata": {}});
    assert_names(&worker.call("progress", &held.report(progress)).json(), "cancel");
    let running = "worker_id assigned_at started_at progress";
    let task = shown(running);
    let progress = "percent step steps message metadata updated_at eta_seconds";
    assert_names(&task["progress"], progress);
    site.delete(&format!("/api/v1/tasks/{}", held.id));
    shown(&format!("{running} cancel_requested_at"));
    worker.complete(&held);
    shown(&format!("{running} cancel_requested_at result completed_at"));
}

#[test]
fn members_of_a_failure_come_with_it() {
    let site = Site::new();
    let worker = site.worker();
    let id = site.submit(json!({"max_retries": 1}));
    let error =
        json!({"message": "m", "kind": "transient", "code": "c", "details": {}, "stack": "s"});
    let verdict = worker.fail(&worker.claim_one(), error.clone()).json();
    assert_names(&verdict, "task_id state next_retry_at");
    assert_names(&site.task(&id), &format!("{OF_TASKS} error next_retry_at"));
    site.pass(Duration::from_secs(60));
    site.await_state(&id, "pending");
    let other = site.worker();
    other.fail(&other.claim_one(), error);
    let ended = format!("{OF_TASKS} error reason completed_at");
    assert_names(&site.task(&id), &ended);
    let listed = site.get("/api/v1/dlq").json();
    assert_names(&listed, "entries");
    assert_names(&listed["entries"][0], &format!("{ended} fingerprint"));
    let whole = site.get(&format!("/api/v1/dlq/{id}")).json();
    assert_names(&whole, &format!("{ended} fingerprint attempt_history"));
    assert_names(&whole["error"], "message kind code retryable details stack");
    let attempt = "attempt worker_id assigned_at started_at ended_at outcome error";
    assert_names(&whole["attempt_history"][0], attempt);
    let summary = site.get("/api/v1/dlq/summary").json();
    assert_names(&summary, "groups examined exact");
    let group = "fingerprint count type reason kind code message first_at last_at task_ids";
    assert_names(&summary["groups"][0], group);
}

#[test]
fn operations_on_many_say_what_they_did() {
    let site = Site::new();
    let filter = |more: Value| {
        let mut body = json!({"filter": {"queue": "q"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let done = |path: &str, body: &Value| site.post(path, body).json();
    let dry = filter(json!({"dry_run": true}));
    for path in ["/api/v1/tasks/cancel", "/api/v1/dlq/replay"] {
        assert_names(&done(path, &dry), "matched exact");
    }
    let plain = filter(json!({}));
    assert_names(&done("/api/v1/tasks/cancel", &plain), "changed more operation_id");
    assert_names(&done("/api/v1/dlq/replay", &plain), "replayed more operation_id");
    let requeued = done("/admin/tasks/requeue", &plain);
    assert_names(&requeued, "requeued refused more operation_id");
    let retried = done("/admin/dlq/retry", &json!({"retry_all": true}));
    assert_names(&retried, "replayed more operation_id");
    assert_names(&site.delete("/admin/dlq").json(), "changed more operation_id");
    assert_names(&site.delete("/admin/queues/low").json(), "changed more operation_id");
    let removed = "tasks events idempotency_records workers keys audit_records more took_seconds";
    assert_names(&done("/admin/maintenance", &json!({})), removed);
}

#[test]
fn counters_have_their_names() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    worker.complete(&worker.claim_one());
    site.eventually("the claim is counted", || {
        site.get("/api/v1/queue/stats").json()["waits"].get("p50_seconds").is_some()
    });
    let stats = site.get("/api/v1/queue/stats").json();
    let counters = "queues scheduled retrying blocked dlq_size total_tasks workers throughput waits \
        recovery";
    assert_names(&stats, counters);
    assert_names(&stats["queues"], "critical high normal low");
    for priority in ["critical", "high", "normal", "low"] {
        assert_names(&stats["queues"][priority], "depth oldest_age_seconds running");
    }
    let workers = "active paused draining unhealthy dead total_capacity used_capacity";
    assert_names(&stats["workers"], workers);
    let throughput = "completed_last_minute failed_last_minute avg_task_duration_seconds";
    assert_names(&stats["throughput"], throughput);
    assert_names(&stats["waits"], "p50_seconds p95_seconds max_bound_seconds");
    assert_names(&stats["recovery"], "lease_losses_last_hour timeouts_last_hour");
    let health = site.get("/admin/health").json();
    let members =
        "status version durability now uptime_seconds workers parked_polls open_breakers machine";
    assert_names(&health, members);
    assert_names(&health["workers"], workers);
    assert_names(&health["machine"], "authentication events_lag");
}

#[test]
fn workers_and_queues_have_their_names() {
    let site = Site::new();
    let spec = json!({"name": "n", "capabilities": ["gpu"], "types": ["a"], "queues": ["q"],
        "capacity": 2, "version": "1", "host": "h"});
    let registered = site.post("/internal/workers/register", &spec).json();
    let answer = "worker_id lease_ms heartbeat_interval_ms poll_wait_ms poll_interval_ms";
    assert_names(&registered, answer);
    let id = registered["worker_id"].as_str().unwrap();
    let beat = json!({"current_load": 1, "health": {"cpu_percent": 1, "memory_percent": 2}});
    let answer = site.post(&format!("/internal/workers/{id}/heartbeat"), &beat).json();
    assert_names(&answer, "acknowledged should_drain directive cancel lost");
    let page = site.get("/admin/workers").json();
    assert_names(&page, "workers");
    let worker = "worker_id name state breaker consecutive_failures capabilities queues types \
        capacity leases current_load version host cpu_percent memory_percent registered_at seen_at";
    assert_names(&page["workers"][0], worker);
    site.submit(json!({"queue": "q"}));
    let retention = json!({"completed_seconds": 60, "cancelled_seconds": 60, "failed_seconds": 60,
        "dead_letter_seconds": 60});
    let aging = json!({"normal_seconds": 1, "high_seconds": 2, "critical_seconds": 3});
    patch(&site, "/admin/queues/p", &json!({"retention": retention, "aging": aging}));
    let page = site.get("/admin/queues?limit=1").json();
    assert_names(&page, "queues next_cursor");
    let queue = &page["queues"][0];
    let members = "name paused depth weight order aging depth_limits retention origins";
    assert_names(queue, members);
    assert_names(&queue["aging"], "normal_seconds high_seconds critical_seconds");
    assert_names(&queue["depth_limits"], "normal high all");
    let kept = "completed_seconds cancelled_seconds failed_seconds dead_letter_seconds";
    assert_names(&queue["retention"], kept);
    assert_names(&queue["origins"], "order weight depth_limits retention");
    patch(&site, "/admin/queues/q", &json!({"weights": [4, 3, 2, 1]}));
    let queue = site.get("/admin/queues/q").json();
    assert_names(&queue, "name paused depth weight order weights depth_limits origins");
}

#[test]
fn other_spellings_are_taken() {
    let site = Site::new();
    let worker = site.worker();
    let strained = json!({"health": {"cpu_usage_percent": 10, "memory_usage_percent": 95}});
    worker.call("heartbeat", &strained);
    assert_eq!(worker.call("heartbeat", &strained).json()["directive"], "pause");
    let other = site.worker();
    let (first, waits) = (site.submit(json!({})), site.submit(json!({})));
    let held = other.claim_one();
    assert_eq!(held.id, first);
    let ended =
        |seconds: f64| json!({"status": "completed", "execution_duration_seconds": seconds});
    let refused = other.report(&held, ended(-1.0));
    assert_eq!(refused.status, 422, "{refused:?}");
    let found = |word: &str| {
        let query = site.get(&format!("/api/v1/tasks?state={word}")).json();
        let ids = query["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone());
        let body = json!({"filter": {"states": [word]}, "dry_run": true});
        let matched = site.post("/api/v1/tasks/cancel", &body).json()["matched"].clone();
        (ids.collect::<Vec<_>>(), matched)
    };
    for word in ["running", "executing", "processing", "in_progress"] {
        assert_eq!(found(word), (vec![json!(first)], json!(1)), "{word}");
    }
    for word in ["pending", "queued"] {
        assert_eq!(found(word), (vec![json!(waits)], json!(1)), "{word}");
    }
    assert_eq!(other.report(&held, ended(1.5)).status, 200);
}

#[test]
fn workers_and_queues_are_told_of_by_name() {
    let site = Site::new();
    let (mut workers, _) = Listener::live(&site, "kinds=worker.*");
    let worker = site.worker();
    for verb in ["pause", "resume", "drain"] {
        site.post(&format!("/admin/workers/{}/{verb}", worker.id), &json!({}));
    }
    site.delete(&format!("/internal/workers/{}", worker.id));
    for change in ["joined", "paused", "resumed", "draining", "left"] {
        let heard = workers.expect();
        assert_eq!(heard.kind, format!("worker.{change}"));
        assert_names(&heard.data, "cursor seq v type timestamp data");
        assert_eq!(heard.data["type"], heard.kind);
        assert_eq!(heard.data["data"], json!({"worker_id": worker.id}));
    }
    let (mut queues, _) = Listener::live(&site, "kinds=queue.paused,queue.resumed,queue.updated");
    site.post("/admin/queues/q/pause", &json!({}));
    site.post("/admin/queues/q/resume", &json!({}));
    patch(&site, "/admin/queues/q", &json!({"weight": 2}));
    for change in ["paused", "resumed", "updated"] {
        let heard = queues.expect();
        assert_eq!(heard.kind, format!("queue.{change}"));
        assert_eq!(heard.data["data"], json!({"queue": "q"}));
    }
}

#[test]
fn what_people_do_to_tasks_is_told_by_name() {
    let site = Site::new();
    let (first, second) =
        (site.submit(json!({"ordering_key": "k"})), site.submit(json!({"ordering_key": "k"})));
    let kinds = "kinds=task.updated,task.requeued,task.unblocked,task.cancel_requested";
    let (mut listener, _) = Listener::live(&site, kinds);
    patch(&site, &format!("/admin/tasks/{first}"), &json!({"priority": "high"}));
    let worker = site.worker();
    worker.claim_one();
    site.post("/admin/tasks/requeue", &json!({"task_ids": [first]}));
    let held = site.worker().claim_one();
    site.delete(&format!("/api/v1/tasks/{first}"));
    worker.report(&held, json!({"status": "cancelled"}));
    let task = "task_id type queue priority attempt";
    for (kind, id, more) in [
        ("task.updated", &first, ""),
        ("task.requeued", &first, "worker_id"),
        ("task.cancel_requested", &first, "worker_id"),
        ("task.unblocked", &second, ""),
    ] {
        let heard = listener.expect();
        assert_eq!((heard.kind.as_str(), &heard.data["data"]["task_id"]), (kind, &json!(id)));
        assert_names(&heard.data, "cursor seq v type timestamp data");
        assert_names(&heard.data["data"], &format!("{task} {more}"));
    }
}
