//! What the store holds in the end, as a server shows it.

use std::thread;

use serde_json::Value;
use tasklane_core::TaskId;

use super::SERVERS;
use super::line::{Answer, Line};
use super::role::rest;
use super::space::server_address;
use crate::Failure;

/// Tasks of one page.
const PAGE: usize = 1_000;
/// Looks at once.
const THREADS: usize = 6;
/// How often a look is tried.
const TRIES: usize = 20;

/// A task in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its id.
    pub id: TaskId,
    /// Its state's word.
    pub state: String,
    /// The token by which it was completed, as its result tells.
    pub token: Option<String>,
    /// What happened to it, in order.
    pub kinds: Vec<String>,
}

/// All tasks, with all that happened to them.
pub fn look(key: &str) -> Result<Vec<Shown>, Failure> {
    let ids = list(key)?;
    thread::scope(|scope| {
        let parts = ids.chunks(ids.len().div_ceil(THREADS).max(1)).enumerate();
        let threads: Vec<_> =
            parts.map(|(at, ids)| scope.spawn(move || look_at(key, at % SERVERS, ids))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a look at tasks panicked")??);
        }
        Ok(all)
    })
}

fn list(key: &str) -> Result<Vec<String>, Failure> {
    let mut line = Line::new(server_address(0), key);
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&mut line, &format!("/api/v1/tasks?limit={PAGE}{cursor}"))?;
        let tasks = page.body.get("tasks").and_then(Value::as_array).ok_or("a page of no tasks")?;
        for task in tasks {
            let id = task.get("id").and_then(Value::as_str).ok_or("a task without an id")?;
            ids.push(id.to_owned());
        }
        match page.body.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(ids),
        }
    }
}

fn look_at(key: &str, server: usize, ids: &[String]) -> Result<Vec<Shown>, Failure> {
    let mut line = Line::new(server_address(server), key);
    let path = |id: &String| format!("/api/v1/tasks/{id}?include_history=true");
    ids.iter().map(|id| shown(&get(&mut line, &path(id))?.body)).collect()
}

fn get(line: &mut Line, path: &str) -> Result<Answer, Failure> {
    let mut last: Failure = "it was not asked".into();
    for _ in 0..TRIES {
        match line.get(path) {
            Ok(answer) if answer.status == 200 => return Ok(answer),
            Ok(answer) => last = format!("{path}: {} {}", answer.status, answer.body).into(),
            Err(failure) => last = format!("{path}: {failure}").into(),
        }
        rest();
    }
    Err(last)
}

fn shown(task: &Value) -> Result<Shown, Failure> {
    let word =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = word(task, "id").and_then(|id| id.parse().ok()).ok_or("a task without an id")?;
    let history = task.get("history").and_then(Value::as_array).ok_or("a task without history")?;
    Ok(Shown {
        id,
        state: word(task, "state").unwrap_or_default(),
        token: task.get("result").and_then(|result| word(result, "token")),
        kinds: history.iter().filter_map(|entry| word(entry, "type")).collect(),
    })
}
