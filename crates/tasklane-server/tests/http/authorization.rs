//! Every route of the document × every verb × tasks, workers and queues within reach and out of it.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::key::Keyed;
use crate::site::PATIENCE;

const VERBS: [&str; 5] = ["submit", "read", "work", "operate", "admin"];

/// A route of the document.
struct Route {
    method: String,
    path: String,
    /// `None` where nothing is needed.
    scope: Option<String>,
}

fn routes(keyed: &Keyed) -> Vec<Route> {
    let document = keyed.site.get("/openapi.json").json();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["x-scope"].as_str().map(str::to_owned);
            let secured = !operation["security"].as_array().unwrap().is_empty();
            assert_eq!(scope.is_some(), secured, "{method} {path}");
            for status in ["401", "403"] {
                let told = operation["responses"].get(status).is_some();
                assert_eq!(told, secured, "{method} {path}: {status}");
            }
            routes.push(Route { method: method.to_uppercase(), path: path.clone(), scope });
        }
    }
    assert!(routes.len() >= 50, "only {} routes", routes.len());
    routes
}

/// What is there to be found: one of each in a queue.
struct Things {
    queue: &'static str,
    task: String,
    dead: String,
    worker: String,
}

impl Things {
    fn make(keyed: &Keyed, queue: &'static str, key: &str) -> Self {
        keyed.submit(queue);
        // Another route may have paused it.
        keyed.call(&keyed.root, "POST", &format!("/admin/queues/{queue}/resume"), None);
        let spec = json!({"queues": [queue]});
        let worker = keyed.post(key, "/internal/workers/register", &spec).string("/worker_id");
        let call = |verb: &str, body: Value| {
            let path = format!("/internal/workers/{worker}/{verb}");
            let reply = keyed.post(key, &path, &body);
            assert_eq!(reply.status, 200, "{reply:?}");
            reply.json()
        };
        let held = call("poll", json!({"available_capacity": 1}))["tasks"][0].clone();
        let error = json!({"message": "no", "kind": "permanent"});
        call(
            "result",
            json!({"task_id": held["id"], "lease_token": held["lease_token"],
                "status": "failed", "error": error}),
        );
        let dead = held["id"].as_str().unwrap().to_owned();
        Self { queue, task: keyed.submit(queue), dead, worker }
    }

    /// A route's path with one of these in it; `None` where it names nothing of them.
    fn path(&self, route: &Route) -> Option<String> {
        let path = &route.path;
        let id = if path.contains("/dlq/") || path.ends_with("/retry") {
            &self.dead
        } else if path.contains("/workers/") {
            &self.worker
        } else {
            &self.task
        };
        // There the last part is a priority.
        if path.contains("/keys/") || (route.method == "DELETE" && path.contains("/queues/")) {
            return None;
        }
        let filled = path.replace("{id}", id).replace("{name}", self.queue);
        (filled != *path).then_some(filled)
    }
}

/// The status alone: some answers never end.
fn status(keyed: &Keyed, key: Option<&str>, method: &str, path: &str, body: &Value) -> u16 {
    let mut stream = keyed.site.connect();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let key = key.map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
    let body = if method == "GET" || method == "DELETE" { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{key}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{line}"))
}

/// A body that is taken, or refused for what it lacks: either way its sender was let in.
fn body(route: &Route) -> Value {
    match &*route.path {
        "/admin/maintenance" => json!({}),
        path if path.ends_with("/poll") => json!({"available_capacity": 0}),
        path if path.ends_with("/heartbeat") => json!({}),
        _ => json!({"priority": "high"}),
    }
}

#[test]
fn every_route_opens_to_its_own_verb_and_to_no_other() {
    let keyed = Keyed::new();
    let keys = VERBS.map(|verb| (verb, keyed.key(json!([{ "verb": verb }]))));
    for route in routes(&keyed) {
        let path = route.path.replace("{id}", "none").replace("{name}", "none");
        let call = |key: Option<&str>| status(&keyed, key, &route.method, &path, &body(&route));
        let Some(scope) = &route.scope else {
            assert!(call(None) < 400, "{} {path} is open", route.method);
            continue;
        };
        assert_eq!(call(None), 401, "{} {path} without a key", route.method);
        assert_eq!(call(Some("tl_nonsense")), 401, "{} {path} with a bad key", route.method);
        for (verb, key) in &keys {
            let status = call(Some(key));
            let let_in = status != 401 && status != 403;
            assert_eq!(let_in, verb == scope, "{} {path} with {verb}: {status}", route.method);
        }
    }
}

#[test]
fn what_is_out_of_reach_is_not_there_on_any_route() {
    let keyed = Keyed::new();
    let everything = keyed.key(json!([{"verb": "work"}]));
    for route in routes(&keyed) {
        let Some(scope) = &route.scope else { continue };
        // What counts for the whole store has no bounds.
        if scope == "admin" {
            continue;
        }
        let key = keyed.narrow(scope, &["own"]);
        let worker_of = if scope == "work" { &key } else { &everything };
        let own = Things::make(&keyed, "own", worker_of);
        let foreign = Things::make(&keyed, "foreign", &everything);
        let (Some(own_path), Some(path)) = (own.path(&route), foreign.path(&route)) else {
            continue;
        };
        let call = |path: &str| status(&keyed, Some(&key), &route.method, path, &body(&route));
        // Another key's worker is no secret, and not one's own.
        let refused = if scope == "work" { 403 } else { 404 };
        assert_eq!(call(&path), refused, "{} {} of another queue", route.method, route.path);
        let status = call(&own_path);
        let found = ![401, 403, 404].contains(&status);
        assert!(found, "{} {} of its own queue: {status}", route.method, route.path);
    }
}

#[test]
fn no_look_shows_anything_of_what_is_out_of_reach() {
    let keyed = Keyed::new();
    let everything = keyed.key(json!([{"verb": "work"}]));
    let own = Things::make(&keyed, "own", &everything);
    let foreign = Things::make(&keyed, "foreign", &everything);
    let key = keyed.narrow("read", &["own"]);
    let mut looked = 0;
    for route in routes(&keyed) {
        let endless = route.path.ends_with("/events") || route.path.ends_with("/ws");
        if route.scope.as_deref() != Some("read") || endless {
            continue;
        }
        let path = own.path(&route).unwrap_or(route.path.clone());
        let reply = keyed.get(&key, &path);
        let forbidden = route.path == "/api/v1/stats/minutes";
        assert_eq!(reply.status == 403, forbidden, "{path}: {reply:?}");
        for hidden in ["foreign", &foreign.task, &foreign.dead, &foreign.worker] {
            assert!(!reply.text.contains(hidden), "{path} shows {hidden}: {}", reply.text);
        }
        looked += 1;
    }
    assert!(looked >= 14, "only {looked} looks");
}
