//! Keys: who is let in, and until when.

use std::time::Duration;

use serde_json::{Value, json};
use tasklane_core::{Credential, Grants, NewApiKey, SeededRandom};
use tasklane_server::Authentication;

use crate::listener::{Listener, Received, Socket};
use crate::site::{Reply, Site};

/// A server that asks for keys, with one that may do everything.
pub(crate) struct Keyed {
    pub(crate) site: Site,
    pub(crate) root: String,
}

impl Keyed {
    pub(crate) fn new() -> Self {
        Self::on(Site::with(|settings, _| settings.authentication = Authentication::Keys))
    }

    pub(crate) fn on(site: Site) -> Self {
        let credential = Credential::generate(&mut SeededRandom::new(7));
        let key = NewApiKey::new(&credential, "root", Grants::everything(), None).unwrap();
        site.run(site.engine.add_key(key)).unwrap();
        Self { site, root: credential.reveal() }
    }

    pub(crate) fn call(&self, key: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let bearer = format!("Bearer {key}");
        let mut headers = vec![("authorization", bearer.as_str())];
        if body.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        self.site.send(method, path, &headers, body.as_bytes())
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> Reply {
        self.call(key, "GET", path, None)
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.call(key, "POST", path, Some(body))
    }

    /// Makes a key.
    pub(crate) fn key(&self, scopes: Value) -> String {
        let body = json!({"name": "a test's", "scopes": scopes});
        let reply = self.post(&self.root, "/admin/keys", &body);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.string("/secret")
    }

    /// A key with one verb, in some queues.
    pub(crate) fn narrow(&self, verb: &str, queues: &[&str]) -> String {
        self.key(json!([{"verb": verb, "queues": queues}]))
    }

    pub(crate) fn submit(&self, queue: &str) -> String {
        let task = json!({"type": "a", "queue": queue});
        self.post(&self.root, "/api/v1/tasks", &task).string("/id")
    }

    pub(crate) fn register(&self, key: &str, spec: &Value) -> String {
        let reply = self.post(key, "/internal/workers/register", spec);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.string("/worker_id")
    }

    pub(crate) fn poll(&self, key: &str, worker: &str) -> Reply {
        let body = json!({"available_capacity": 9});
        self.post(key, &format!("/internal/workers/{worker}/poll"), &body)
    }
}

/// What every key begins with, of a whole one.
fn id_of(key: &str) -> &str {
    &key[..15]
}

#[test]
fn a_server_that_asks_for_keys_lets_nobody_in_without_a_good_one() {
    let keyed = Keyed::new();
    let (id, secret) = keyed.root.rsplit_once('_').unwrap();
    let wrong = format!("{id}_{}", secret.chars().rev().collect::<String>());
    let unknown = keyed.root.replacen(&id[3..5], if &id[3..5] == "00" { "11" } else { "00" }, 1);
    for key in ["", "x", &wrong, &unknown, id] {
        let refused = keyed.get(key, "/api/v1/tasks");
        let problem = refused.refused(401, "unauthenticated");
        assert_eq!(refused.header("www-authenticate"), Some("bearer realm=\"tasklane\""));
        assert!(!problem.to_string().contains(secret), "{problem}");
    }
    for path in ["/api/v1/tasks", "/admin/health", "/events", "/ws", "/api/v1/queue/stats"] {
        keyed.site.get(path).refused(401, "unauthenticated");
    }
    keyed.site.post("/api/v1/tasks", &json!({"type": "a"})).refused(401, "unauthenticated");
    assert_eq!(keyed.get(&keyed.root, "/api/v1/tasks").status, 200);
    let headers = [("x-api-key", keyed.root.as_str())];
    assert_eq!(keyed.site.send("GET", "/api/v1/tasks", &headers, b"").status, 200);
    for open in ["/livez", "/readyz", "/metrics", "/docs", "/openapi.json"] {
        assert_eq!(keyed.site.get(open).status, 200, "{open}");
    }
}

#[test]
fn an_open_server_takes_calls_with_and_without_a_key() {
    let site = Site::new();
    site.submit(json!({}));
    let headers = [("authorization", "Bearer whatever")];
    assert_eq!(site.send("GET", "/api/v1/tasks", &headers, b"").status, 200);
}

#[test]
fn the_secret_is_shown_once_and_never_again() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "read", "queues": ["mail*"], "types": ["a"]}]));
    let shown = keyed.get(&keyed.root, "/admin/keys");
    let listed = shown.json()["keys"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 2);
    let own = listed.iter().find(|listed| listed["id"] == id_of(&key)).unwrap();
    assert_eq!((&own["state"], &own["name"]), (&json!("active"), &json!("a test's")));
    assert_eq!(own["scopes"], json!([{"verb": "read", "queues": ["mail*"], "types": ["a"]}]));
    let secret = key.rsplit_once('_').unwrap().1;
    assert!(!shown.text.contains(secret), "{}", shown.text);
    let stored = keyed.site.run(keyed.site.engine.keys()).unwrap();
    assert!(!format!("{stored:?}").contains(secret));
    let pages = keyed.get(&keyed.root, "/admin/keys?limit=1").json();
    let next = format!("/admin/keys?limit=1&cursor={}", pages["next_cursor"].as_str().unwrap());
    let second = keyed.get(&keyed.root, &next).json();
    assert_ne!(pages["keys"][0]["id"], second["keys"][0]["id"]);
    assert_eq!(second["next_cursor"], Value::Null);
}

