//! What users send is shown to those who ask for it, and nowhere else: texts that occur once are put
//! in every place, all calls are made, good ones and refused ones, and then looked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::call_with;
use crate::server::signal;

/// Every place by its canary. None of them may be in a log line, metric, refusal, event, record of
/// the audit log or shown configuration.
const EVERYWHERE: [&str; 16] = [
    "canary-payload",
    "canary-result",
    "canary-message",
    "canary-details",
    "canary-stack",
    "canary-label-name",
    "canary-label-value",
    "canary-idempotency",
    "canary-ordering",
    "canary-progress",
    "canary-progress-details",
    "canary-search",
    "canary-unknown-member",
    "canary-credential",
    "canary-password",
    "canary-trace",
];

/// A server whose whole log is kept.
struct Site {
    child: std::process::Child,
    address: std::net::SocketAddr,
    log: std::path::PathBuf,
    key: String,
    /// What was answered with a refusal.
    refusals: std::cell::RefCell<Vec<String>>,
    /// Lease tokens that were handed out.
    tokens: std::cell::RefCell<Vec<String>>,
}

impl Site {
    fn start(folder: &Path) -> Self {
        let store = format!("sqlite:{}", folder.join("store").display());
        let binary = env!("CARGO_BIN_EXE_tasklane");
        let made = Command::new(binary).args(["keys", "bootstrap", "--store", &store]).output();
        let key = String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned();
        let log = folder.join("log");
        let child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--log-level", "trace"])
            .stderr(Stdio::from(std::fs::File::create(&log).unwrap()))
            .spawn()
            .unwrap();
        let started = Instant::now();
        let address = loop {
            let text = std::fs::read_to_string(&log).unwrap();
            let line = text.lines().find(|line| line.contains("serving")).unwrap_or_default();
            let address = line.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(address) = address.and_then(|text| text.parse().ok()) {
                break address;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "it did not start: {text}");
            std::thread::sleep(Duration::from_millis(10));
        };
        let (refusals, tokens) = Default::default();
        Self { child, address, log, key, refusals, tokens }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = call_with(self.address, &self.key, method, path, body);
        if status >= 400 {
            assert!(answer["type"].is_string(), "{method} {path}: {status} {answer}");
            self.refusals.borrow_mut().push(answer.to_string());
        }
        answer
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.call("POST", path, &body)
    }

    /// A call that must be refused with this type.
    fn refused(&self, method: &str, path: &str, body: Value, kind: &str) {
        let answer = self.call(method, path, &body);
        assert_eq!(answer["type"], kind, "{method} {path}: {answer}");
    }

    /// A task with a canary in every member.
    fn submit(&self, more: Value) -> Value {
        let mut task = json!({
            "type": "a", "payload": {"canary-payload": ["canary-payload"]},
            "metadata": {"canary-label-name": "canary-label-value"}, "max_retries": 0,
        });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("/api/v1/tasks", task)
    }

    /// Claims a task.
    fn claim(&self, worker: &str) -> Value {
        let poll = json!({"available_capacity": 1, "wait_ms": 5_000});
        let polled = self.post(&format!("/internal/workers/{worker}/poll"), poll);
        let task = polled["tasks"][0].clone();
        self.tokens.borrow_mut().push(task["lease_token"].as_str().unwrap().to_owned());
        json!({"task_id": task["id"], "lease_token": task["lease_token"]})
    }

