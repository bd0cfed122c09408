//! What can go wrong in a store, by what the caller can do about it.

use tasklane_core::{Invalid, QueueName};

/// A call as a whole failed: no unit of it has a verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; try again later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Too much is waiting already; nothing was written. Try again in a moment.
    #[error("the store is overloaded: {0}")]
    Overloaded(String),
    /// One of several units was in the way of the others; nothing was written. Each may succeed by
    /// itself: see [`apart`](crate::apart). Never the answer to a single one.
    #[error("one unit was in the way of the others: {0}")]
    Obstructed(String),
    /// No space left; nothing was written. Settles may still succeed.
    #[error("the store is full: {0}")]
    Full(String),
    /// It may or may not have been written (S2): repeat with the same ids.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// What is stored contradicts itself; the store refuses to guess (S18).
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A read took longer than it may; ask for less.
    #[error("the read was interrupted after {0} ms")]
    TooSlow(u64),
    /// A value in the call is not acceptable; nothing was done.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Another process has the store open.
    #[error("{0}")]
    Locked(String),
    /// The stored format is not one this program can use.
    #[error("{0}")]
    Version(String),
    /// This store cannot do it, now or later.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Why a submission was refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {index}: {problem}")]
pub struct SubmitRefusal {
    /// Which of its tasks is at fault.
    pub index: usize,
    /// What is wrong.
    pub problem: SubmitProblem,
}

/// What is wrong with one task of a submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitProblem {
    /// The idempotency key, or the id, came before with another body (S13).
    #[error("its key or id was used before with another body")]
    Mismatch,
    /// The queue is as deep as it may be for this priority (S20).
    #[error("queue {queue} is full")]
    QueueFull {
        /// Which queue.
        queue: QueueName,
        /// Even critical tasks are refused.
        for_all: bool,
    },
    /// Queue, type and capability set make a lane too many.
    #[error("too many different queues, types and capability sets")]
    TooManyLanes,
    /// A value is not acceptable at this moment.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Why a key was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyRefusal {
    /// Another key has this id: make another.
    #[error("there is a key with this id")]
    Exists,
    /// The store keeps as many as it may: revoked and expired ones go in time.
    #[error("there are too many keys")]
    TooMany,
    /// A value is not acceptable at this moment.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Why a worker's call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkerRefusal {
    /// Declared dead, deregistered or never known: register again.
    #[error("the worker is gone; register again")]
    Gone,
    /// It has been heard of since: it is not dead after all.
    #[error("the worker has been heard of")]
    Alive,
}
