//! What a handler sees of its task, and how it is told to stop.

use std::sync::{Arc, OnceLock};

use tasklane_core::{ErrorKind, TaskError, TaskId, Verdict};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::breaker::{Breakers, Pass};
use super::progress::Progress;
use crate::call::Client;
use crate::wire::ClaimedTask;

/// The attempt that a handler is running. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    task: ClaimedTask,
    stop: Stop,
    progress: watch::Sender<Option<Progress>>,
    breakers: Arc<Breakers>,
}

/// Why a handler should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody cancelled the task.
    Cancelled,
    /// Somebody else may have the task by now: what this attempt does no longer counts.
    LeaseLost,
    /// The attempt has run for as long as it may.
    TimedOut,
    /// The worker ends, and its time to finish is over.
    Draining,
}

impl Context {
    pub(super) fn new(
        client: Client,
        task: ClaimedTask,
        stop: Stop,
        progress: watch::Sender<Option<Progress>>,
        breakers: Arc<Breakers>,
    ) -> Self {
        Self { inner: Arc::new(Inner { client, task, stop, progress, breakers }) }
    }

    /// The task as it was claimed: queue, priority, labels, trace context and all else.
    pub fn task(&self) -> &ClaimedTask {
        &self.inner.task
    }

    /// Its id.
    pub fn id(&self) -> TaskId {
        self.inner.task.id.0
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.task.attempt
    }

    /// A number that only rises from claim to claim of this task: outside systems that keep the
    /// highest one can refuse an attempt that was overtaken (S5).
    pub fn fence(&self) -> u64 {
        self.inner.task.fence
    }

    /// The worker's client, for example to submit what comes next.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Whether to stop: see [`stop_reason`](Self::stop_reason). A result is still taken unless the
    /// lease is lost.
    pub fn is_cancelled(&self) -> bool {
        self.inner.stop.token.is_cancelled()
    }

    /// Waits until there is a reason to stop. A handler that goes on for long after it is dropped
    /// where it waits.
    pub async fn cancelled(&self) -> StopReason {
        self.inner.stop.token.cancelled().await;
        self.stop_reason().unwrap_or(StopReason::Cancelled)
    }

    /// The same as a token, for libraries that take one.
    pub fn token(&self) -> &CancellationToken {
        &self.inner.stop.token
    }

    /// Why to stop, if there is a reason.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.inner.stop.reason()
    }

    /// Says how far the attempt is, from 0 to 100. Cheap: what is said faster than every half
    /// second is told with the next.
    pub fn progress(&self, percent: f64, message: &str) {
        let message = Some(message).filter(|text| !text.is_empty()).map(Into::into);
        self.report(Progress { percent: Some(percent), message, ..Progress::default() });
    }

    /// Says how far the attempt is, in more detail.
    pub fn report(&self, progress: Progress) {
        self.inner.progress.send_replace(Some(progress));
    }

    /// Does something that depends on a named thing outside, for example a mail server. When that
    /// fails time after time, its breaker opens: for a while tasks are then given back before they
    /// try, which costs them no attempt.
    ///
    /// Failures that are the task's own fault (`permanent`, `bug`) do not count.
    pub async fn with_breaker<T, E: Into<TaskError>>(
        &self,
        dependency: &str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, TaskError> {
        let pass = match self.inner.breakers.enter(dependency) {
            Pass::Wait(time) => return Err(TaskError::release_after(time)),
            Pass::Go(pass) => pass,
        };
        match call.await {
            Ok(value) => {
                pass.went_well();
                Ok(value)
            }
            Err(error) => {
                let error: TaskError = error.into();
                match blames_dependency(&error) {
                    true => pass.failed(),
                    false => pass.went_well(),
                }
                Err(error)
            }
        }
    }
}

/// Whether it says something of what the handler depends on: not what the task itself got wrong,
/// nor what was no failure.
const fn blames_dependency(error: &TaskError) -> bool {
    match error.verdict() {
        Verdict::Failed { failure, .. } => {
            !matches!(failure.kind, ErrorKind::Permanent | ErrorKind::Bug)
        }
        Verdict::Released { .. } | Verdict::Cancelled => false,
    }
}

/// Tripped once, for good; the first reason counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop {
    pub(super) token: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
}

impl Stop {
    pub(super) fn trip(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    pub(super) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }
}

impl StopReason {
    /// Its word, in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::LeaseLost => "lease lost",
            Self::TimedOut => ErrorKind::Timeout.as_str(),
            Self::Draining => "draining",
        }
    }
}
