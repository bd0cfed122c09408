//! What callers ask of a store and what they get.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Admission, CapabilitySet, Command, Draft, Health, Invalid, LeaseToken, NewTask, Retention,
    StateName, Task, TaskId, Timestamp, WorkerId, WorkerState,
};

/// Tasks that are admitted or refused together.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// In order.
    pub tasks: Vec<Draft>,
}

/// One task of a submission that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub id: TaskId,
    /// The state it is in; for a task that retention removed, the one it ended in.
    pub state: StateName,
    /// It was there before: this is the same submission again (S13).
    pub replayed: bool,
    /// Retention has removed it since.
    pub expired: bool,
    /// What the store added to the draft of a new task: with it, [`Task::admitted`] gives the task
    /// as it was stored. `None` for one that was there before.
    pub admission: Option<Admission>,
}

/// A task that an application has asked for inside the store itself, in its language and in a
/// transaction of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// Which request.
    pub number: u64,
    /// What it asks for; where that makes no sense, as much of it as does.
    pub task: NewTask,
    /// What makes no sense.
    pub problem: Option<Invalid>,
}

/// What is to become of such a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Admit {
    /// Which request.
    pub number: u64,
    /// The task.
    pub draft: Draft,
    /// Why it is refused; it is a dead letter then.
    pub problem: Option<Invalid>,
}

/// A worker asks for tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who.
    pub worker: WorkerId,
    /// How many at most; its free capacity bounds it too.
    pub count: usize,
    /// Straight to `running`.
    pub auto_start: bool,
    /// Only with these of its capabilities, for this once.
    pub narrowed: Option<CapabilitySet>,
}

/// A task in a worker's hands.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The task; its state holds the lease.
    pub task: Task,
    /// What the handler gets.
    pub payload: Bytes,
    /// How long the lease lasts without a renewal.
    pub lease: Duration,
}

/// The verdict on a command that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The state after it.
    pub state: StateName,
    /// When the next attempt is due, if one is.
    pub due_at: Option<Timestamp>,
    /// The worker should stop.
    pub cancel_requested: bool,
    /// It had been carried out before; nothing was written.
    pub repeated: bool,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq)]
pub struct Renewal {
    /// Of whom.
    pub worker: WorkerId,
    /// For which leases.
    pub leases: Leases,
    /// What it reports of itself.
    pub health: Option<Health>,
}

/// Which leases to renew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leases {
    /// All that the worker holds.
    All,
    /// These; others run on towards their end.
    These(Vec<LeaseRef>),
}

/// A lease by its task and token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRef {
    /// The task.
    pub task: TaskId,
    /// The proof.
    pub token: LeaseToken,
}

/// What a worker learns from its heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// Whether it gets tasks.
    pub state: WorkerState,
    /// Leases renewed.
    pub held: usize,
    /// Tasks it should stop.
    pub cancel: Vec<TaskId>,
    /// Tasks it no longer holds.
    pub lost: Vec<TaskId>,
}

/// What an operator, a worker or maintenance does to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Gets no more tasks.
    Pause,
    /// Gets tasks again.
    Resume,
    /// Finishes what it has and gets no more.
    Drain,
    /// Reports trouble; gets no more until it recovers or is resumed. Of no effect on a worker that
    /// gets no tasks anyway.
    MarkUnhealthy,
    /// Reports that the trouble is over; gets tasks again. Of no effect on a worker that is not
    /// unhealthy: what an operator paused stays paused.
    Recover,
    /// Goes; its unstarted tasks go back.
    Leave,
    /// Has been silent for too long. Refused if it was heard of since.
    DeclareDead,
}

/// What time has done.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overdue {
    /// What to carry out.
    pub commands: Vec<Command>,
    /// Workers that have been silent for too long.
    pub silent: Vec<WorkerId>,
    /// There is more already.
    pub more: bool,
    /// When to look again, if nothing new comes: the next deadline known.
    pub next_in: Option<Duration>,
}

/// What to remove.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prune {
    /// How long ended tasks are kept where their queue does not say otherwise.
    pub retention: Retention,
    /// Queues' own settings do not count: an emergency.
    pub override_queues: bool,
    /// How long events are kept.
    pub events_for: Duration,
    /// How many events are kept at most.
    pub events_max: u64,
    /// How long idempotency records are kept after submission; longer while their task lives.
    pub idempotency_for: Duration,
    /// How long dead workers are shown.
    pub workers_for: Duration,
    /// How long keys that have expired or been revoked are shown.
    pub api_keys_for: Duration,
    /// How long records of the audit log are kept.
    pub audit_for: Duration,
    /// How many records of the audit log are kept at most.
    pub audit_max: u64,
    /// Tasks to remove at most in this slice.
    pub limit: usize,
}

impl Default for Prune {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self {
            retention: Retention::default(),
            override_queues: false,
            events_for: day,
            events_max: 10_000_000,
            idempotency_for: day,
            workers_for: Duration::from_secs(3_600),
            api_keys_for: day * 30,
            audit_for: day * 365,
            audit_max: 1_000_000,
            limit: tasklane_core::limits::SLICE_TASKS,
        }
    }
}

impl Prune {
    /// Everything that has ended, whatever its queue's settings.
    pub fn emergency() -> Self {
        Self { retention: Retention::NOTHING, override_queues: true, ..Self::default() }
    }
}

/// What a slice removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Tasks, by the state they had ended in, indexed by [`StateName::index`].
    pub tasks: [u64; StateName::COUNT],
    /// Events.
    pub events: u64,
    /// Idempotency records.
    pub idempotency_records: u64,
    /// Dead workers.
    pub workers: u64,
    /// Keys that had expired or been revoked.
    pub api_keys: u64,
    /// Records of the audit log.
    pub audit_records: u64,
    /// There is more to remove.
    pub more: bool,
}

impl Pruned {
    /// Tasks removed in all.
    pub fn tasks_total(&self) -> u64 {
        self.tasks.iter().sum()
    }

    /// Adds another slice to this report.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.tasks.iter_mut().zip(other.tasks) {
            *sum += count;
        }
        self.events += other.events;
        self.idempotency_records += other.idempotency_records;
        self.workers += other.workers;
        self.api_keys += other.api_keys;
        self.audit_records += other.audit_records;
        self.more = other.more;
    }
}
