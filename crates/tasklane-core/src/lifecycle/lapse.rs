//! What time does to a task. Maintenance proposes; a deadline that has moved refuses.

use crate::error::Refusal;
use crate::event::{Death, Event};
use crate::failure::{ErrorKind, Failure};
use crate::id::LeaseToken;
use crate::random::Random;
use crate::state::{CancelReason, DeadReason, State};
use crate::task::Task;

use super::settle::{death, fail};
use super::{Decision, Moment, held, invalid_state};

pub(super) fn come_due(task: &Task, moment: &Moment<'_>) -> Result<Decision, Refusal> {
    let due_at = task.state.due_at().ok_or(invalid_state(task))?;
    passed(due_at <= moment.now)?;
    Ok(Decision::Change(Event::Due))
}

pub(super) fn expire(task: &Task, moment: &Moment<'_>) -> Result<Decision, Refusal> {
    if !task.state.name().is_waiting() {
        return Err(invalid_state(task));
    }
    passed(task.is_expired(moment.now))?;
    Ok(Decision::Change(Event::Cancelled { reason: CancelReason::Expired, settled: None }))
}

pub(super) fn lose_lease(
    task: &Task,
    token: &LeaseToken,
    moment: &Moment<'_>,
) -> Result<Decision, Refusal> {
    let lease = held(task, token)?;
    passed(moment.elapsed.lease)?;
    let event = if lease.cancel_requested.is_some() {
        Event::Cancelled { reason: CancelReason::Requested, settled: None }
    } else if task.counts.lease_losses + 1 >= moment.rules.lease_losses_max {
        death(task, Death { reason: DeadReason::Poison, failure: None, settled: None })
    } else {
        Event::LeaseLost
    };
    Ok(Decision::Change(event))
}

pub(super) fn time_out(
    task: &Task,
    token: &LeaseToken,
    moment: &Moment<'_>,
    random: &mut impl Random,
) -> Result<Decision, Refusal> {
    let lease = held(task, token)?;
    if !matches!(task.state, State::Running(_)) {
        return Err(invalid_state(task));
    }
    passed(moment.elapsed.execution)?;
    if lease.cancel_requested.is_some() {
        let reason = CancelReason::Requested;
        return Ok(Decision::Change(Event::Cancelled { reason, settled: None }));
    }
    let message = format!("ran longer than {} s", task.timeout.as_secs_f64());
    let failure = Failure::new(ErrorKind::Timeout, &message);
    Ok(Decision::Change(fail(task, failure, None, None, moment, random)))
}

pub(super) fn unassign(
    task: &Task,
    token: &LeaseToken,
    moment: &Moment<'_>,
) -> Result<Decision, Refusal> {
    let lease = held(task, token)?;
    if !matches!(task.state, State::Assigned(_)) {
        return Err(invalid_state(task));
    }
    passed(moment.elapsed.assignment)?;
    let event = match lease.cancel_requested {
        Some(_) => Event::Cancelled { reason: CancelReason::Requested, settled: None },
        None => Event::Released { due_at: None, withheld: None, settled: None },
    };
    Ok(Decision::Change(event))
}

fn passed(deadline: bool) -> Result<(), Refusal> {
    deadline.then_some(()).ok_or(Refusal::NotDue)
}
