//! What a handler may answer instead of a result.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tasklane_core::{ErrorKind, Failure};

use super::outcome::Outcome;

/// Why a handler gives no result, and what should become of its task.
///
/// Any error converts with `?`; what it then is, the server's rules say, or `unknown` (S12).
#[derive(Debug, Clone, PartialEq)]
pub struct TaskError(Kept);

#[derive(Debug, Clone, PartialEq)]
enum Kept {
    Failed { failure: Failure, classified: bool, retry_after: Option<Duration> },
    Released { delay: Option<Duration> },
    Cancelled,
}

impl TaskError {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl AsRef<str>) -> Self {
        let failure = Failure::new(kind, message.as_ref());
        Self(Kept::Failed { failure, classified: true, retry_after: None })
    }

    /// May well succeed next time.
    pub fn transient(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Transient, message)
    }

    /// The other side asked for less; try again after this long.
    pub fn rate_limited(message: impl AsRef<str>, retry_after: Duration) -> Self {
        Self::new(ErrorKind::RateLimited, message).retry_after(retry_after)
    }

    /// Took longer than it may; the next attempt gets more time (S11).
    pub fn timeout(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Timeout, message)
    }

    /// Ran out of memory, disk or the like.
    pub fn resource(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Resource, message)
    }

    /// Nobody knows what it was.
    pub fn unknown(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Unknown, message)
    }

    /// Will fail every time: no retry.
    pub fn permanent(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Permanent, message)
    }

    /// The handler itself is broken: no retry.
    pub fn bug(message: impl AsRef<str>) -> Self {
        Self::new(ErrorKind::Bug, message)
    }

    /// Not a failure: the task goes back and costs no attempt. This worker does not get it again
    /// for a second (S8).
    pub const fn release() -> Self {
        Self(Kept::Released { delay: None })
    }

    /// Not a failure: the task goes back, costs no attempt, and waits this long.
    pub const fn release_after(delay: Duration) -> Self {
        Self(Kept::Released { delay: Some(delay) })
    }

    /// Stopped, usually because [`Context::is_cancelled`](super::Context::is_cancelled) said so.
    pub const fn cancelled() -> Self {
        Self(Kept::Cancelled)
    }

    /// When to try again, instead of the backoff; nothing for what is not a failure.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if let Kept::Failed { retry_after, .. } = &mut self.0 {
            *retry_after = Some(delay);
        }
        self
    }

    /// Forbids a retry whatever the kind allows.
    pub fn not_retryable(self) -> Self {
        self.map(Failure::not_retryable)
    }

    /// Adds a code for machines.
    pub fn with_code(self, code: impl AsRef<str>) -> Self {
        self.map(|failure| failure.with_code(code.as_ref()))
    }

    /// Adds details, kept with the attempt; left out when larger than 16 KiB or no JSON.
    pub fn with_details(self, details: &impl Serialize) -> Self {
        match serde_json::to_vec(details) {
            Ok(details) => self.map(|failure| failure.with_details(details.into())),
            Err(_) => self,
        }
    }

    fn map(self, change: impl FnOnce(Failure) -> Failure) -> Self {
        match self.0 {
            Kept::Failed { failure, classified, retry_after } => {
                Self(Kept::Failed { failure: change(failure), classified, retry_after })
            }
            other => Self(other),
        }
    }

    /// Whether it says something of what the handler depends on: not what the task itself got
    /// wrong, nor what was no failure.
    pub(super) fn blames_dependency(&self) -> bool {
        match &self.0 {
            Kept::Failed { failure, .. } => {
                !matches!(failure.kind, ErrorKind::Permanent | ErrorKind::Bug)
            }
            Kept::Released { .. } | Kept::Cancelled => false,
        }
    }

    /// What the server is told.
    pub(super) fn into_outcome(self) -> Outcome {
        match self.0 {
            Kept::Failed { failure, classified, retry_after } => {
                Outcome::Failed { failure, classified, retry_after }
            }
            Kept::Released { delay } => Outcome::Released { delay },
            Kept::Cancelled => Outcome::Cancelled,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kept::Failed { failure, .. } => {
                write!(f, "{}: {}", failure.kind.as_str(), failure.message)
            }
            Kept::Released { .. } => f.write_str("released"),
            Kept::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// `TaskError` is not an `Error` itself, so that every error can become one.
impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let failure = Failure::new(ErrorKind::Unknown, &error.to_string());
        Self(Kept::Failed { failure, classified: false, retry_after: None })
    }
}