#[test]
fn a_revoked_key_opens_nothing_at_once() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "read"}]));
    assert_eq!(keyed.get(&key, "/api/v1/tasks").status, 200);
    let path = format!("/admin/keys/{}", id_of(&key));
    let revoked = keyed.call(&keyed.root, "DELETE", &path, None);
    assert_eq!((revoked.status, revoked.json()["state"].as_str()), (200, Some("revoked")));
    keyed.get(&key, "/api/v1/tasks").refused(401, "unauthenticated");
    assert_eq!(keyed.call(&keyed.root, "DELETE", &path, None).status, 200);
    let unknown = keyed.call(&keyed.root, "DELETE", "/admin/keys/tl_000000000000", None);
    unknown.refused(404, "not-found");
}

#[test]
fn a_revocation_on_another_server_counts_within_seconds() {
    let keyed = Keyed::new();
    let key = keyed.key(json!([{"verb": "read"}]));
    // As another server would: past this one's memory.
    let id = id_of(&key).parse().unwrap();
    let store = keyed.site.store.clone();
    keyed.site.run(tasklane_store::Store::revoke_api_key(&*store, id)).unwrap();
    keyed
        .site
        .eventually("the revocation counts", || keyed.get(&key, "/api/v1/tasks").status == 401);
}

#[test]
fn who_may_not_read_changes_a_task_without_seeing_what_it_carries() {
    let keyed = Keyed::new();
    let submitted = keyed.post(&keyed.root, "/api/v1/tasks", &json!({"type": "a", "payload": "p"}));
    let path = format!("/api/v1/tasks/{}", submitted.string("/id"));
    let blind = keyed.key(json!([{"verb": "submit"}]));
    let cancelled = keyed.call(&blind, "DELETE", &path, None);
    assert_eq!((cancelled.status, cancelled.string("/state")), (200, "cancelled".into()));
    assert_eq!(cancelled.json().get("payload"), None);
    assert_eq!(keyed.get(&keyed.root, &path).json()["payload"], "p");
}

#[test]
fn a_key_expires_by_the_stores_clock() {
    let keyed = Keyed::new();
    let body = json!({"name": "short", "scopes": [{"verb": "read"}], "expires_in_seconds": 60});
    let key = keyed.post(&keyed.root, "/admin/keys", &body).string("/secret");
    keyed.site.pass(Duration::from_secs(59));
    assert_eq!(keyed.get(&key, "/api/v1/tasks").status, 200);
    keyed.site.pass(Duration::from_secs(1));
    keyed.get(&key, "/api/v1/tasks").refused(401, "unauthenticated");
}

