//! The bad-input table, generated over every route of the OpenAPI document.

use std::time::Duration;

use serde_json::{Value, json};

use crate::site::{Reply, Site};

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
/// An id that is well-formed and unknown.
pub(crate) const UNKNOWN: &str = "0198c5f0-0000-7000-8000-000000000001";

/// A route of the document.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) method: String,
    /// With parameters filled in by [`fill`].
    path: String,
    pub(crate) template: String,
    pub(crate) operation: Value,
    /// The schema of its body, if it takes one.
    body: Option<Value>,
}

fn routes(site: &Site) -> Vec<Route> {
    let document = site.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let mut routes = Vec::new();
    for (template, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            routes.push(Route {
                method: method.to_ascii_uppercase(),
                path: fill(template),
                template: template.clone(),
                operation: operation.clone(),
                body: (!schema.is_null()).then(|| resolve(&document, schema)),
            });
        }
    }
    assert!(routes.len() >= 45, "only {} routes are documented", routes.len());
    routes
}

fn fill(template: &str) -> String {
    template.replace("{id}", UNKNOWN).replace("{name}", "default").replace("{priority}", "low")
}

fn resolve(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => resolve(document, document.pointer(&reference[1..]).unwrap()),
        // Of one or many: many.
        None => match schema["anyOf"].as_array() {
            Some(forms) => resolve(document, forms.last().unwrap()),
            None => schema.clone(),
        },
    }
}

pub(crate) fn with_body(site: &Site) -> Vec<Route> {
    let routes: Vec<_> = routes(site).into_iter().filter(|route| route.body.is_some()).collect();
    assert!(routes.len() >= 15, "only {} routes take a body", routes.len());
    routes
}

impl Route {
    pub(crate) fn send(&self, site: &Site, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        site.send(&self.method, &self.path, headers, body)
    }

    #[track_caller]
    pub(crate) fn refuses(
        &self,
        site: &Site,
        headers: &[(&str, &str)],
        body: &[u8],
        status: u16,
        kind: &str,
    ) {
        let reply = self.send(site, headers, body);
        assert_eq!(
            (reply.status, reply.json()["type"].as_str().unwrap_or_default()),
            (status, kind),
            "{} {} on {:?}: {reply:?}",
            self.method,
            self.template,
            String::from_utf8_lossy(&body[..body.len().min(80)])
        );
        reply.refused(status, kind);
    }
}

