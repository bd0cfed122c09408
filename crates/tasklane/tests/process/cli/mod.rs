//! The verbs of the command line, on the real binary against a real server.

mod bulk;
mod consent;
mod copy;
mod operate;
mod output;
mod profile;
mod progress;
mod refusal;
mod setting;
mod snapshot;
mod watch;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::client::call;
use crate::server::Server;

/// A command that knows of nothing but what it is told.
pub(crate) fn tasklane(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasklane"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TASKLANE_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("XDG_CONFIG_HOME", home).current_dir(home);
    command
}

/// Makes the first key of a store.
pub(crate) fn first_key(store: &Path) -> String {
    let address = format!("sqlite:{}", store.display());
    let home = store.parent().unwrap();
    let made = tasklane(home, &["keys", "bootstrap", "--store", &address]).output().unwrap();
    printed(&made, 0).trim().to_owned()
}

/// A server, and a folder to be in.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&folder.path().join("store"), &[]);
        Self { folder, server }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tasklane(self.folder.path(), arguments);
        command.env("TASKLANE_SERVER", format!("http://{}", self.address()));
        command
    }

    /// Runs a command that succeeds; gives what it prints.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        printed(&self.command(arguments).output().unwrap(), 0)
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// Runs a command that ends with this code; gives what it says.
    #[track_caller]
    pub(crate) fn said(&self, arguments: &[&str], code: i32) -> String {
        said(&self.command(arguments).output().unwrap(), code)
    }

    /// Runs a command with this on its standard input.
    pub(crate) fn fed(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        call(self.address(), "GET", path, &Value::Null).1
    }

    /// Submits a task; gives its id.
    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        let task = self.json(&[&["submit"], arguments].concat());
        task["id"].as_str().unwrap().to_owned()
    }

    /// A worker that takes one task and reports; gives the worker's id.
    pub(crate) fn work(&self, report: Value) -> String {
        let worker = json!({"capacity": 1, "name": "tester"});
        let worker = call(self.address(), "POST", "/internal/workers/register", &worker).1;
        let id = worker["worker_id"].as_str().unwrap();
        let poll = json!({"available_capacity": 1, "wait_ms": 30_000});
        let polled = call(self.address(), "POST", &format!("/internal/workers/{id}/poll"), &poll).1;
        let task = &polled["tasks"][0];
        let mut report = report;
        report["task_id"] = task["id"].clone();
        report["lease_token"] = task["lease_token"].clone();
        let path = format!("/internal/workers/{id}/result");
        let (status, answer) = call(self.address(), "POST", &path, &report);
        assert_eq!(status, 200, "{answer}");
        id.to_owned()
    }

    /// A dead letter; gives its id.
    pub(crate) fn dead_letter(&self, task_type: &str) -> String {
        let id = self.submit(&[task_type, "--max-retries", "0"]);
        let error = json!({"message": "no such user", "kind": "permanent", "code": "E7"});
        self.work(json!({"status": "failed", "error": error}));
        id
    }
}

#[track_caller]
pub(crate) fn printed(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
pub(crate) fn said(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What is another each time, by what it is; and one space for many.
pub(crate) fn masked(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<_> = line.split_whitespace().map(mask).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn mask(word: &str) -> String {
    let bare = word.trim_matches(|c: char| "(),".contains(c));
    let is_id = bare.len() == 36 && bare.split('-').count() == 5;
    let is_time = bare.len() == 20 && bare.ends_with('Z') && bare.contains('T');
    let is_age = bare.starts_with(|c: char| c.is_ascii_digit())
        && bare.ends_with(['s', 'm'])
        && bare.chars().all(|c| c.is_ascii_digit() || ".smh".contains(c));
    match (is_id, is_time, is_age) {
        (true, ..) => word.replace(bare, "ID"),
        (_, true, _) => word.replace(bare, "TIME"),
        (_, _, true) => word.replace(bare, "AGE"),
        _ => word.to_owned(),
    }
}
