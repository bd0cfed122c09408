//! Why a call gave nothing, by what the caller can do about it.

use std::time::Duration;

use crate::wire::Problem;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The server says no: correct the call, or do without. A refusal that passes was tried again.
    #[error("{}: {}", problem.problem_type, problem.detail)]
    Refused {
        /// Why.
        problem: Box<Problem>,
        /// When to try again, where the server says so.
        retry_after: Option<Duration>,
    },
    /// There is no such task, worker, queue or key.
    #[error("{}", problem.detail)]
    NotFound {
        /// What the server says.
        problem: Box<Problem>,
    },
    /// The server was not reached, or did not answer in time. A call that changes something may
    /// have done so (S2).
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The call could not be made as it is: correct it.
    #[error("{0}")]
    Usage(String),
    /// Something answered that is no Tasklane server, or a very different one.
    #[error("the answer is not understood: {0}")]
    Unexpected(String),
}

/// What sort of error it is: what a command's exit code tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The server says no.
    Refused,
    /// The call cannot be made as it is.
    Usage,
    /// There is no such thing.
    NotFound,
    /// No server answers.
    Unreachable,
}

impl Error {
    /// What sort of error it is.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { .. } | Self::Unexpected(_) => ErrorClass::Refused,
            Self::NotFound { .. } => ErrorClass::NotFound,
            Self::Unreachable(_) => ErrorClass::Unreachable,
            Self::Usage(_) => ErrorClass::Usage,
        }
    }

    /// What the server says.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } | Self::NotFound { problem } => Some(problem),
            Self::Unreachable(_) | Self::Usage(_) | Self::Unexpected(_) => None,
        }
    }

    /// Whether the server refused with this word, for example `lease-lost`.
    pub fn is(&self, word: &str) -> bool {
        self.problem().is_some_and(|problem| problem.problem_type == word)
    }

    pub(crate) fn unwritable(error: &serde_json::Error) -> Self {
        Self::Usage(format!("a value cannot be written as JSON: {error}"))
    }
}
