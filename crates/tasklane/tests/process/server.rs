//! A server process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::call;

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// What it has logged.
    log: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// Starts one on a free port and waits until it says where it listens.
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", folder, more)
    }

    /// The same where it was before.
    pub(crate) fn start_at(listen: &str, folder: &Path, more: &[&str]) -> Self {
        Self::start_on(listen, &format!("sqlite:{}", folder.display()), more)
    }

    /// One on any store.
    pub(crate) fn start_on(listen: &str, store: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tasklane"))
            .args(["serve", "--listen", listen, "--log-format", "json", "--store", store])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let address = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the server ended before it served");
            let event: Value = serde_json::from_str(&line).unwrap();
            let address = event["address"].as_str().map(|address| address.parse().unwrap());
            log.lock().unwrap().push(event);
            if let Some(address) = address {
                break address;
            }
        };
        // Its log must go on being read, or it would block.
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                kept.lock().unwrap().extend(serde_json::from_str(&line));
            }
        });
        Self { child, address, log }
    }

    pub(crate) fn submit(&self, task: Value) -> String {
        let (status, task) = call(self.address, "POST", "/api/v1/tasks", &task);
        assert_eq!(status, 201, "{task}");
        task["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn task(&self, id: &str) -> Value {
        let (status, task) =
            call(self.address, "GET", &format!("/api/v1/tasks/{id}"), &Value::Null);
        assert_eq!(status, 200, "{task}");
        task
    }

    pub(crate) fn await_state(&self, id: &str, state: &str, within: Duration) -> Value {
        let started = Instant::now();
        loop {
            let task = self.task(id);
            if task["state"] == state {
                return task;
            }
            assert!(started.elapsed() < within, "not {state} within {within:?}: {task}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lines of its log with these words, as soon as there are as many.
    pub(crate) fn logged(&self, words: &str, count: usize) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let lines = self.log.lock().unwrap().clone();
            let found = lines.iter().filter(|line| line["message"] == words);
            let found: Vec<_> = found.cloned().collect();
            if found.len() >= count {
                return found;
            }
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "not logged: {words} in {lines:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many lines of a level it has logged.
    pub(crate) fn lines(&self, level: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line["level"] == level).count()
    }

    /// All that it has logged so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Work for a worker process: takes so long.
pub(crate) fn sleeping(millis: u64) -> Value {
    json!({"type": "sleep", "payload": {"ms": millis}})
}
