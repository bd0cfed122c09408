//! What people do to tasks.

use std::sync::Arc;

use crate::error::{Invalid, Problem, Refusal};
use crate::event::{Death, Event, Update};
use crate::failure::{ErrorKind, Failure};
use crate::limits;
use crate::priority::Priority;
use crate::state::{CancelReason, DeadReason, State};
use crate::task::Task;

use super::{Decision, Moment, invalid_state};

pub(super) fn cancel(task: &Task) -> Result<Decision, Refusal> {
    match &task.state {
        State::Assigned(lease) | State::Running(lease) => match lease.cancel_requested {
            Some(_) => Ok(Decision::Nothing),
            None => Ok(Decision::Change(Event::CancelRequested)),
        },
        state if state.name().is_terminal() => Err(invalid_state(task)),
        _ => {
            let reason = CancelReason::Requested;
            Ok(Decision::Change(Event::Cancelled { reason, settled: None }))
        }
    }
}

/// Before anybody has had it. It is a dead letter whatever it asked for: nobody waits for an answer
/// that could tell.
pub(super) fn refuse(task: &Task, why: &str) -> Result<Decision, Refusal> {
    if !matches!(task.state, State::Pending { .. }) {
        return Err(invalid_state(task));
    }
    let failure = Some(Arc::new(Failure::new(ErrorKind::Permanent, why)));
    let death = Death { reason: DeadReason::Refused, failure, settled: None };
    Ok(Decision::Change(Event::DeadLettered(death)))
}

pub(super) fn retry(
    task: &Task,
    reset_attempts: bool,
    priority: Option<Priority>,
    moment: &Moment<'_>,
) -> Result<Decision, Refusal> {
    match task.state {
        State::Failed { .. } | State::Cancelled { .. } | State::DeadLetter { .. } => {
            let blocked = task.spec.ordering_key.is_some() && !moment.key_free;
            Ok(Decision::Change(Event::Replayed { priority, reset_attempts, blocked }))
        }
        _ => Err(invalid_state(task)),
    }
}

pub(super) fn requeue(task: &Task) -> Result<Decision, Refusal> {
    match &task.state {
        State::Assigned(lease) | State::Running(lease) if lease.cancel_requested.is_some() => {
            let reason = CancelReason::Requested;
            Ok(Decision::Change(Event::Cancelled { reason, settled: None }))
        }
        State::Assigned(_) | State::Running(_) | State::Retrying { .. } => {
            Ok(Decision::Change(Event::Requeued))
        }
        _ => Err(invalid_state(task)),
    }
}

pub(super) fn update(
    task: &Task,
    update: &Update,
    moment: &Moment<'_>,
) -> Result<Decision, Refusal> {
    if task.state.name().is_terminal() {
        return Err(invalid_state(task));
    }
    if *update == Update::default() {
        return Err(Invalid::new("update", Problem::Empty).into());
    }
    if let Some(at) = update.scheduled_at {
        if !matches!(task.state, State::Scheduled { .. }) {
            return Err(invalid_state(task));
        }
        if at > moment.now.plus(limits::SCHEDULE_AHEAD_MAX) {
            let expected = "at most five years ahead";
            return Err(Invalid::out_of_range("scheduled_at", expected).into());
        }
    }
    Ok(Decision::Change(Event::Updated(update.clone())))
}

pub(super) fn discard(task: &Task) -> Result<Decision, Refusal> {
    match task.state.name().is_terminal() {
        true => Ok(Decision::Change(Event::Discarded)),
        false => Err(invalid_state(task)),
    }
}
