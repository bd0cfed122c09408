//! What a handler may answer instead of a result.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::failure::{ErrorKind, Failure};

/// Why a handler gives no result, and what should become of its task.
///
/// Any error converts with `?`; what it then is, the rules say, or `unknown` (S12).
#[derive(Debug, Clone, PartialEq)]
pub struct TaskError(Verdict);

/// What should become of a task that has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It failed; a kind that nobody gave is found by the rules.
    Failed {
        /// What happened.
        failure: Failure,
        /// Whether the handler gave the kind.
        classified: bool,
        /// When to try again, instead of the backoff.
        retry_after: Option<Duration>,
    },
    /// It goes back and costs no attempt.
    Released {
        /// How long it waits.
        delay: Option<Duration>,
    },
    /// It stopped because it was told to.
    Cancelled,
}

impl TaskError {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl AsRef<str>) -> Self {
        let failure = Failure::new(kind, message.as_ref());
        Self(Verdict::Failed { failure, classified: true, retry_after: None })
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
        Self(Verdict::Released { delay: None })
    }

    /// Not a failure: the task goes back, costs no attempt, and waits this long.
    pub const fn release_after(delay: Duration) -> Self {
        Self(Verdict::Released { delay: Some(delay) })
    }

    /// Stopped, usually because its handler was told to.
    pub const fn cancelled() -> Self {
        Self(Verdict::Cancelled)
    }

    /// When to try again, instead of the backoff; nothing for what is not a failure.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        if let Verdict::Failed { retry_after, .. } = &mut self.0 {
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

    /// Adds details as JSON, kept with the attempt; left out when larger than 16 KiB.
    pub fn with_details(self, details: impl Into<Bytes>) -> Self {
        self.map(|failure| failure.with_details(details.into()))
    }

    fn map(self, change: impl FnOnce(Failure) -> Failure) -> Self {
        match self.0 {
            Verdict::Failed { failure, classified, retry_after } => {
                Self(Verdict::Failed { failure: change(failure), classified, retry_after })
            }
            other => Self(other),
        }
    }

    /// What should become of the task.
    pub const fn verdict(&self) -> &Verdict {
        &self.0
    }

    /// The same, taken out.
    pub fn into_verdict(self) -> Verdict {
        self.0
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Verdict::Failed { failure, .. } => {
                write!(f, "{}: {}", failure.kind.as_str(), failure.message)
            }
            Verdict::Released { .. } => f.write_str("released"),
            Verdict::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// `TaskError` is not an `Error` itself, so that every error can become one.
impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let failure = Failure::new(ErrorKind::Unknown, &error.to_string());
        Self(Verdict::Failed { failure, classified: false, retry_after: None })
    }
}
