//! Calls as spans at a collector.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_server::trace::{TraceSettings, Tracer};

use crate::authority::{Authority, write};
use crate::collector::{Collector, SILENT};
use crate::site::{Held, PATIENCE, Site};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn settings(collector: &Collector) -> TraceSettings {
    TraceSettings {
        endpoint: format!("http://{}", collector.address),
        export_every: Duration::from_millis(10),
        sample_ratio: 1.0,
        ..TraceSettings::default()
    }
}

fn site(settings: TraceSettings) -> Site {
    Site::traced(Tracer::open(settings).unwrap())
}

/// Waits for the span of a route.
fn span_of(site: &Site, collector: &Collector, name: &str) -> Value {
    let find = || collector.spans().into_iter().find(|span| span["name"] == name);
    site.eventually(&format!("a span of {name}"), || find().is_some());
    find().unwrap()
}

fn attribute(span: &Value, key: &str) -> Option<Value> {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == key)?;
    found["value"].as_object().unwrap().values().next().cloned()
}

fn metric(site: &Site, name: &str) -> u64 {
    let text = site.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

#[test]
fn a_call_is_told_with_its_route_status_ids_and_times() {
    let collector = Collector::start(200);
    let site = site(settings(&collector));
    let headers =
        [("content-type", "application/json"), ("traceparent", PARENT), ("tracestate", "v=1")];
    let secret = "sk-do-not-tell";
    let body = json!({"type": "a", "payload": {"token": secret}}).to_string();
    let reply = site.send("POST", "/api/v1/tasks", &headers, body.as_bytes());
    let span = span_of(&site, &collector, "POST /api/v1/tasks");
    assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        (&span["parentSpanId"], &span["traceState"]),
        (&json!("b7ad6b7169203331"), &json!("v=1"))
    );
    assert_eq!((span["kind"].clone(), span["spanId"].as_str().unwrap().len()), (json!(2), 16));
    assert_eq!(attribute(&span, "http.route"), Some(json!("/api/v1/tasks")));
    assert_eq!(attribute(&span, "http.request.method"), Some(json!("POST")));
    assert_eq!(attribute(&span, "http.response.status_code"), Some(json!("201")));
    assert_eq!(attribute(&span, "tasklane.request_id"), Some(json!(reply.header("x-request-id"))));
    assert_eq!(attribute(&span, "tasklane.task_id"), Some(json!(reply.string("/id"))));
    let nanos = |name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
    let (began, ended) = (nanos("startTimeUnixNano"), nanos("endTimeUnixNano"));
    assert!(began <= ended && ended - began < PATIENCE.as_nanos(), "{began} {ended}");
    let told = collector.bodies()[0].clone();
    let resource = &told["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), Some(json!("tasklane")));
    assert!(collector.heads()[0].starts_with("post /v1/traces http/1.1\r\n"));
    assert!(collector.heads()[0].contains("\r\ncontent-type: application/json\r\n"));
    assert!(!collector.bodies().iter().any(|body| body.to_string().contains(secret)));
}

#[test]
fn a_call_on_a_task_names_it_and_one_that_fails_is_told_as_that() {
    let collector = Collector::start(200);
    let site = site(settings(&collector));
    let id = site.submit(json!({}));
    site.get(&format!("/api/v1/tasks/{id}"));
    let span = span_of(&site, &collector, "GET /api/v1/tasks/{id}");
    assert_eq!(attribute(&span, "tasklane.task_id"), Some(json!(id)));
    assert!(span.get("status").is_none() && span.get("parentSpanId").is_none(), "{span}");
    site.get("/api/v1/tasks/nonsense/history");
    let span = span_of(&site, &collector, "GET /api/v1/tasks/{id}/history");
    assert_eq!(attribute(&span, "tasklane.task_id"), None);
    assert_eq!(attribute(&span, "http.response.status_code"), Some(json!("404")));
    site.get("/nowhere/sk-do-not-tell");
    span_of(&site, &collector, "GET none");
}

#[test]
fn a_workers_call_on_one_task_names_it_taken_or_refused() {
    let collector = Collector::start(200);
    let site = site(settings(&collector));
    let worker = site.worker();
    let id = site.submit(json!({}));
    let claim = json!({"available_capacity": 1, "auto_start": false});
    let held = Held::from(&worker.call("poll", &claim).json()["tasks"][0]);
    for (verb, members, status) in [
        ("start", json!({}), 200),
        ("result", json!({"status": "completed"}), 200),
        ("progress", json!({"percent": 50}), 409),
    ] {
        assert_eq!(worker.call(verb, &held.report(members)).status, status, "{verb}");
        let span = span_of(&site, &collector, &format!("POST /internal/workers/{{id}}/{verb}"));
        assert_eq!(attribute(&span, "tasklane.task_id"), Some(json!(id)), "{verb}");
    }
}

#[test]
fn a_submission_without_a_trace_begins_that_of_its_task() {
    let collector = Collector::start(200);
    let site = site(settings(&collector));
    let trace = site.task(&site.submit(json!({})))["trace_id"].clone();
    let span = span_of(&site, &collector, "POST /api/v1/tasks");
    assert_eq!(span["traceId"], trace);
    let handed = site.worker().claim_one().whole["traceparent"].as_str().unwrap().to_owned();
    let parent = format!("00-{}-{}-00", trace.as_str().unwrap(), span["spanId"].as_str().unwrap());
    assert_eq!(handed, parent, "what the worker does comes below the submission");
}

#[test]
fn who_brings_a_trace_decides_whether_it_is_told() {
    let collector = Collector::start(200);
    let site = site(TraceSettings { sample_ratio: 0.0, ..settings(&collector) });
    let unsampled = PARENT.replace("-01", "-00");
    site.send("GET", "/livez", &[("traceparent", &unsampled)], b"");
    site.get("/livez");
    site.send("GET", "/healthz", &[("traceparent", PARENT)], b"");
    span_of(&site, &collector, "GET /healthz");
    assert_eq!(collector.spans().len(), 1, "{:?}", collector.spans());
}

#[test]
fn a_trace_goes_on_in_every_task_of_a_batch() {
    let site = Site::new();
    let headers =
        [("content-type", "application/json"), ("traceparent", PARENT), ("tracestate", "v=1")];
    let body = br#"{"tasks": [{"type": "a"}, {"type": "a"}]}"#;
    assert_eq!(site.send("POST", "/api/v1/tasks/batch", &headers, body).status, 201);
    let held = site.worker().poll(2);
    assert_eq!(held.len(), 2);
    for task in held {
        assert_eq!(
            (&task.whole["traceparent"], &task.whole["tracestate"]),
            (&json!(PARENT), &json!("v=1"))
        );
    }
}

#[test]
fn a_collector_is_spoken_to_over_tls_if_it_is_trusted() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let collector = Collector::start_secure(&authority.issue());
    let settings = |ca: &str| TraceSettings {
        endpoint: format!("https://localhost:{}", collector.address.port()),
        ca: Some(write(folder.path(), "ca.pem", ca)),
        ..settings(&collector)
    };
    let site = site(settings(&authority.pem));
    site.get("/livez");
    span_of(&site, &collector, "GET /livez");
    let wary = Site::traced(Tracer::open(settings(&Authority::new().pem)).unwrap());
    wary.get("/healthz");
    let lost = "tasklane_trace_spans_dropped_total{reason=\"failed\"}";
    wary.eventually("it is given up", || metric(&wary, lost) > 0);
    assert!(!collector.spans().iter().any(|span| span["name"] == "GET /healthz"));
}