#[test]
fn bad_keys_are_not_made() {
    let keyed = Keyed::new();
    let read = json!([{"verb": "read"}]);
    for (body, status) in [
        (json!({"name": "x", "scopes": []}), 422),
        (json!({"name": "", "scopes": read}), 422),
        (json!({"name": "x", "scopes": [{"verb": "rule"}]}), 422),
        (json!({"name": "x", "scopes": [{"verb": "read"}, {"verb": "read"}]}), 422),
        (json!({"name": "x", "scopes": [{"verb": "admin", "queues": ["a"]}]}), 422),
        (json!({"name": "x", "scopes": [{"verb": "read", "queues": []}]}), 422),
        (json!({"name": "x", "scopes": [{"verb": "read", "queues": ["a:b"]}]}), 422),
        (json!({"name": "x", "scopes": read, "expires_in_seconds": 0}), 422),
        (json!({"name": "x", "scopes": read, "expires_at": "2001-01-01T00:00:00Z"}), 422),
        (
            json!({"name": "x", "scopes": read, "expires_at": "2101-01-01T00:00:00Z",
            "expires_in_seconds": 5}),
            422,
        ),
        (json!({"name": "x", "scopes": read, "secret": "mine"}), 422),
    ] {
        let reply = keyed.post(&keyed.root, "/admin/keys", &body);
        assert_eq!(reply.status, status, "{body}: {reply:?}");
    }
    assert_eq!(keyed.get(&keyed.root, "/admin/keys").json()["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn a_poll_that_waits_gives_nothing_to_a_key_revoked_meanwhile() {
    let keyed = Keyed::new();
    let key = keyed.narrow("work", &["*"]);
    let worker = keyed.register(&key, &json!({}));
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| {
            let body = json!({"available_capacity": 1, "wait_ms": 30_000});
            keyed.post(&key, &format!("/internal/workers/{worker}/poll"), &body)
        });
        keyed.site.eventually("the poll waits", || keyed.site.engine.parked() == 1);
        keyed.call(&keyed.root, "DELETE", &format!("/admin/keys/{}", id_of(&key)), None);
        let id = keyed.submit("mail");
        poll.join().unwrap().refused(401, "unauthenticated");
        let path = format!("/api/v1/tasks/{id}");
        keyed.site.eventually("the task is given back", || {
            keyed.get(&keyed.root, &path).string("/state") == "pending"
        });
    });
}

#[test]
fn live_readers_end_when_their_key_does() {
    let keyed = Keyed::new();
    let key = keyed.narrow("read", &["*"]);
    let header = format!("authorization: Bearer {key}\r\n");
    let mut socket = Socket::open(&keyed.site, "/ws", &header).unwrap();
    assert_eq!(socket.expect()["type"], "system.hello");
    let mut stream = Listener::with(&keyed.site, "", &header);
    assert_eq!(stream.expect().kind, "system.hello");
    keyed.call(&keyed.root, "DELETE", &format!("/admin/keys/{}", id_of(&key)), None);
    assert_eq!(stream.expect().kind, "system.denied");
    assert!(stream.ends());
    assert_eq!(socket.expect()["type"], "system.denied");
    assert_eq!(socket.next(), Received::Closed(Some(1008)));
}

#[test]
fn pages_of_other_origins_change_nothing_and_read_nothing() {
    let site = Site::with(|settings, _| {
        settings.allowed_origins = vec!["https://board.example.org".into()];
    });
    let post =
        |origin: &str| site.send("POST", "/admin/queues/q/pause", &[("origin", origin)], b"");
    post("https://evil.example").refused(403, "origin-forbidden");
    post("null").refused(403, "origin-forbidden");
    for path in ["/api/v1/tasks", "/api/v1/tasks/batch", "/internal/workers/7/poll"] {
        let headers = [("origin", "https://evil.example"), ("content-type", "application/json")];
        site.send("POST", path, &headers, b"{}").refused(403, "origin-forbidden");
    }
    assert_eq!(post("http://test").status, 200);
    assert_eq!(post("https://board.example.org").status, 200);
    let reply = site.send("GET", "/api/v1/tasks", &[("origin", "https://evil.example")], b"");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    let asked = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let preflight = site.send("OPTIONS", "/api/v1/tasks", &asked, b"");
    assert_eq!(preflight.header("access-control-allow-origin"), None);
    assert_ne!(preflight.status, 200);
}

#[test]
fn answers_are_kept_by_nobody_and_taken_for_what_they_are() {
    let site = Site::new();
    for path in ["/api/v1/tasks", "/api/v1/tasks/x", "/admin/keys", "/metrics"] {
        let reply = site.get(path);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
    }
    let page = site.get("/docs");
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn metrics_can_be_guarded() {
    let site = Site::with(|settings, _| {
        (settings.authentication, settings.guard_metrics) = (Authentication::Keys, true);
    });
    let keyed = Keyed::on(site);
    keyed.site.get("/metrics").refused(401, "unauthenticated");
    keyed.get(&keyed.narrow("read", &["mail"]), "/metrics").refused(403, "insufficient-scope");
    keyed.get(&keyed.narrow("work", &["mail"]), "/metrics").refused(403, "insufficient-scope");
    let key = keyed.key(json!([{"verb": "read"}]));
    assert_eq!(keyed.get(&key, "/metrics").status, 200);
    assert_eq!(keyed.site.get("/livez").status, 200);
}

#[test]
fn calls_without_a_good_key_are_counted() {
    let keyed = Keyed::new();
    keyed.site.get("/api/v1/tasks").refused(401, "unauthenticated");
    keyed.get("x", "/admin/health").refused(401, "unauthenticated");
    let metrics = keyed.site.get("/metrics").text;
    assert!(metrics.contains("tasklane_auth_failures_total 2"), "{metrics}");
}
