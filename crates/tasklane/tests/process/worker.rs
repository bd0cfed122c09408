//! A worker process: this test program itself, started again in another role.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{call, try_call};

/// Says to a process of this program that it is a worker of the server at this address.
const ROLE: &str = "TASKLANE_TEST_WORKER_OF";
/// How long a test waits for a worker to say something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker process and what it says.
pub(crate) struct Worker {
    pub(crate) child: Child,
    said: Receiver<Value>,
}

impl Worker {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::works_when_started_as_a_worker", "--nocapture"])
            .env(ROLE, server.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (say, said) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.starts_with('{') {
                    let _ = say.send(serde_json::from_str(&line).unwrap());
                }
            }
        });
        Self { child, said }
    }

    /// The next thing it says of this sort.
    pub(crate) fn hear(&self, sort: &str) -> Value {
        loop {
            let said = self.said.recv_timeout(PATIENCE).expect("the worker says something");
            if said["said"] == sort {
                return said;
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn works_when_started_as_a_worker() {
    // Without the role this is a test like any other, of the form that roles are given in.
    let Ok(server) = std::env::var(ROLE) else {
        assert!("127.0.0.1:1".parse::<SocketAddr>().is_ok());
        return;
    };
    work(server.parse().unwrap());
}

/// Claims one task at a time, sleeps as it says, reports. Sends no heartbeats: its tasks are short
/// against its lease, unless a test wants otherwise.
fn work(server: SocketAddr) {
    let registered = call(server, "POST", "/internal/workers/register", &json!({"capacity": 1})).1;
    let base = format!("/internal/workers/{}", registered["worker_id"].as_str().unwrap());
    say(&json!({"said": "registered"}));
    loop {
        let poll = json!({"available_capacity": 1, "wait_ms": 5_000});
        let Ok((status, answer)) = try_call(server, "POST", &format!("{base}/poll"), &poll) else {
            return;
        };
        if status != 200 {
            say(&json!({"said": "refused", "status": status}));
            return;
        }
        let Some(task) = answer["tasks"].get(0) else { continue };
        say(&json!({"said": "claimed", "task": task["id"], "fence": task["fence"]}));
        std::thread::sleep(Duration::from_millis(task["payload"]["ms"].as_u64().unwrap()));
        let report = json!({"task_id": task["id"], "lease_token": task["lease_token"],
            "status": "completed", "result": {"fence": task["fence"]}});
        let (status, answer) = call(server, "POST", &format!("{base}/result"), &report);
        say(&json!({"said": "reported", "status": status, "type": answer["type"]}));
    }
}

fn say(what: &Value) {
    println!("\n{what}");
}
