//! What can be wrong with input, and why a command may be refused.

use crate::state::StateName;

/// A value that a constructor refused: which one, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The member at fault, in the words of the API.
    pub field: &'static str,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a value. Each variant maps to one row of the bad-input table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing where something is needed.
    #[error("must not be empty")]
    Empty,
    /// Longer than its bound in bytes.
    #[error("is longer than {max} bytes")]
    TooLong {
        /// The bound.
        max: usize,
    },
    /// More entries than its bound.
    #[error("has more than {max} entries")]
    TooMany {
        /// The bound.
        max: usize,
    },
    /// A character that is not allowed there.
    #[error(
        "contains a character that is not allowed (control characters; in names also colons, braces and marks that change the direction of text)"
    )]
    Characters,
    /// A number, duration or time outside its range.
    #[error("must be {expected}")]
    OutOfRange {
        /// The range, in words.
        expected: &'static str,
    },
    /// Not in the form it must have.
    #[error("must be {expected}")]
    Malformed {
        /// The form, in words.
        expected: &'static str,
    },
}

impl Invalid {
    /// An [`Invalid`] of `field`.
    pub const fn new(field: &'static str, problem: Problem) -> Self {
        Self { field, problem }
    }

    /// Shorthand for the most common problem.
    pub const fn out_of_range(field: &'static str, expected: &'static str) -> Self {
        Self::new(field, Problem::OutOfRange { expected })
    }
}

/// Why a command changed nothing. The task is as it was before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no task with this id.
    #[error("no such task")]
    NotFound,
    /// The lease token is not the current one (S5).
    #[error("the lease was lost or never held")]
    LeaseLost,
    /// The state diagram has no such transition from here.
    #[error("not possible while the task is {current}")]
    InvalidState {
        /// The state the task is in.
        current: StateName,
    },
    /// Maintenance came too early: the deadline it acts on has not passed on the store's clock.
    #[error("not due yet")]
    NotDue,
    /// A value in the command is not acceptable at this moment.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