    /// Bytes that are no call of the client.
    fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with(base: &Value, more: Value) -> Value {
    let mut whole = base.clone();
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    whole
}

/// Tasks with everything a task can have, through every way it can end.
fn live(site: &Site) {
    let worker = site.post("/internal/workers/register", json!({"capacity": 100}));
    let worker = worker["worker_id"].as_str().unwrap();
    let of_worker =
        |verb: &str, body: Value| site.post(&format!("/internal/workers/{worker}/{verb}"), body);
    let error = json!({
        "message": "canary-message", "code": "E_CODE", "stack": "canary-stack",
        "details": {"canary-details": "canary-details"},
    });
    site.submit(json!({"idempotency_key": "canary-idempotency"}));
    site.submit(json!({"idempotency_key": "canary-idempotency"}));
    let held = site.claim(worker);
    of_worker(
        "progress",
        with(
            &held,
            json!({"percent": 5, "message": "canary-progress",
        "metadata": {"canary-progress-details": 1}}),
        ),
    );
    of_worker("heartbeat", json!({"leases": [held]}));
    let done = json!({"status": "completed", "result": {"canary-result": "canary-result"}});
    let done = of_worker("result", with(&held, done));
    assert_eq!(done["state"], "completed", "{done}");
    for more in
        [json!({"ordering_key": "canary-ordering"}), json!({}), json!({"dead_letter": false})]
    {
        site.submit(more);
        let held = site.claim(worker);
        // Of no kind, so that it is told of in the log.
        let failed = of_worker("result", with(&held, json!({"status": "failed", "error": error})));
        assert!(failed["state"].is_string(), "{failed}");
        let id = held["task_id"].as_str().unwrap();
        for path in ["", "/history", "/progress", "/explain", "?include_history=true"] {
            site.call("GET", &format!("/api/v1/tasks/{id}{path}"), &Value::Null);
        }
        site.call("GET", &format!("/api/v1/dlq/{id}"), &Value::Null);
        of_worker("result", with(&held, json!({"status": "failed", "error": error})));
        let other = with(&held, json!({"status": "completed", "result": "canary-result"}));
        site.refused("POST", &format!("/internal/workers/{worker}/result"), other, "lease-lost");
    }
    site.post("/api/v1/dlq/replay", json!({"filter": {"error": "canary-message"}}));
    site.submit(json!({"delay_seconds": 3600}));
    site.post(
        "/api/v1/tasks/cancel",
        json!({"filter": {"metadata": {"canary-label-name": "canary-label-value"}}}),
    );
    site.call(
        "GET",
        "/api/v1/tasks?error=canary-search&metadata.canary-label-name=x",
        &Value::Null,
    );
    site.call("GET", "/api/v1/dlq/summary?error=canary-search", &Value::Null);
    site.call("DELETE", "/admin/dlq?error=canary-search", &Value::Null);
    let patched = site.submit(json!({"delay_seconds": 3600}));
    let id = patched["id"].as_str().unwrap();
    let labels = json!({"metadata": {"canary-label-name": "canary-label-value"}});
    site.call("PATCH", &format!("/admin/tasks/{id}"), &labels);
    site.post("/admin/maintenance", json!({"emergency": true}));
}

/// The same in calls that are refused.
fn refuse(site: &Site) {
    let (tasks, failed) = ("/api/v1/tasks", "validation-failed");
    site.submit(json!({"idempotency_key": "canary-idempotency", "priority": "low"}));
    site.refused("POST", tasks, json!({"type": {"canary-payload": "canary-payload"}}), failed);
    site.refused("POST", tasks, json!({"type": "a", "queue": ["canary-payload"]}), failed);
    site.refused("POST", tasks, json!({"type": "a", "priority": "canary-payload"}), failed);
    site.refused(
        "POST",
        tasks,
        json!({"type": "a", "metadata": {"a": ["canary-label-value"]}}),
        failed,
    );
    site.refused("POST", tasks, json!({"type": "a", "id": "canary-payload"}), failed);
    site.refused("POST", tasks, json!({"type": "a", "scheduled_at": "canary-payload"}), failed);
    site.refused("POST", tasks, json!({"type": "a", "max_retries": "canary-payload"}), failed);
    let nul = json!({"type": "a", "ordering_key": "canary-ordering\0"});
    site.refused("POST", tasks, nul, "invalid-characters");
    let large = json!({"type": "a", "payload": "canary-payload".repeat(50_000)});
    site.refused("POST", tasks, large, "payload-too-large");
    site.refused(
        "POST",
        "/api/v1/tasks/batch",
        json!({"tasks": [{"type": "a", "payload": "canary-payload", "timeout_seconds": -1}]}),
        "out-of-range",
    );
    site.refused("GET", "/api/v1/tasks?state=canary-search", Value::Null, failed);
    site.refused("GET", "/api/v1/tasks?worker_id=canary-search", Value::Null, failed);
    site.refused("GET", "/api/v1/tasks?cursor=canary-search", Value::Null, "invalid-cursor");
    site.refused(
        "POST",
        "/internal/workers/register",
        json!({"capacity": "canary-payload"}),
        failed,
    );
    let head = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let bearer = format!("authorization: Bearer {}\r\n", site.key);
    for (headers, body) in [
        // JSON that breaks off behind a canary, and a header that is no trace.
        (
            format!("{bearer}traceparent: canary-trace\r\n"),
            r#"{"type": "a", "payload": "canary-payload""#,
        ),
        (
            format!("{bearer}idempotency-key: canary-idempotency\r\n"),
            r#"{"type": "a", "idempotency_key": "x"}"#,
        ),
        ("authorization: Bearer tl_000000000000_canary-credential\r\n".to_owned(), "{}"),
        ("authorization: Basic canary-credential\r\n".to_owned(), "{}"),
        ("x-api-key: canary-credential\r\n".to_owned(), "{}"),
    ] {
        let request = format!("{head}{headers}content-length: {}\r\n\r\n{body}", body.len());
        let answer = site.raw(&request);
        assert!(answer.contains("application/problem+json"), "{answer}");
        site.refusals.borrow_mut().push(answer);
    }
    site.raw("GET /nothing HTTP/1.1\r\ncanary-credential\r\n\r\n");
}

fn holds_none(what: &str, text: &str, canaries: &[String]) {
    assert!(!text.is_empty(), "{what} is empty");
    for canary in canaries {
        let found = text.find(canary.as_str());
        let around = found.map(|at| {
            let (from, to) = (at.saturating_sub(200), (at + 200).min(text.len()));
            String::from_utf8_lossy(&text.as_bytes()[from..to]).into_owned()
        });
        assert_eq!(around, None, "{canary} is in {what}");
    }
}

#[test]
fn what_users_send_is_in_no_log_metric_refusal_event_or_record() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(folder.path());
    let made = site.post("/admin/keys", json!({"name": "other", "scopes": [{"verb": "read"}]}));
    let other = made["secret"].as_str().unwrap().to_owned();
    live(&site);
    refuse(&site);
    // A key without the scope, one that is revoked.
    call_with(site.address, &other, "POST", "/api/v1/tasks", &json!({"type": "a"}));
    site.call(
        "DELETE",
        &format!("/admin/keys/{}", made["key"]["id"].as_str().unwrap()),
        &Value::Null,
    );
    call_with(site.address, &other, "GET", "/api/v1/tasks", &Value::Null);
    let secret = |key: &str| key.rsplit('_').next().unwrap().to_owned();
    let mut canaries: Vec<String> = EVERYWHERE.map(str::to_owned).to_vec();
    canaries.extend([secret(&site.key), secret(&other)]);
    canaries.extend(site.tokens.borrow().iter().cloned());
    assert!(canaries.len() >= 22, "leases were had: {canaries:?}");
    holds_none("a refusal", &site.refusals.borrow().join("\n"), &canaries);
    let metrics = site.raw("GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
    assert!(metrics.contains("tasklane_tasks_submitted_total"), "{metrics}");
    holds_none("a metric", &metrics, &canaries);
    let events = events(&site);
    assert!(events.contains("task.dead_lettered") && events.contains("task.progress"), "{events}");
    // How far a task is, in its worker's words, is what live readers are for.
    let mut elsewhere = canaries.clone();
    elsewhere.retain(|canary| !canary.starts_with("canary-progress"));
    holds_none("an event", &events, &elsewhere);
    // Refusals come into the audit log a moment later.
    let started = Instant::now();
    let audit = loop {
        let audit = site.call("GET", "/admin/audit?limit=1000", &Value::Null).to_string();
        if audit.contains("unauthenticated")
            || audit.contains("unknown")
            || audit.contains("revoked")
        {
            break audit;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{audit}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(audit.contains("/admin/keys"), "{audit}");
    // Which dead letters an operator discarded is what its record is for.
    elsewhere.retain(|canary| canary != "canary-search");
    elsewhere
        .extend(canaries.iter().filter(|canary| canary.starts_with("canary-progress")).cloned());
    holds_none("the audit log", &audit, &elsewhere);
    signal(&site.child, "HUP");
    signal(&site.child, "TERM");
    let mut site = site;
    site.child.wait().unwrap();
    let log = std::fs::read_to_string(&site.log).unwrap();
    assert!(log.contains("DEBUG") && log.contains("unclassified"), "not the whole log");
    holds_none("the log", &log, &canaries);
}

/// All events that the server still has.
fn events(site: &Site) -> String {
    let from = "0".repeat(32);
    let request = format!(
        "GET /api/v1/events?kinds=task.*&cursor={from} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n\r\n",
        site.key
    );
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    let started = Instant::now();
    // Until what must come has come, and then nothing for a second.
    loop {
        match stream.read(&mut piece) {
            Ok(read @ 1..) => text.extend_from_slice(&piece[..read]),
            Ok(_) => break,
            Err(_) => {
                let said = String::from_utf8_lossy(&text);
                let expected = ["task.dead_lettered", "task.progress"];
                let has_come = expected.iter().all(|kind| said.contains(kind));
                if has_come || started.elapsed() > Duration::from_secs(20) {
                    break;
                }
            }
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_password_in_a_stores_address_is_not_shown() {
    let address = "postgres://app:canary-password@127.0.0.1:1/tasks";
    let binary = env!("CARGO_BIN_EXE_tasklane");
    for arguments in [&["config", "print"][..], &["config", "check"], &["serve"], &["keys", "list"]]
    {
        let said = Command::new(binary)
            .args(arguments)
            .env("TASKLANE_STORE", address)
            .env("TASKLANE_LOG_LEVEL", "trace")
            .output()
            .unwrap();
        let text = [said.stdout, said.stderr].concat();
        holds_none(
            &arguments.join(" "),
            &String::from_utf8(text).unwrap(),
            &["canary-password".into()],
        );
    }
}