#[test]
fn broken_json_is_malformed_on_every_route() {
    let site = Site::new();
    for route in with_body(&site) {
        for body in [
            &b"{"[..],
            b"{\"a\":}",
            b"nonsense",
            b"{} {}",
            b"{}x",
            b"{\"a\":\"\xff\"}",
            b"{\"a\" 1}",
        ] {
            route.refuses(&site, &[JSON], body, 400, "malformed-json");
        }
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_refused_on_every_route() {
    let site = Site::with(|settings, _| settings.body_within = Duration::from_millis(100));
    for Route { method, path, .. } in with_body(&site) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 50\r\n\r\n{{"
        );
        site.raw(head.as_bytes()).refused(408, "request-timeout");
    }
}

#[test]
fn a_body_that_nests_too_deep_is_refused_on_every_route() {
    let site = Site::new();
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(64), "]".repeat(64));
    for route in with_body(&site) {
        route.refuses(&site, &[JSON], deep.as_bytes(), 400, "json-too-deep");
    }
    let text = "[".repeat(1_000);
    let reply = site.post("/api/v1/tasks", &json!({"type": "a", "payload": text}));
    assert_eq!(reply.status, 201, "brackets inside a text do not nest");
    let fits = format!("{{\"type\":\"a\",\"payload\":{}{}}}", "[".repeat(63), "]".repeat(63));
    assert_eq!(site.post_text("/api/v1/tasks", &fits).status, 201);
}

#[test]
fn a_body_that_is_not_said_to_be_json_is_refused_on_every_route() {
    let site = Site::new();
    for route in with_body(&site) {
        let kind = "unsupported-media-type";
        route.refuses(&site, &[], b"{}", 415, kind);
        route.refuses(&site, &[("content-type", "text/plain")], b"{}", 415, kind);
        route.refuses(
            &site,
            &[("content-type", "application/json; charset=latin1")],
            b"{}",
            415,
            kind,
        );
        route.refuses(&site, &[JSON, ("content-encoding", "br")], b"{}", 415, kind);
    }
}

#[test]
fn an_unknown_member_is_refused_on_every_route_with_its_place() {
    let site = Site::new();
    for route in with_body(&site) {
        let reply = route.send(&site, &[JSON], b"{\"no_such_member\":1}");
        let problem = reply.refused(422, "validation-failed");
        let pointers: Vec<_> =
            problem["errors"].as_array().unwrap().iter().map(|e| &e["pointer"]).collect();
        assert_eq!(pointers, [&json!("/no_such_member")], "{}", route.template);
    }
}

#[test]
fn a_body_of_another_shape_is_refused_on_every_route() {
    let site = Site::new();
    for route in with_body(&site) {
        for body in [&b"[]"[..], b"5", b"\"text\"", b"null", b"true"] {
            route.refuses(&site, &[JSON], body, 422, "validation-failed");
        }
    }
}

#[test]
fn a_list_is_not_taken_for_an_object_nor_an_object_for_a_word() {
    let site = Site::new();
    let worker = format!("/internal/workers/{}", site.worker().id);
    let of_worker = |verb: &str| format!("{worker}/{verb}");
    let lease = json!({"task_id": UNKNOWN, "lease_token": "0".repeat(32)});
    let report = |status: Value| {
        let mut report = lease.clone();
        report["status"] = status;
        report
    };
    let failed = |error: Value| {
        let mut report = report(json!("failed"));
        report["error"] = error;
        report
    };
    let queue = |member: &str, value: Value| {
        ("PATCH", "/admin/queues/q".to_owned(), json!({member: value}))
    };
    let post = |path: &str, body: Value| ("POST", path.to_owned(), body);
    for (method, path, body) in [
        post("/api/v1/tasks", json!({"type": "a", "retry": ["fixed"]})),
        post("/api/v1/tasks", json!({"type": "a", "retry": {"strategy": {"fixed": null}}})),
        post("/api/v1/tasks", json!({"type": "a", "retry": {"jitter": 0}})),
        post("/api/v1/tasks/batch", json!({"tasks": [[UNKNOWN, "a"]]})),
        post("/api/v1/tasks/cancel", json!({"filter": [["pending"]]})),
        post("/api/v1/dlq/replay", json!({"filter": [null, null]})),
        post("/admin/tasks/requeue", json!({"filter": [["running"]]})),
        post("/admin/keys", json!({"name": "k", "scopes": [["read"]]})),
        queue("retention", json!([])),
        queue("aging", json!([1, 2, 3])),
        queue("depth_limits", json!([1, 2, 3])),
        queue("reset", json!([{"order": null}])),
        post(&of_worker("heartbeat"), json!({"status": 0})),
        post(&of_worker("heartbeat"), json!({"status": {"active": null}})),
        post(&of_worker("heartbeat"), json!({"health": [1.0]})),
        post(&of_worker("heartbeat"), json!({"leases": [[UNKNOWN, "0".repeat(32)]]})),
        post(&of_worker("start"), json!({"tasks": [[UNKNOWN, "0".repeat(32)]]})),
        post(&of_worker("result"), report(json!({"completed": null}))),
        post(&of_worker("result"), failed(json!(["boom"]))),
        post(&of_worker("result"), json!({"results": [[UNKNOWN, "0".repeat(32), "completed"]]})),
        post(&of_worker("result"), json!({"results": [], "poll": [1]})),
    ] {
        let reply = site.send(method, &path, &[JSON], body.to_string().as_bytes());
        let problem = reply.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["code"], "wrong-type", "{path} {body}: {problem}");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_on_every_route() {
    let site = Site::new();
    for route in with_body(&site) {
        let head = format!(
            "{} {} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n",
            route.method, route.path
        );
        site.raw(head.as_bytes()).refused(413, "payload-too-large");
    }
}

#[test]
fn a_wrong_method_is_refused_on_every_path_and_the_right_ones_are_named() {
    let site = Site::new();
    for route in routes(&site) {
        let reply = site.send("TRACE", &route.path, &[], b"");
        reply.refused(405, "method-not-allowed");
        let allowed = reply.header("allow").unwrap_or_default().to_owned();
        assert!(
            allowed.contains(&route.method.to_ascii_lowercase()),
            "{}: {allowed}",
            route.template
        );
    }
}

#[test]
fn an_unknown_query_parameter_is_refused_on_every_route() {
    let site = Site::new();
    let mut tried = 0;
    for route in routes(&site) {
        // Probes and scrapers add what they like.
        if route.operation["tags"][0] == "machines" {
            continue;
        }
        let path = format!("{}?no_such_parameter=1", route.path);
        let body: &[u8] = if route.body.is_some() { b"{}" } else { b"" };
        let headers: &[(&str, &str)] = if route.body.is_some() { &[JSON] } else { &[] };
        let reply = site.send(&route.method, &path, headers, body);
        assert_eq!(reply.status, 422, "{} {}: {reply:?}", route.method, route.template);
        let problem = reply.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "?no_such_parameter", "{}", route.template);
        tried += 1;
    }
    assert!(tried >= 40, "only {tried} routes were tried");
}

#[test]
fn a_cursor_of_another_making_is_refused_wherever_one_is_taken() {
    let site = Site::new();
    let mut tried = 0;
    for route in routes(&site) {
        let parameters = route.operation["parameters"].as_array().cloned().unwrap_or_default();
        if parameters.iter().any(|parameter| parameter["name"] == "cursor") {
            let path = format!("{}?cursor=nonsense", route.path);
            let reply = site.send(&route.method, &path, &[], b"");
            // A WebSocket route looks at the upgrade first.
            if !route.template.ends_with("/ws") {
                reply.refused(400, "invalid-cursor");
                tried += 1;
            }
        }
    }
    assert!(tried >= 3, "only {tried} routes were tried");
}

#[test]
fn a_cursor_of_another_making_in_a_body_is_refused_even_where_nothing_goes_on_there() {
    let site = Site::new();
    let id = "0198c5f0-0000-7000-8000-000000000001";
    for (path, mut body) in [
        ("/api/v1/tasks/cancel", json!({"filter": {"queue": "a"}, "dry_run": true})),
        ("/api/v1/tasks/cancel", json!({"filter": {"queue": "a"}})),
        ("/api/v1/dlq/replay", json!({"filter": {"queue": "a"}, "dry_run": true})),
        ("/api/v1/dlq/replay", json!({"filter": {"queue": "a"}})),
        ("/admin/tasks/requeue", json!({"task_ids": [id]})),
        ("/admin/tasks/requeue", json!({"filter": {"queue": "a"}})),
        ("/admin/dlq/retry", json!({"task_id": id})),
        ("/admin/dlq/retry", json!({"retry_all": true})),
    ] {
        assert_ne!(site.post(path, &body).status, 400, "{path} {body}");
        body["cursor"] = json!("nonsense");
        site.post(path, &body).refused(400, "invalid-cursor");
    }
}

#[test]
fn limits_out_of_range_are_refused_wherever_one_is_taken() {
    let site = Site::new();
    let mut tried = 0;
    for route in routes(&site) {
        let parameters = route.operation["parameters"].as_array().cloned().unwrap_or_default();
        if parameters.iter().any(|parameter| parameter["name"] == "limit") {
            for bad in ["0", "1001", "-1", "99999999999999999999"] {
                let reply =
                    site.send(&route.method, &format!("{}?limit={bad}", route.path), &[], b"");
                reply.refused(422, "out-of-range");
            }
            site.get(&format!("{}?limit=many", route.path)).refused(422, "validation-failed");
            tried += 1;
        }
    }
    assert!(tried >= 3, "only {tried} routes were tried");
}

#[test]
fn an_unknown_task_is_not_found_on_every_route_that_names_one() {
    let site = Site::new();
    let mut tried = 0;
    for route in routes(&site) {
        let of_task =
            route.template.contains("/tasks/{id}") || route.template.contains("/dlq/{id}");
        if !of_task {
            continue;
        }
        let (headers, body): (&[(&str, &str)], &[u8]) =
            if route.body.is_some() { (&[JSON], b"{}") } else { (&[], b"") };
        route.refuses(&site, headers, body, 404, "not-found");
        let garbled = Route { path: route.template.replace("{id}", "garbled"), ..route.clone() };
        garbled.refuses(&site, headers, body, 404, "not-found");
        tried += 1;
    }
    assert!(tried >= 8, "only {tried} routes were tried");
}

#[test]
fn an_unknown_worker_is_gone_for_itself_and_not_found_for_operators() {
    let site = Site::new();
    for (verb, body) in [
        ("poll", json!({"available_capacity": 1})),
        ("heartbeat", json!({})),
        (
            "result",
            json!({"task_id": UNKNOWN, "lease_token": "0".repeat(32), "status": "completed"}),
        ),
    ] {
        let reply = site.post(&format!("/internal/workers/{UNKNOWN}/{verb}"), &body);
        // A task that is not there is told as that.
        let expected = if verb == "result" { (404, "not-found") } else { (410, "worker-gone") };
        reply.refused(expected.0, expected.1);
    }
    for verb in ["pause", "resume", "drain"] {
        let reply = site.send("POST", &format!("/admin/workers/{UNKNOWN}/{verb}"), &[], b"");
        reply.refused(404, "not-found");
    }
    site.get(&format!("/admin/workers/{UNKNOWN}")).refused(404, "not-found");
}

#[test]
fn every_refusal_is_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = std::fs::read_to_string(page).unwrap();
    for kind in tasklane_server::http::KINDS {
        let row = format!("| `{}` | ", kind.word);
        let line = page.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("{} is not in docs/errors.md", kind.word));
        assert!(line.contains(&kind.status.as_u16().to_string()), "{line}");
    }
}
