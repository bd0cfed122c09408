//! One attempt, from its claim to its outcome.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{ErrorKind, WorkerId};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::breaker::Breakers;
use super::context::{Context, Stop, StopReason};
use super::handler::Handlers;
use super::outcome::{Done, Outcome};
use super::progress;
use crate::call::Client;
use crate::wire::{ClaimedTask, LeaseRef};

/// What an attempt needs.
pub(super) struct Attempt {
    /// For handlers: tries again by itself.
    pub(super) client: Client,
    /// For progress: tries once.
    pub(super) once: Client,
    pub(super) worker: watch::Receiver<WorkerId>,
    pub(super) handlers: Arc<Handlers>,
    pub(super) breakers: Arc<Breakers>,
    pub(super) stop: Stop,
    pub(super) stop_within: Duration,
    pub(super) task: ClaimedTask,
}

impl Attempt {
    /// Runs the handler; whatever it does, there is an outcome.
    pub(super) async fn run(self) -> Done {
        let began = Instant::now();
        let lease = LeaseRef { task_id: self.task.id, lease_token: self.task.lease_token };
        let outcome = self.outcome(began, &lease).await;
        Done { lease, outcome, took: began.elapsed() }
    }

    async fn outcome(self, began: Instant, lease: &LeaseRef) -> Outcome {
        let Self { client, once, worker, handlers, breakers, stop, stop_within, task } = self;
        let Some(handler) = handlers.find(&task.task_type) else {
            tracing::error!(task = %task.id.0, r#type = &*task.task_type, "no handler");
            return Outcome::Released { delay: None };
        };
        let (said, mut heard) = watch::channel(None);
        let (payload, time_is_up) = (task.payload.clone(), began + task.timeout_seconds.0);
        let context = Context::new(client, task, stop.clone(), said, breakers);
        // A task of its own: what panics or blocks there does so alone.
        let mut running = AbortOnDropHandle::new(tokio::spawn(handler(context, payload)));
        let told = progress::tell(&once, &worker, lease, &mut heard, &stop);
        tokio::pin!(told);
        let given_up = async {
            stop.token.cancelled().await;
            sleep(stop_within).await;
        };
        tokio::pin!(given_up);
        loop {
            tokio::select! {
                biased;
                answer = &mut running => return ended(answer, stop.reason()),
                () = &mut given_up => {
                    tracing::warn!(task = %lease.task_id.0, "a handler did not stop and was dropped");
                    return Outcome::stopped(stop.reason().unwrap_or(StopReason::Cancelled));
                }
                () = sleep_until(time_is_up), if !stop.token.is_cancelled() => {
                    stop.trip(StopReason::TimedOut);
                }
                () = &mut told => {}
            }
        }
    }
}

fn ended(answer: Result<Outcome, JoinError>, reason: Option<StopReason>) -> Outcome {
    match (answer, reason) {
        // A handler that stops when told to need not know why it was.
        (Ok(Outcome::Cancelled), Some(reason)) => Outcome::stopped(reason),
        (Ok(outcome), _) => outcome,
        (Err(error), _) if error.is_panic() => {
            let panic = error.into_panic();
            let message = format!("the handler panicked: {}", panic_text(&*panic));
            Outcome::failed(ErrorKind::Bug, &message)
        }
        // The runtime is going down with everything on it.
        (Err(_), _) => Outcome::Released { delay: None },
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
