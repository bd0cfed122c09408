//! What is set counts: a server with a file of settings does as they say. Which setting is shown by
//! which test is told in `src/config/tests/exercised.rs`.

mod policy;
mod queue;
mod retention;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{call, eventually};
use crate::server::Server;

const WITHIN: Duration = Duration::from_secs(20);

/// A server with a file of its own, and one worker.
struct Site {
    server: Server,
    worker: String,
    folder: TempDir,
}

impl Site {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasklane.toml");
        std::fs::write(&file, config).unwrap();
        let store = folder.path().join("store");
        let server = Server::start(&store, &["--config", file.to_str().unwrap()]);
        let mut site = Self { server, worker: String::new(), folder };
        site.worker = site.register()["worker_id"].as_str().unwrap().to_owned();
        site
    }

    fn register(&self) -> Value {
        self.post("/internal/workers/register", &json!({"capacity": 100}))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        call(self.server.address, method, path, body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn worker_path(&self, call: &str) -> String {
        format!("/internal/workers/{}/{call}", self.worker)
    }

    fn poll(&self, more: &Value) -> Vec<Value> {
        let mut poll = json!({"available_capacity": 1});
        poll.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.post(&self.worker_path("poll"), &poll);
        answer["tasks"].as_array().unwrap().clone()
    }

    /// The one task that is there to be claimed, sooner or later.
    fn claim(&self) -> Value {
        let tasks = self.poll(&json!({"wait_ms": 20_000}));
        assert_eq!(tasks.len(), 1);
        tasks[0].clone()
    }

    fn settle(&self, claimed: &Value, status: &str, more: &Value) -> Value {
        let mut report = json!({"task_id": claimed["id"], "lease_token": claimed["lease_token"],
            "status": status});
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(&self.worker_path("result"), &report)
    }

    fn fail(&self, claimed: &Value, error: &Value) -> Value {
        let mut failure = json!({"message": "no"});
        failure.as_object_mut().unwrap().extend(error.as_object().unwrap().clone());
        self.settle(claimed, "failed", &json!({"error": failure}))
    }

    /// Submits a task and has the worker claim it.
    fn claimed(&self, task: &Value) -> Value {
        let mut task = task.clone();
        task.as_object_mut().unwrap().entry("type").or_insert(json!("a"));
        self.server.submit(task);
        self.claim()
    }

    /// Has the file changed and read anew.
    fn configure(&self, config: &str) {
        std::fs::write(self.folder.path().join("tasklane.toml"), config).unwrap();
        self.post("/admin/reload", &Value::Null);
    }

    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        eventually(what, || holds(self));
    }

    fn is_gone(&self, path: &str) -> bool {
        self.call("GET", path, &Value::Null).0 == 404
    }
}

#[test]
fn a_call_that_does_not_end_holds_up_the_end_as_long_as_it_is_set() {
    let mut site = Site::new("[limits]\nshutdown_ms = 100\n");
    let mut slow = TcpStream::connect(site.server.address).unwrap();
    slow.write_all(
        b"POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
          content-length: 99\r\nexpect: 100-continue\r\n\r\n",
    )
    .unwrap();
    // The call has begun once its body is asked for.
    slow.set_read_timeout(Some(WITHIN)).unwrap();
    let mut asked_for = [0; 25];
    slow.read_exact(&mut asked_for).unwrap();
    assert_eq!(&asked_for, b"HTTP/1.1 100 Continue\r\n\r\n");
    slow.write_all(b"{").unwrap();
    let asked = Instant::now();
    site.server.signal("TERM");
    let ended = site.server.child.wait().unwrap();
    assert!(!ended.success(), "a call was cut off, and that is told");
    assert!(asked.elapsed() < WITHIN, "sooner than unless set");
}

#[test]
fn only_lines_of_the_level_that_is_set_are_logged() {
    let site = Site::new("");
    site.get("/admin/health");
    assert_eq!(site.server.lines("DEBUG"), 0);
    site.configure("[log]\nlevel = \"warn,tasklane_server=debug\"\n");
    site.get("/admin/health");
    site.eventually("lines of debug", |site| site.server.lines("DEBUG") > 0);
    site.configure("[log]\nlevel = \"error\"\n");
    site.eventually("no more lines of debug", |site| {
        let before = site.server.lines("DEBUG");
        site.get("/admin/health");
        site.get("/admin/health");
        site.server.lines("DEBUG") == before
    });
}
