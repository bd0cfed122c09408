//! The threads that run handlers and settle what comes of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tasklane_core::{
    ClassifyRule, Command, ErrorKind, Failure, Intent, Outcome, TaskError, Verdict, classify,
};
use tasklane_store::{LeaseRef, Store, StoreError};

use super::Crew;
use super::floor::Delivery;
use crate::queue::block::block_on;
use crate::queue::context::Context;

/// How often a settle is sent when the store fails; repeating one is safe (S5).
const SETTLES_MAX: u32 = 6;
/// The pause before the second, doubled each time: about 1.2 s in all.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);

pub(super) fn run(crew: &Crew) {
    while let Some(delivery) = crew.floor.next() {
        let lease = LeaseRef { task: delivery.task.id, token: delivery.lease.token };
        // Lost before it began: somebody else has it.
        if crew.floor.holds(lease) {
            let outcome = attempt(crew, delivery);
            settle(crew, lease, outcome);
        }
        crew.floor.finish(lease);
        crew.claims.ring();
    }
}

/// Runs the handler; whatever it does, there is an outcome that the store will take.
fn attempt(crew: &Crew, delivery: Delivery) -> Outcome {
    let Delivery { task, lease, payload, flag } = delivery;
    let Some(handler) = crew.handlers.get(&task.spec.lane.task_type) else {
        return Outcome::Released { delay: None };
    };
    let context = Context::new(crew.core.clone(), task, lease, flag);
    let answer = catch_unwind(AssertUnwindSafe(|| handler(&context, &payload)));
    let outcome = match answer {
        Ok(Ok(result)) => Outcome::Completed(result.into()),
        Ok(Err(error)) => outcome_of(error, &crew.rules),
        Err(panic) => bug(&format!("the handler panicked: {}", panic_text(&*panic))),
    };
    match outcome.check() {
        Ok(()) => outcome,
        Err(invalid) => bug(&format!("the handler's answer is not acceptable: {invalid}")),
    }
}

/// What the store is told of a handler without a result.
fn outcome_of(error: TaskError, rules: &[ClassifyRule]) -> Outcome {
    match error.into_verdict() {
        Verdict::Failed { mut failure, classified, retry_after } => {
            if !classified {
                failure.kind = classify(rules, failure.code.as_deref(), &failure.message);
            }
            Outcome::Failed { failure, retry_after }
        }
        Verdict::Released { delay } => Outcome::Released { delay },
        Verdict::Cancelled => Outcome::Cancelled,
    }
}

/// Tells the store. A refusal means that the lease was lost, and the outcome with it (S3).
fn settle(crew: &Crew, lease: LeaseRef, outcome: Outcome) {
    let mut pause = SETTLE_PAUSE;
    for _ in 0..SETTLES_MAX {
        if !crew.floor.holds(lease) {
            return;
        }
        let intent = Intent::Settle(lease.token, outcome.clone());
        let error =
            match block_on(crew.core.store.execute(vec![Command { task: lease.task, intent }])) {
                Ok(_) => return,
                Err(error) => error,
            };
        let hopeless = matches!(error, StoreError::Closed | StoreError::Corrupt(_));
        crew.core.notes.note(|troubles| troubles.worker = Some(error));
        if hopeless {
            return;
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
}

fn bug(message: &str) -> Outcome {
    Outcome::Failed { failure: Failure::new(ErrorKind::Bug, message), retry_after: None }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}
