//! The feed of everything that happens in a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{
    EventKind, Failure, Fence, Invalid, Lane, Priority, Problem, Progress, QueueName, StateName,
    TaskId, Timestamp, WorkerId,
};

use crate::query::hex_pair;

/// An event's number in the feed. Where writes commit in another order than they were numbered,
/// it is given after the commit; so it is never compared with a [`tasklane_core::Sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A position in the feed of one store; opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Which life of the store: a restore begins a new one.
    pub epoch: u64,
    /// The last event seen.
    pub position: Position,
}

impl Cursor {
    /// Before the oldest event kept, whatever that is. Never a gap.
    pub const OLDEST: Self = Self { epoch: 0, position: Position(0) };
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.epoch, self.position.0)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (epoch, position) = hex_pair(text)?;
        if position > i64::MAX as u64 {
            let expected = "a cursor of this server";
            return Err(Invalid::new("cursor", Problem::Malformed { expected }));
        }
        Ok(Self { epoch, position: Position(position) })
    }
}

/// A part of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedPage {
    /// In order.
    pub events: Vec<FeedEvent>,
    /// Where to go on.
    pub next: Cursor,
    /// Events between the cursor and the first of these are gone: they were pruned, or the cursor
    /// is from before a restore.
    pub gap: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEvent {
    /// When.
    pub at: Timestamp,
    /// Where in the feed: not the number in its task's trail.
    pub position: Position,
    /// To what.
    pub subject: Subject,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A task.
    Task(Box<TaskNotice>),
    /// A worker.
    Worker(WorkerId, WorkerChange),
    /// A queue.
    Queue(QueueName, QueueChange),
}

/// What the feed says of a task: never a payload, a result or a lease token.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskNotice {
    /// Which.
    pub id: TaskId,
    /// Its queue, type and capabilities.
    pub lane: Lane,
    /// What happened.
    pub kind: EventKind,
    /// The state before it; `None` for a task that is new.
    pub from: Option<StateName>,
    /// The state after it; for a task that was discarded, the last.
    pub to: StateName,
    /// Base priority after it; for a promotion, what it counted as.
    pub priority: Priority,
    /// Attempts so far, this one included.
    pub attempt: u32,
    /// Who holds it, or held it.
    pub worker: Option<WorkerId>,
    /// Of the claim.
    pub fence: Option<Fence>,
    /// Claimed and running at once.
    pub started: bool,
    /// Of a claim: from the time of its place, when it became ready, until now.
    pub waited: Option<Duration>,
    /// When it goes on.
    pub due_at: Option<Timestamp>,
    /// From start to end.
    pub duration: Option<Duration>,
    /// What went wrong, without details and stack.
    pub error: Option<Arc<Failure>>,
    /// Why it ended, in the words of the API.
    pub reason: Option<Reason>,
    /// How far it is.
    pub progress: Option<Arc<Progress>>,
}

/// Why a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It was cancelled.
    Cancelled(tasklane_core::CancelReason),
    /// It gets no more attempts.
    Dead(tasklane_core::DeadReason),
}

/// What happened to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerChange {
    /// `worker.joined`
    Joined,
    /// `worker.left`
    Left,
    /// `worker.paused`
    Paused,
    /// `worker.resumed`
    Resumed,
    /// `worker.draining`
    Draining,
    /// `worker.unhealthy`
    Unhealthy,
    /// `worker.dead`
    Dead,
}

impl WorkerChange {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Joined,
        Self::Left,
        Self::Paused,
        Self::Resumed,
        Self::Draining,
        Self::Unhealthy,
        Self::Dead,
    ];
}

/// What happened to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// `queue.paused`
    Paused,
    /// `queue.resumed`
    Resumed,
    /// `queue.updated`
    Updated,
    /// `queue.purged`
    Purged,
}

impl QueueChange {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Paused, Self::Resumed, Self::Updated, Self::Purged];
}
