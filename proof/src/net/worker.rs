//! Workers: one of a machine stays with its server, the other goes from one to another, and is slower
//! than its lease now and then.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{SeededRandom, TaskId};

use super::line::{Answer, Line};
use super::producer::WORK;
use super::record::Record;
use super::role::{Role, any_server, rest};
use super::space::server_address;
use crate::Failure;

/// How long a poll is parked.
const POLL_WAIT: Duration = Duration::from_millis(400);
/// Tasks in one hand.
const CAPACITY: u64 = 4;
/// How long a task takes, at most.
const WORK_MS_MAX: u64 = 10;
/// One of so many is given back; its token is shown once more later.
const GIVEN_BACK_EVERY: u64 = 8;
/// One of so many takes longer than its lease.
const TOO_SLOW_EVERY: u64 = 40;
/// How long that is, in terms of the lease.
const TOO_SLOW_PERCENT: u64 = 150;
/// The one without a home goes to another server after so many polls.
const ELSEWHERE_EVERY: u64 = 16;
/// How long a report is repeated that is not answered.
const REPORT_WITHIN: Duration = Duration::from_secs(30);

/// The type of tasks that only the worker at home at a server takes.
pub fn type_at(server: usize) -> String {
    format!("check-{server}")
}

/// Works until its input ends, which ends the process.
pub fn run(role: &Role) -> Result<(), Failure> {
    thread::scope(|scope| {
        scope.spawn(|| work_or_end(role, 0, Some(role.at)));
        scope.spawn(|| work_or_end(role, 1, None));
    });
    Ok(())
}

/// One that fails takes the other along: nobody would notice that it is missing.
fn work_or_end(role: &Role, thread: u64, home: Option<usize>) {
    if let Err(failure) = Worker::new(role, thread, home).work() {
        eprintln!("net worker: {failure}");
        std::process::exit(2);
    }
}

struct Worker<'a> {
    role: &'a Role,
    random: SeededRandom,
    line: Line,
    home: Option<usize>,
    /// As registered; empty before.
    id: String,
    lease_ms: u64,
    /// Leases that were given up, with their tokens.
    given_up: VecDeque<(TaskId, String)>,
}

/// A task in hand.
struct Held {
    id: TaskId,
    token: String,
}

impl<'a> Worker<'a> {
    fn new(role: &'a Role, thread: u64, home: Option<usize>) -> Self {
        let mut random = role.random(thread);
        let first = home.map_or_else(|| any_server(&mut random), server_address);
        let line = Line::new(first, &role.key);
        Self { role, random, line, home, id: String::new(), lease_ms: 0, given_up: VecDeque::new() }
    }

    /// Where to go when nothing comes back.
    fn next_server(&mut self) -> SocketAddr {
        self.home.map_or_else(|| any_server(&mut self.random), server_address)
    }

    fn work(&mut self) -> Result<(), Failure> {
        loop {
            if self.id.is_empty() && !self.register()? {
                self.go_on();
                continue;
            }
            for held in self.poll()? {
                self.handle(held)?;
            }
            self.show_stale()?;
            if self.home.is_none() && self.random.below(ELSEWHERE_EVERY) == 0 {
                let next = self.next_server();
                self.line.turn_to(next);
            }
        }
    }

    fn go_on(&mut self) {
        rest();
        let next = self.next_server();
        self.line.turn_to(next);
    }

    fn register(&mut self) -> Result<bool, Failure> {
        let mut types = vec![WORK.to_owned()];
        types.extend(self.home.map(type_at));
        let body = json!({"types": types, "capacity": CAPACITY});
        let Ok(answer) = self.line.post("/internal/workers/register", &body) else {
            return Ok(false);
        };
        let word = |name: &str| answer.body.get(name);
        match word("worker_id").and_then(Value::as_str) {
            Some(id) => {
                self.id = id.to_owned();
                self.lease_ms = word("lease_ms").and_then(Value::as_u64).unwrap_or(0);
                Ok(true)
            }
            None => self.odd("a registration", &answer).map(|()| false),
        }
    }

    /// Tasks, if there are some and they arrive.
    fn poll(&mut self) -> Result<Vec<Held>, Failure> {
        let path = format!("/internal/workers/{}/poll", self.id);
        let wait_ms = POLL_WAIT.as_millis() as u64;
        let body = json!({"available_capacity": CAPACITY, "wait_ms": wait_ms});
        let Ok(answer) = self.line.post_and_wait(&path, &body, POLL_WAIT) else {
            self.go_on();
            return Ok(Vec::new());
        };
        if answer.body.get("directive").and_then(Value::as_str) == Some("terminate") {
            self.id.clear();
        }
        let Some(tasks) = answer.body.get("tasks").and_then(Value::as_array) else {
            self.odd("a poll", &answer)?;
            return Ok(Vec::new());
        };
        let held = tasks.iter().filter_map(|task| {
            let word = |name: &str| task.get(name).and_then(Value::as_str);
            Some(Held { id: word("id")?.parse().ok()?, token: word("lease_token")?.to_owned() })
        });
        Ok(held.collect())
    }

    fn handle(&mut self, held: Held) -> Result<(), Failure> {
        let slow = self.home.is_none() && self.random.below(TOO_SLOW_EVERY) == 0;
        let took = match slow {
            true => self.lease_ms * TOO_SLOW_PERCENT / 100,
            false => self.random.below(WORK_MS_MAX),
        };
        thread::sleep(Duration::from_millis(took));
        if self.random.below(GIVEN_BACK_EVERY) == 0 {
            let released = json!({"task_id": held.id.to_string(), "lease_token": held.token,
                "status": "released"});
            if let Some(200) = self.report(&released)? {
                self.given_up.push_back((held.id, held.token));
            }
            return Ok(());
        }
        let Held { id, token } = held;
        match self.report(&completed(id, &token))? {
            Some(200) => self.role.records.add(&Record::Completed(id, token)),
            Some(409) => self.role.records.add(&Record::Late(id, token)),
            Some(_) | None => Ok(()),
        }
    }

    /// Repeats a report until it is answered; gives the status.
    fn report(&mut self, body: &Value) -> Result<Option<u16>, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < REPORT_WITHIN {
            if self.id.is_empty() && !self.register()? {
                self.go_on();
                continue;
            }
            let path = format!("/internal/workers/{}/result", self.id);
            match self.line.post(&path, body) {
                Ok(answer) if matches!(answer.status, 200 | 409) => return Ok(Some(answer.status)),
                Ok(answer) => self.odd("a report", &answer)?,
                Err(_) => self.go_on(),
            }
        }
        Ok(None)
    }

    /// Shows the token of a lease that was given up: it is worth nothing, whoever has the task now.
    fn show_stale(&mut self) -> Result<(), Failure> {
        let Some((id, token)) = self.given_up.pop_front() else { return Ok(()) };
        if let Some(status) = self.report(&completed(id, &token))? {
            self.role.records.add(&Record::Stale(id, status))?;
        }
        Ok(())
    }

    /// An answer that is not what was asked for: forgotten as a worker, to come again, or wrong.
    fn odd(&mut self, what: &str, answer: &Answer) -> Result<(), Failure> {
        if answer.status == 410 {
            self.id.clear();
        } else if !answer.is_for_now() {
            self.role.wrong(format!("{what}: {} {}", answer.status, answer.body))?;
        }
        self.go_on();
        Ok(())
    }
}

/// The result tells by which lease it was made.
fn completed(id: TaskId, token: &str) -> Value {
    json!({"task_id": id.to_string(), "lease_token": token, "status": "completed",
        "result": {"token": token}})
}
