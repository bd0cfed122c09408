//! Why a call was refused or failed, by what the caller can do about it.

use tasklane_core::{Invalid, Problem, QueueName, Refusal, StateName, TaskId};
use tasklane_store::{StoreError, SubmitProblem, SubmitRefusal};

/// What went wrong. Except for [`StoreError::OutcomeUnknown`], nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue is as deep as it may be: submit again when workers have caught up.
    #[error("queue {queue} is full")]
    Full {
        /// Which queue.
        queue: QueueName,
        /// Even critical tasks are refused.
        for_all: bool,
    },
    /// An idempotency key or id came before with another body: use a new one.
    #[error("task {index}: its key or id was used before with another body")]
    Mismatch {
        /// Which task of the call.
        index: usize,
    },
    /// Queue, type and capability set make a lane too many: use fewer different ones.
    #[error("too many different queues, types and capability sets")]
    TooManyLanes,
    /// There is no such task, or retention has removed it.
    #[error("there is no task {0}")]
    NotFound(TaskId),
    /// The task is not in a state that allows this.
    #[error("task {id}: {refusal}")]
    Refused {
        /// Which task.
        id: TaskId,
        /// Why.
        refusal: Refusal,
    },
    /// The time to wait is over and the task has not ended: wait again, or do without.
    #[error("task {id} is still {current}")]
    NotEnded {
        /// Which task.
        id: TaskId,
        /// The state it is in.
        current: StateName,
    },
    /// A value of the call is not acceptable: correct it.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A value of one task of the call is not acceptable: correct it.
    #[error("task {index}: {invalid}")]
    InvalidTask {
        /// Which task of the call.
        index: usize,
        /// What is wrong with it.
        invalid: Invalid,
    },
    /// The system gives no more threads: ask for less capacity.
    #[error("cannot start a thread: {0}")]
    Thread(String),
    /// The store failed: its variants say whether and when to try again.
    #[error(transparent)]
    Store(StoreError),
}

impl QueueError {
    pub(super) fn of_command(id: TaskId, refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::NotFound(id),
            Refusal::Invalid(invalid) => Self::Invalid(invalid),
            Refusal::LeaseLost | Refusal::InvalidState { .. } | Refusal::NotDue => {
                Self::Refused { id, refusal }
            }
        }
    }

    /// A single task needs no index.
    pub(super) fn of_one(self) -> Self {
        match self {
            Self::InvalidTask { invalid, .. } => Self::Invalid(invalid),
            other => other,
        }
    }

    pub(super) fn malformed(field: &'static str, expected: &'static str) -> Self {
        Self::Invalid(Invalid::new(field, Problem::Malformed { expected }))
    }
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(invalid) => Self::Invalid(invalid),
            other => Self::Store(other),
        }
    }
}

impl From<SubmitRefusal> for QueueError {
    fn from(refusal: SubmitRefusal) -> Self {
        let index = refusal.index;
        match refusal.problem {
            SubmitProblem::Mismatch => Self::Mismatch { index },
            SubmitProblem::QueueFull { queue, for_all } => Self::Full { queue, for_all },
            SubmitProblem::TooManyLanes => Self::TooManyLanes,
            SubmitProblem::Invalid(invalid) => Self::InvalidTask { index, invalid },
        }
    }
}
