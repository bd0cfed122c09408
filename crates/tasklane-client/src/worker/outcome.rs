//! What came of an attempt, and how it is told.

use std::time::Duration;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tasklane_core::limits::SCHEDULE_AHEAD_MAX;
use tasklane_core::{ErrorKind, Failure, TaskError, Verdict};

use super::context::StopReason;
use crate::wire::{self, Json, KindWord, LeaseRef, Report, ReportStatus, Seconds};

/// What came of an attempt.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Completed(Box<RawValue>),
    Failed { failure: Failure, classified: bool, retry_after: Option<Duration> },
    Released { delay: Option<Duration> },
    Cancelled,
}

/// An attempt that is over and not told yet.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) lease: LeaseRef,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

impl Outcome {
    pub(super) fn failed(kind: ErrorKind, message: &str) -> Self {
        let failure = Failure::new(kind, message);
        Self::Failed { failure, classified: true, retry_after: None }
    }

    /// What is said of a handler that stopped because it was told to, or had to be stopped.
    pub(super) fn stopped(reason: StopReason) -> Self {
        match reason {
            StopReason::Cancelled => Self::Cancelled,
            StopReason::TimedOut => Self::failed(ErrorKind::Timeout, "ran longer than it may"),
            // Not the task's fault: somebody else should go on with it.
            StopReason::LeaseLost | StopReason::Draining => Self::Released { delay: None },
        }
    }

    /// The bytes that telling it takes, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Completed(result) => result.get().len(),
            Self::Failed { failure, .. } => {
                failure.message.len() + failure.details.as_ref().map_or(0, |details| details.len())
            }
            Self::Released { .. } | Self::Cancelled => 0,
        }
    }
}

impl From<TaskError> for Outcome {
    fn from(error: TaskError) -> Self {
        match error.into_verdict() {
            Verdict::Failed { failure, classified, retry_after } => {
                Self::Failed { failure, classified, retry_after }
            }
            Verdict::Released { delay } => Self::Released { delay },
            Verdict::Cancelled => Self::Cancelled,
        }
    }
}

impl Done {
    pub(super) fn report(&self) -> Report<'_> {
        let mut report = Report {
            task_id: self.lease.task_id,
            lease_token: self.lease.lease_token,
            status: ReportStatus::Completed,
            result: None,
            error: None,
            retry_after_seconds: None,
            delay_seconds: None,
            execution_seconds: Some(Seconds(self.took)),
        };
        match &self.outcome {
            Outcome::Completed(result) => report.result = Some(result),
            Outcome::Failed { failure, classified, retry_after } => {
                report.status = ReportStatus::Failed;
                report.error = Some(shown(failure, *classified));
                report.retry_after_seconds = retry_after.map(bounded);
            }
            Outcome::Released { delay } => {
                report.status = ReportStatus::Released;
                report.delay_seconds = delay.map(bounded);
            }
            Outcome::Cancelled => report.status = ReportStatus::Cancelled,
        }
        report
    }
}

/// The server refuses longer ones.
fn bounded(delay: Duration) -> Seconds {
    Seconds(delay.min(SCHEDULE_AHEAD_MAX))
}

/// What is none would spoil the whole report.
fn is_json(details: &Bytes) -> bool {
    serde_json::from_slice::<IgnoredAny>(details).is_ok()
}

/// Without a kind where nobody said one: the server's rules find it then.
fn shown(failure: &Failure, classified: bool) -> wire::Failure {
    wire::Failure {
        message: failure.message.clone(),
        kind: classified.then_some(KindWord(failure.kind)),
        code: failure.code.clone(),
        retryable: (!failure.retryable).then_some(false),
        details: failure.details.clone().filter(is_json).map(Json),
        stack: failure.stack.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_are_no_json_are_left_out_and_the_rest_is_told() {
        let told = |details: &'static str| {
            let error = TaskError::transient("no route").with_details(details);
            let Outcome::Failed { failure, classified, .. } = Outcome::from(error) else {
                panic!("a failure stays one");
            };
            shown(&failure, classified)
        };
        assert_eq!(told(r#"{"host":"a"}"#).details.unwrap().0, r#"{"host":"a"}"#);
        let told = told(r#"{"host":"#);
        assert!(told.details.is_none());
        assert_eq!(&*told.message, "no route");
    }
}
