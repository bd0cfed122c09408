//! A client that repeats a call until it is answered.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::SeededRandom;

use super::QUEUE;
use crate::Failure;
use crate::http::caller::{Answer, Caller, request_with};

/// Rest before a call is made again.
const REST: Duration = Duration::from_millis(3);
/// A server that is back answers sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the servers are at the moment.
pub(super) struct Servers {
    pub(super) addresses: Vec<RwLock<SocketAddr>>,
    /// Nothing more is to be expected of them.
    pub(super) over: AtomicBool,
}

impl Servers {
    /// One of them.
    pub(super) fn any(&self, random: &mut SeededRandom) -> SocketAddr {
        let at = random.below(self.addresses.len() as u64) as usize;
        let address = self
            .addresses
            .get(at)
            .map(|address| *address.read().unwrap_or_else(PoisonError::into_inner));
        address.unwrap_or_else(|| ([127, 0, 0, 1], 0).into())
    }

    pub(super) fn moved(&self, at: usize, to: SocketAddr) {
        if let Some(address) = self.addresses.get(at) {
            *address.write().unwrap_or_else(PoisonError::into_inner) = to;
        }
    }
}

/// A way to submit the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Member,
    Header,
    Batch,
}

/// What a submission came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The task, and whether this call says that it made it.
    Task { id: String, is_new: bool },
    /// What must not be answered.
    Wrong(String),
}

pub(super) struct Client<'a> {
    servers: &'a Servers,
    random: SeededRandom,
    caller: Option<Caller>,
    /// Calls whose answer did not come, and calls that were refused for a while.
    pub(super) unanswered: u64,
    pub(super) refused: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(servers: &'a Servers, random: SeededRandom) -> Self {
        Self { servers, random, caller: None, unanswered: 0, refused: 0 }
    }

    /// Submits the task of a key, again and again until it is answered.
    pub(super) fn submit(&mut self, key: u64, payload: u64) -> Submitted {
        let began = Instant::now();
        // The form may change from try to try: it is the same request.
        while began.elapsed() < PATIENCE && !self.servers.over.load(Ordering::Relaxed) {
            let form = match self.random.below(3) {
                0 => Form::Member,
                1 => Form::Header,
                _ => Form::Batch,
            };
            match self.call(&request(form, key, payload)) {
                Ok(answer) if answer.status == 503 || answer.status == 429 => self.refused += 1,
                Ok(answer) => return read(form, &answer),
                Err(_) => {
                    self.unanswered += u64::from(self.caller.is_some());
                    self.caller = None;
                }
            }
            std::thread::sleep(REST);
        }
        Submitted::Wrong(format!("key {key} was not answered for {PATIENCE:?}"))
    }

    fn call(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        let caller = match &mut self.caller {
            Some(caller) => caller,
            None => {
                let address = self.servers.any(&mut self.random);
                self.caller.insert(Caller::new(address)?)
            }
        };
        caller.call(request)
    }
}

fn request(form: Form, key: u64, payload: u64) -> Vec<u8> {
    let mut task = json!({"type": "duplicate", "queue": QUEUE, "payload": {"number": payload}});
    let key = format!("key-{key}");
    let mut header = String::new();
    match (form, task.as_object_mut()) {
        (Form::Header, _) | (_, None) => header = format!("idempotency-key: {key}\r\n"),
        (_, Some(members)) => drop(members.insert("idempotency_key".to_owned(), key.into())),
    }
    let (path, body) = match form {
        Form::Batch => ("/api/v1/tasks/batch", json!({"tasks": [task]}).to_string()),
        Form::Member | Form::Header => ("/api/v1/tasks", task.to_string()),
    };
    request_with(&header, path, &body)
}

fn read(form: Form, answer: &Answer) -> Submitted {
    let task = match form {
        Form::Batch => answer.body.pointer("/tasks/0"),
        Form::Member | Form::Header => Some(&answer.body),
    };
    let id = task.and_then(|task| task.get("id")?.as_str());
    match (answer.status, id) {
        (200 | 201, Some(id)) => {
            let replayed = task.and_then(|task| task.get("replayed")?.as_bool()).unwrap_or(false);
            let is_new = match form {
                Form::Batch => !replayed,
                Form::Member | Form::Header => answer.status == 201,
            };
            Submitted::Task { id: id.to_owned(), is_new }
        }
        (status, _) => {
            let problem = answer.body.get("type").and_then(Value::as_str).unwrap_or_default();
            Submitted::Wrong(format!("{form:?} got {status} {problem}"))
        }
    }
}
