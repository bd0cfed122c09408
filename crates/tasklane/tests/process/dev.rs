//! `tasklane dev`, as a newcomer meets it.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::call;
use crate::server::{Server, signal};

struct Dev {
    child: Child,
    address: SocketAddr,
    welcome: String,
}

impl Dev {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut child = command(folder).args(more).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut welcome = String::new();
        for line in lines.map_while(Result::ok) {
            welcome += &line;
            welcome.push('\n');
            if line.starts_with("Stop:") {
                break;
            }
        }
        let (_, rest) = welcome.split_once("http://").expect("an address");
        let address = rest.split(',').next().unwrap().parse().unwrap();
        Self { child, address, welcome }
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = call(self.address, "GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn await_that(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < Duration::from_secs(40), "not seen: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasklane"));
    command.args(["dev", "--listen", "127.0.0.1:0", "--folder"]).arg(folder);
    command
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn tasks_succeed_fail_and_are_retried_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(folder.path(), &[]);
    dev.await_that("a task that succeeds", |dev| {
        dev.get("/api/v1/tasks?state=completed")["tasks"].as_array().unwrap().len() > 3
    });
    dev.await_that("a retried task that succeeds", |dev| {
        let done = dev.get("/api/v1/tasks?state=completed&type=invoice.charge");
        done["tasks"].as_array().unwrap().iter().any(|task| task["attempts"] == 2)
    });
    dev.await_that("a dead letter", |dev| dev.get("/api/v1/queue/stats")["dlq_size"] == 1);
    let echo = json!({"type": "echo", "payload": {"hello": "world"}});
    let (_, task) = call(dev.address, "POST", "/api/v1/tasks", &echo);
    let id = task["id"].as_str().unwrap();
    let task = dev.get(&format!("/api/v1/tasks/{id}?wait_seconds=20"));
    assert_eq!((&task["state"], &task["result"]), (&json!("completed"), &echo["payload"]));
    signal(&dev.child, "INT");
    assert_eq!(dev.child.wait().unwrap().code(), Some(0));
    // Without a worker, which would go on with what is left.
    let again = Server::start(folder.path(), &[]);
    let (_, stats) = call(again.address, "GET", "/api/v1/queue/stats", &Value::Null);
    assert_eq!(stats["dlq_size"], 1, "what was there is there");
    assert_eq!(stats["workers"]["used_capacity"], 0, "the worker had finished: {stats}");
}

#[test]
fn a_second_one_says_where_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &["--quiet"]);
    let text = refused(&command(folder.path()).output().unwrap());
    assert!(text.contains(&format!("http://{}", dev.address)), "{text}");
    assert!(text.contains("tasklane dev --folder"), "{text}");
}

#[test]
fn a_port_that_is_taken_is_said_to_be() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasklane"));
    let address = taken.local_addr().unwrap().to_string();
    command.args(["dev", "--listen", &address, "--folder"]).arg(folder.path());
    let text = refused(&command.output().unwrap());
    assert!(text.contains(&address) && text.contains("--listen 127.0.0.1:0"), "{text}");
}

#[test]
fn what_it_says_to_try_works() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &["--quiet"]);
    let (_, tries) = dev.welcome.split_once("Try:\n").unwrap();
    let lines: Vec<_> = tries.lines().map(str::trim).filter(|l| l.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 3, "{}", dev.welcome);
    for line in lines {
        let line = line.replacen("curl ", "curl -sS --fail-with-body ", 1);
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
    }
}
