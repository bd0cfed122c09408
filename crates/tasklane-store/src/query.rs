//! Looking at tasks.

use std::fmt;

use bytes::Bytes;
use tasklane_core::{
    Entry, Invalid, Names, Priority, Problem, State, StateName, Task, Timestamp, WorkerId,
};

/// Where to read the audit log, and in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFrom {
    /// After this number, the oldest first; 0 for the oldest kept.
    After(u64),
    /// Before this number, the newest first.
    Before(u64),
    /// From the newest on back.
    Newest,
}

/// A task with its bodies.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTask {
    /// The task.
    pub task: Task,
    /// What the handler gets.
    pub payload: Bytes,
    /// What the handler gave, once completed.
    pub result: Option<Bytes>,
}

impl StoredTask {
    /// Bytes of its payload and result.
    pub fn body_bytes(&self) -> usize {
        self.payload.len() + self.result.as_ref().map_or(0, Bytes::len)
    }
}

/// A task and its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    /// The task.
    pub task: Task,
    /// The task as it was admitted: what to replay the entries on.
    pub admitted: Task,
    /// All of them in order, the admission first.
    pub entries: Vec<Entry>,
    /// The oldest entries were dropped because there were too many.
    pub cut: bool,
}

/// Which tasks are meant; members left out exclude nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// In one of these states; empty for any.
    pub states: Vec<StateName>,
    /// In these queues.
    pub queues: Names,
    /// Of these types.
    pub types: Names,
    /// With this base priority.
    pub priority: Option<Priority>,
    /// Held by this worker, or completed by it.
    pub worker: Option<WorkerId>,
    /// With all of these labels.
    pub metadata: Vec<(Box<str>, Box<str>)>,
    /// Created at or after.
    pub created_after: Option<Timestamp>,
    /// Created before.
    pub created_before: Option<Timestamp>,
    /// In their state since before.
    pub in_state_before: Option<Timestamp>,
    /// Whose last error's message or code contains this, in any case.
    pub error: Option<Box<str>>,
}

impl Filter {
    /// Whether `task` is meant.
    pub fn matches(&self, task: &Task) -> bool {
        let holder = match &task.state {
            State::Assigned(lease) | State::Running(lease) | State::Completed { lease, .. } => {
                Some(lease.worker)
            }
            _ => None,
        };
        let created_at = task.admission.created.at;
        (self.states.is_empty() || self.states.contains(&task.state.name()))
            && self.queues.contain(task.spec.lane.queue.as_str())
            && self.types.contain(task.spec.lane.task_type.as_str())
            && self.priority.is_none_or(|priority| priority == task.spec.priority)
            && self.worker.is_none_or(|worker| holder == Some(worker))
            && self.created_after.is_none_or(|after| created_at >= after)
            && self.created_before.is_none_or(|before| created_at < before)
            && self.in_state_before.is_none_or(|before| task.state_since() < before)
            && self.metadata.iter().all(|(name, value)| task.spec.metadata.get(name) == Some(value))
            && self.error.as_deref().is_none_or(|text| error_contains(task, text))
    }
}

fn error_contains(task: &Task, text: &str) -> bool {
    let text = text.to_lowercase();
    task.error.as_ref().is_some_and(|error| {
        error.message.to_lowercase().contains(&text)
            || error.code.as_ref().is_some_and(|code| code.to_lowercase().contains(&text))
    })
}

/// A question for a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Which tasks.
    pub filter: Filter,
    /// After the end of an earlier page.
    pub after: Option<PageCursor>,
    /// How many at most.
    pub limit: usize,
    /// With payloads and results.
    pub bodies: bool,
}

impl Query {
    /// The first page of what `filter` means.
    pub fn new(filter: Filter, limit: usize) -> Self {
        Self { filter, after: None, limit, bodies: false }
    }
}

/// A part of a list. It may be short, or empty, and still have a cursor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// What was found. Payloads are empty unless asked for.
    pub tasks: Vec<StoredTask>,
    /// Where to go on; `None` at the end.
    pub next: Option<PageCursor>,
    /// Records looked at.
    pub examined: usize,
}

/// Where a page ended: opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageCursor {
    /// Major key of the store's order.
    pub major: i64,
    /// Minor key of the store's order.
    pub minor: i64,
}

impl fmt::Display for PageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.major, self.minor)
    }
}

impl std::str::FromStr for PageCursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (major, minor) = hex_pair(text)?;
        Ok(Self { major: major as i64, minor: minor as i64 })
    }
}

/// Two numbers of sixteen hexadecimal digits each: the form of every cursor.
pub(crate) fn hex_pair(text: &str) -> Result<(u64, u64), Invalid> {
    let bad = || Invalid::new("cursor", Problem::Malformed { expected: "a cursor of this server" });
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let number = u128::from_str_radix(text, 16).map_err(|_| bad())?;
    Ok(((number >> 64) as u64, number as u64))
}
