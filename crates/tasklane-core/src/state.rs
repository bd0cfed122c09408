//! The states of a task, each with the data that only it has.

use std::fmt;

use crate::id::WorkerId;
use crate::id::{Digest, Fence, LeaseToken, Stamp};
use crate::time::Timestamp;

/// Where a task is in its life, with what belongs to that state alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waits for its time.
    Scheduled {
        /// When that is.
        due_at: Timestamp,
    },
    /// Waits for another task: behind its ordering key.
    Blocked,
    /// Waits for a worker.
    Pending {
        /// Set for a moment after a release: this worker does not get it back yet (S8).
        withheld: Option<Withheld>,
    },
    /// Claimed, not started.
    Assigned(Lease),
    /// Being executed.
    Running(Lease),
    /// Failed, waits for its backoff.
    Retrying {
        /// When that is over.
        due_at: Timestamp,
    },
    /// Done.
    Completed {
        /// Under which it was done.
        lease: Lease,
        /// When.
        ended: Stamp,
        /// Of the result, to recognise a repeated settle.
        digest: Digest,
    },
    /// Ended without success, not kept as a dead letter.
    Failed {
        /// When.
        ended: Stamp,
        /// Why no more attempts.
        reason: DeadReason,
    },
    /// Withdrawn.
    Cancelled {
        /// When.
        ended: Stamp,
        /// By whom or what.
        reason: CancelReason,
    },
    /// Ended without success, kept for people to look at.
    DeadLetter {
        /// When.
        ended: Stamp,
        /// Why no more attempts.
        reason: DeadReason,
    },
}

/// A worker that gave a task back, and until when it does not get it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withheld {
    /// From whom.
    pub worker: WorkerId,
    /// Until when.
    pub until: Timestamp,
}

/// A worker's hold on a task (S5). When it ends is the store's business: the embedded one counts
/// on a clock that cannot step, the others on the clock of their server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// What the worker must present.
    pub token: LeaseToken,
    /// Who holds it.
    pub worker: WorkerId,
    /// For outside systems.
    pub fence: Fence,
    /// When it was claimed.
    pub claimed: Stamp,
    /// When it was started; claims with auto-start are started by the same event.
    pub started: Option<Stamp>,
    /// When cancelling was asked for.
    pub cancel_requested: Option<Stamp>,
}

/// Why a task is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelReason {
    /// Somebody asked.
    Requested,
    /// `expires_at` passed.
    Expired,
    /// The worker said so without being asked.
    Worker,
}

impl CancelReason {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Expired => "expired",
            Self::Worker => "worker",
        }
    }
}

/// Why a task gets no more attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Every retry was used.
    RetriesExhausted,
    /// The failure allows no retry.
    NotRetryable,
    /// Too many leases in a row were lost (S6).
    Poison,
    /// It was not acceptable, and nobody was there to be told.
    Refused,
}

impl DeadReason {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetriesExhausted => "retries_exhausted",
            Self::NotRetryable => "not_retryable",
            Self::Poison => "poison",
            Self::Refused => "refused",
        }
    }
}

/// A state without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// See [`State::Scheduled`].
    Scheduled,
    /// See [`State::Blocked`].
    Blocked,
    /// See [`State::Pending`].
    Pending,
    /// See [`State::Assigned`].
    Assigned,
    /// See [`State::Running`].
    Running,
    /// See [`State::Retrying`].
    Retrying,
    /// See [`State::Completed`].
    Completed,
    /// See [`State::Failed`].
    Failed,
    /// See [`State::Cancelled`].
    Cancelled,
    /// See [`State::DeadLetter`].
    DeadLetter,
}

impl StateName {
    /// How many there are.
    pub const COUNT: usize = 10;
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Scheduled,
        Self::Blocked,
        Self::Pending,
        Self::Assigned,
        Self::Running,
        Self::Retrying,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::DeadLetter,
    ];

    /// Its position in [`StateName::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Nothing but an operator leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::DeadLetter)
    }

    /// A worker holds it.
    pub const fn is_leased(self) -> bool {
        matches!(self, Self::Assigned | Self::Running)
    }

    /// Live and held by nobody: what counts towards a queue's depth.
    pub const fn is_waiting(self) -> bool {
        !self.is_terminal() && !self.is_leased()
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// The state with this word; the usual other words are taken too.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "queued" => Some(Self::Pending),
            "executing" | "processing" | "in_progress" => Some(Self::Running),
            _ => Self::ALL.into_iter().find(|state| state.as_str() == word),
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl State {
    /// Pending and open to every worker.
    pub const READY: Self = Self::Pending { withheld: None };

    /// Its name.
    pub const fn name(&self) -> StateName {
        match self {
            Self::Scheduled { .. } => StateName::Scheduled,
            Self::Blocked => StateName::Blocked,
            Self::Pending { .. } => StateName::Pending,
            Self::Assigned(_) => StateName::Assigned,
            Self::Running(_) => StateName::Running,
            Self::Retrying { .. } => StateName::Retrying,
            Self::Completed { .. } => StateName::Completed,
            Self::Failed { .. } => StateName::Failed,
            Self::Cancelled { .. } => StateName::Cancelled,
            Self::DeadLetter { .. } => StateName::DeadLetter,
        }
    }

    /// The lease, while a worker holds one.
    pub const fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Assigned(lease) | Self::Running(lease) => Some(lease),
            _ => None,
        }
    }

    /// When it ended, if it has.
    pub const fn ended(&self) -> Option<Stamp> {
        match self {
            Self::Completed { ended, .. }
            | Self::Failed { ended, .. }
            | Self::Cancelled { ended, .. }
            | Self::DeadLetter { ended, .. } => Some(*ended),
            _ => None,
        }
    }

    /// When the wall clock ends this state, for the two that wait for it.
    pub const fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Scheduled { due_at } | Self::Retrying { due_at } => Some(*due_at),
            _ => None,
        }
    }
}
