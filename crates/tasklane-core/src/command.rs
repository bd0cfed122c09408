//! Commands: what somebody wants done to one task, with the guard that makes it safe.

use std::time::Duration;

use bytes::Bytes;

use crate::error::{Invalid, Problem};
use crate::event::Update;
use crate::failure::Failure;
use crate::id::{Digest, Digester, LeaseToken, TaskId};
use crate::limits;
use crate::priority::Priority;
use crate::task::Progress;

/// An intent for one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// Which task.
    pub task: TaskId,
    /// What to do.
    pub intent: Intent,
}

/// What to do to a task. Workers present their lease token; maintenance is refused when the
/// deadline it acts on has moved; operators are bound by the state diagram alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Worker: execution begins.
    Start(LeaseToken),
    /// Worker: how far it is. Renews the lease.
    Progress(LeaseToken, Progress),
    /// Worker: how it ended.
    Settle(LeaseToken, Outcome),
    /// Maintenance: scheduled time or backoff is over.
    ComeDue,
    /// Maintenance: `expires_at` has passed.
    Expire,
    /// Maintenance: the lease with this token ended without a word.
    LoseLease(LeaseToken),
    /// Maintenance: the attempt with this token ran too long.
    TimeOut(LeaseToken),
    /// Maintenance: claimed with this token, but not started in time; or its worker left.
    Unassign(LeaseToken),
    /// Anybody: withdraw it (S10).
    Cancel,
    /// Whoever brought it in on trust: it is not acceptable after all, and this is why.
    Refuse(Box<str>),
    /// Operator: revive what has ended without success.
    Retry {
        /// Attempts start from nought.
        reset_attempts: bool,
        /// With another priority.
        priority: Option<Priority>,
    },
    /// Operator: take it from its worker, or end its backoff.
    Requeue,
    /// Operator: change it.
    Update(Update),
    /// Operator: remove what has ended.
    Discard,
}

/// How an attempt ended, as its worker says.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Done, with this result.
    Completed(Bytes),
    /// Not done.
    Failed {
        /// Why.
        failure: Failure,
        /// The worker's own wish for the delay; wins over the policy.
        retry_after: Option<Duration>,
    },
    /// Stopped, usually because it was asked to.
    Cancelled,
    /// Given back, costing no attempt.
    Released {
        /// Not before this long.
        delay: Option<Duration>,
    },
}

impl Outcome {
    /// Checks sizes and ranges.
    pub fn check(&self) -> Result<(), Invalid> {
        let in_range = |field, span: &Option<Duration>| match span {
            Some(span) if *span > limits::SCHEDULE_AHEAD_MAX => {
                Err(Invalid::out_of_range(field, "up to five years"))
            }
            _ => Ok(()),
        };
        match self {
            Self::Completed(result) if result.len() > limits::PAYLOAD_BYTES_MAX => {
                let max = limits::PAYLOAD_BYTES_MAX;
                Err(Invalid::new("result", Problem::TooLong { max }))
            }
            Self::Failed { retry_after, .. } => in_range("retry_after_seconds", retry_after),
            Self::Released { delay } => in_range("delay_seconds", delay),
            Self::Completed(_) | Self::Cancelled => Ok(()),
        }
    }

    /// A hash of what was said, to tell a repeated settle from another one (S5).
    pub fn digest(&self) -> Digest {
        let span =
            |span: &Option<Duration>| span.map_or(-1i128, |s| s.as_nanos() as i128).to_le_bytes();
        let digester = Digester::default();
        match self {
            Self::Completed(result) => digester.part(b"completed").part(result),
            Self::Failed { failure, retry_after } => digester
                .part(b"failed")
                .part(failure.message.as_bytes())
                .part(failure.kind.as_str().as_bytes())
                .optional(failure.code.as_ref().map(|code| code.as_bytes()))
                .part(&[u8::from(failure.retryable)])
                .optional(failure.details.as_deref())
                .optional(failure.stack.as_ref().map(|stack| stack.as_bytes()))
                .part(&span(retry_after)),
            Self::Cancelled => digester.part(b"cancelled"),
            Self::Released { delay } => digester.part(b"released").part(&span(delay)),
        }
        .finish()
    }
}
