//! Events: each change of a task is exactly one, and applying it is the only way a task changes.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::id::{Digest, Fence, LeaseToken, Stamp, WorkerId};
use crate::metadata::Metadata;
use crate::priority::Priority;
use crate::state::{CancelReason, DeadReason, Withheld};
use crate::task::Progress;
use crate::time::Timestamp;

/// An event with its number and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When, and which number.
    pub stamp: Stamp,
    /// What.
    pub event: Event,
}

/// What happened to a task, with all that is needed to make it happen again on a copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Taken, to run at once or when its ordering key is free.
    Submitted,
    /// Taken, to run later.
    Scheduled,
    /// Its time came, or its backoff is over.
    Due,
    /// What it waited for has ended.
    Unblocked,
    /// Claimed above its base because it waited (S9).
    Promoted {
        /// The base.
        from: Priority,
        /// What it counted as.
        to: Priority,
    },
    /// A worker has it.
    Claimed {
        /// Which.
        worker: WorkerId,
        /// Its proof.
        token: LeaseToken,
        /// For outside systems.
        fence: Fence,
        /// Already running.
        started: bool,
    },
    /// The worker began.
    Started,
    /// The worker says how far it is. Not part of the trail.
    Progressed(Arc<Progress>),
    /// Done.
    Completed {
        /// Of the result.
        digest: Digest,
    },
    /// An attempt failed; another follows.
    Retrying {
        /// Why.
        failure: Arc<Failure>,
        /// When.
        due_at: Timestamp,
        /// How long that one may run.
        timeout: Duration,
        /// Whose settle it was; none for a timeout.
        settled: Option<Settled>,
    },
    /// The last attempt failed and no dead letter was wanted.
    Failed(Death),
    /// The last attempt failed.
    DeadLettered(Death),
    /// Withdrawn.
    Cancelled {
        /// By whom or what.
        reason: CancelReason,
        /// Whose settle it was, if one's.
        settled: Option<Settled>,
    },
    /// Cancelling was asked of the worker.
    CancelRequested,
    /// Given back without an attempt.
    Released {
        /// Not before, if it should wait.
        due_at: Option<Timestamp>,
        /// Not to this worker yet.
        withheld: Option<Withheld>,
        /// Whose settle it was, if one's.
        settled: Option<Settled>,
    },
    /// The lease ended without a word.
    LeaseLost,
    /// An operator took it from its worker, or ended its backoff.
    Requeued,
    /// An operator revived it.
    Replayed {
        /// With this priority.
        priority: Option<Priority>,
        /// Attempts start from nought.
        reset_attempts: bool,
        /// It has to wait behind its ordering key.
        blocked: bool,
    },
    /// An operator changed it.
    Updated(Update),
    /// An operator removed it; the last event of a task.
    Discarded,
}

/// The end of a task without success.
#[derive(Debug, Clone, PartialEq)]
pub struct Death {
    /// Why no more attempts.
    pub reason: DeadReason,
    /// The last failure; none for poison.
    pub failure: Option<Arc<Failure>>,
    /// Whose settle it was, if one's.
    pub settled: Option<Settled>,
}

/// A settle that succeeded: kept so that repeating it gives the same answer (S5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The token it presented.
    pub token: LeaseToken,
    /// Of what it said.
    pub digest: Digest,
}

/// What an operator may change of a live task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// Base priority.
    pub priority: Option<Priority>,
    /// When it is due; only while it is scheduled.
    pub scheduled_at: Option<Timestamp>,
    /// All labels anew.
    pub metadata: Option<Metadata>,
}

/// The kind of an event, as subscribers know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// `task.submitted`
    Submitted,
    /// `task.scheduled`
    Scheduled,
    /// `task.due`
    Due,
    /// `task.unblocked`
    Unblocked,
    /// `task.promoted`
    Promoted,
    /// `task.claimed`
    Claimed,
    /// `task.started`
    Started,
    /// `task.progress`
    Progressed,
    /// `task.completed`
    Completed,
    /// `task.retrying`
    Retrying,
    /// `task.failed`
    Failed,
    /// `task.dead_lettered`
    DeadLettered,
    /// `task.cancelled`
    Cancelled,
    /// `task.cancel_requested`
    CancelRequested,
    /// `task.released`
    Released,
    /// `task.lease_lost`
    LeaseLost,
    /// `task.requeued`
    Requeued,
    /// `task.replayed`
    Replayed,
    /// `task.updated`
    Updated,
    /// `task.discarded`
    Discarded,
}

impl EventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 20] = [
        Self::Submitted,
        Self::Scheduled,
        Self::Due,
        Self::Unblocked,
        Self::Promoted,
        Self::Claimed,
        Self::Started,
        Self::Progressed,
        Self::Completed,
        Self::Retrying,
        Self::Failed,
        Self::DeadLettered,
        Self::Cancelled,
        Self::CancelRequested,
        Self::Released,
        Self::LeaseLost,
        Self::Requeued,
        Self::Replayed,
        Self::Updated,
        Self::Discarded,
    ];

    /// Its word on the wire, without the `task.` in front.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Scheduled => "scheduled",
            Self::Due => "due",
            Self::Unblocked => "unblocked",
            Self::Promoted => "promoted",
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Progressed => "progress",
            Self::Completed => "completed",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::DeadLettered => "dead_lettered",
            Self::Cancelled => "cancelled",
            Self::CancelRequested => "cancel_requested",
            Self::Released => "released",
            Self::LeaseLost => "lease_lost",
            Self::Requeued => "requeued",
            Self::Replayed => "replayed",
            Self::Updated => "updated",
            Self::Discarded => "discarded",
        }
    }
}

impl Event {
    /// Its kind.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Submitted => EventKind::Submitted,
            Self::Scheduled => EventKind::Scheduled,
            Self::Due => EventKind::Due,
            Self::Unblocked => EventKind::Unblocked,
            Self::Promoted { .. } => EventKind::Promoted,
            Self::Claimed { .. } => EventKind::Claimed,
            Self::Started => EventKind::Started,
            Self::Progressed(_) => EventKind::Progressed,
            Self::Completed { .. } => EventKind::Completed,
            Self::Retrying { .. } => EventKind::Retrying,
            Self::Failed(_) => EventKind::Failed,
            Self::DeadLettered(_) => EventKind::DeadLettered,
            Self::Cancelled { .. } => EventKind::Cancelled,
            Self::CancelRequested => EventKind::CancelRequested,
            Self::Released { .. } => EventKind::Released,
            Self::LeaseLost => EventKind::LeaseLost,
            Self::Requeued => EventKind::Requeued,
            Self::Replayed { .. } => EventKind::Replayed,
            Self::Updated(_) => EventKind::Updated,
            Self::Discarded => EventKind::Discarded,
        }
    }

    /// The settle that made this event, if one did.
    pub const fn settled(&self) -> Option<Settled> {
        match self {
            Self::Retrying { settled, .. }
            | Self::Cancelled { settled, .. }
            | Self::Released { settled, .. } => *settled,
            Self::Failed(death) | Self::DeadLettered(death) => death.settled,
            _ => None,
        }
    }

    /// The failure this event tells of, if one.
    pub const fn failure(&self) -> Option<&Arc<Failure>> {
        match self {
            Self::Retrying { failure, .. } => Some(failure),
            Self::Failed(death) | Self::DeadLettered(death) => death.failure.as_ref(),
            _ => None,
        }
    }
}
