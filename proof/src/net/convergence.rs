//! Whether all servers do their work again: each says that it is ready, and a fresh task that is
//! submitted through it is completed by a worker that is at home at the next one.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{SeededRandom, TaskId};

use super::SERVERS;
use super::line::Line;
use super::producer::new_id;
use super::record::{Record, Records};
use super::space::server_address;
use super::worker::type_at;
use crate::Failure;

/// When a cut counts as not healed at all, and the test gives up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(120);
const REST: Duration = Duration::from_millis(20);

/// How long one server took, from the moment that it could.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Until it said that it is ready.
    pub ready: Duration,
    /// Until its task was taken.
    pub taken: Duration,
    /// Until that was completed.
    pub completed: Duration,
    /// The task.
    pub task: TaskId,
}

/// Waits until all servers do their work.
pub fn converge(
    key: &str,
    records: &Records,
    random: &mut SeededRandom,
) -> Result<Vec<Took>, Failure> {
    let begun = Instant::now();
    let ids: Vec<TaskId> = (0..SERVERS).map(|_| new_id(random)).collect();
    thread::scope(|scope| {
        let servers: Vec<_> = (0..SERVERS)
            .zip(ids)
            .map(|(at, id)| scope.spawn(move || Watch { at, begun, key, records }.server(id)))
            .collect();
        let mut took = Vec::new();
        for server in servers {
            took.push(server.join().map_err(|_| "a look at a server panicked")??);
        }
        Ok(took)
    })
}

struct Watch<'a> {
    at: usize,
    begun: Instant,
    key: &'a str,
    records: &'a Records,
}

impl Watch<'_> {
    fn server(&self, task: TaskId) -> Result<Took, Failure> {
        let mut line = Line::new(server_address(self.at), self.key);
        let ready =
            self.until("ready", || line.get("/readyz").is_ok_and(|said| said.status == 200))?;
        self.records.add(&Record::Sent(task))?;
        let body = json!({"id": task.to_string(), "type": type_at((self.at + 1) % SERVERS),
            "priority": "critical"});
        let taken = self.until("taking tasks", || {
            let answer = line.post("/api/v1/tasks", &body);
            let answer = answer.ok().filter(|answer| matches!(answer.status, 200 | 201));
            let note = |replayed| self.records.add(&Record::Taken(task, replayed)).is_ok();
            answer.is_some_and(|answer| note(answer.replayed))
        })?;
        let path = format!("/api/v1/tasks/{task}");
        let completed = self.until("handing out tasks", || {
            let shown = line.get(&path).ok();
            let state = shown.as_ref().and_then(|shown| shown.body.get("state")?.as_str());
            state == Some("completed")
        })?;
        Ok(Took { ready, taken, completed, task })
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<Duration, Failure> {
        while !is_so() {
            if self.begun.elapsed() > GIVEN_UP_AFTER {
                let within = GIVEN_UP_AFTER;
                return Err(format!("server{} is not {what} after {within:?}", self.at).into());
            }
            thread::sleep(REST);
        }
        Ok(self.begun.elapsed())
    }
}

/// Waits until no task is live; whether that came to pass in time.
pub fn all_ended(key: &str, within: Duration) -> bool {
    let live = ["pending", "assigned", "running", "scheduled", "retrying", "blocked"];
    let begun = Instant::now();
    let mut line = Line::new(server_address(0), key);
    let mut is_over = || {
        live.iter().all(|state| {
            let page = line.get(&format!("/api/v1/tasks?state={state}&limit=1"));
            let tasks = page.ok().and_then(|page| page.body.get("tasks").cloned());
            tasks.as_ref().and_then(Value::as_array).is_some_and(Vec::is_empty)
        })
    };
    while begun.elapsed() < within {
        if is_over() {
            return true;
        }
        thread::sleep(REST);
    }
    false
}