#[test]
fn headers_come_from_a_file() {
    let (collector, folder) = (Collector::start(200), tempfile::tempdir().unwrap());
    let file = write(folder.path(), "headers", "# for the collector\n\nX-Team: queue\n");
    let site = site(TraceSettings { headers_file: Some(file.clone()), ..settings(&collector) });
    site.get("/livez");
    span_of(&site, &collector, "GET /livez");
    assert!(collector.heads()[0].contains("\r\nx-team: queue\r\n"));
    std::fs::write(&file, "authorization: a\nsecret sauce\n").unwrap();
    let wrong = TraceSettings { headers_file: Some(file), ..settings(&collector) };
    let error = Tracer::open(wrong).unwrap_err().to_string();
    assert!(error.contains("headers:2: ") && !error.contains("sauce"), "{error}");
}

#[test]
fn what_a_collector_refuses_for_now_is_sent_again_and_what_it_refuses_is_counted() {
    let collector = Collector::start(200);
    let site = site(settings(&collector));
    collector.answer_once(503);
    site.get("/livez");
    span_of(&site, &collector, "GET /livez");
    assert!(collector.requests() > collector.bodies().len(), "it was refused before");
    collector.answer(400);
    site.get("/healthz");
    let lost = "tasklane_trace_spans_dropped_total{reason=\"failed\"}";
    site.eventually("it is counted", || metric(&site, lost) > 0);
    assert!(metric(&site, "tasklane_trace_spans_exported_total") > 0);
}

#[test]
fn a_collector_that_does_not_answer_holds_up_nobody() {
    let collector = Collector::start(SILENT);
    let site = site(settings(&collector));
    site.get("/livez");
    site.eventually("it was tried", || collector.requests() > 0);
    let started = Instant::now();
    assert!((0..200).all(|_| site.get("/livez").status == 200));
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    let started = Instant::now();
    assert!(site.ended().is_ok());
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn what_is_left_is_sent_at_the_end() {
    let collector = Collector::start(200);
    let every = Duration::from_secs(3_600);
    let service_name = "night shift".to_owned();
    let site = site(TraceSettings { export_every: every, service_name, ..settings(&collector) });
    site.get("/livez");
    assert!(site.ended().is_ok());
    assert_eq!(collector.spans().len(), 1);
    let resource = &collector.bodies()[0]["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), Some(json!("night shift")));
}
