//! What the worker that holds a task may do: start, report, settle.

use std::sync::Arc;
use std::time::Duration;

use crate::command::Outcome;
use crate::error::Refusal;
use crate::event::{Death, Entry, Event, Settled};
use crate::failure::{ErrorKind, Failure};
use crate::id::{Digest, LeaseToken};
use crate::random::Random;
use crate::state::{CancelReason, DeadReason, State, StateName, Withheld};
use crate::task::{Progress, Task};
use crate::time::Timestamp;

use super::{Decision, Moment, held, invalid_state};

pub(super) fn start(task: &Task, token: &LeaseToken) -> Result<Decision, Refusal> {
    held(task, token)?;
    match task.state {
        State::Assigned(_) => Ok(Decision::Change(Event::Started)),
        // Its answer may have been lost: asking again is harmless.
        State::Running(_) => Ok(Decision::Nothing),
        _ => Err(invalid_state(task)),
    }
}

pub(super) fn progress(
    task: &Task,
    token: &LeaseToken,
    progress: &Progress,
    moment: &Moment<'_>,
) -> Result<Decision, Refusal> {
    held(task, token)?;
    match task.state {
        State::Running(_) => {
            let progress = Progress { updated_at: moment.now, ..progress.clone() };
            Ok(Decision::Change(Event::Progressed(Arc::new(progress))))
        }
        _ => Err(invalid_state(task)),
    }
}

pub(super) fn settle(
    task: &Task,
    token: &LeaseToken,
    outcome: &Outcome,
    moment: &Moment<'_>,
    random: &mut impl Random,
) -> Result<Decision, Refusal> {
    outcome.check()?;
    if let State::Completed { lease, digest: known, .. } = &task.state {
        let repeated = lease.token == *token && *known == outcome.digest();
        return repeated.then_some(Decision::Nothing).ok_or(Refusal::LeaseLost);
    }
    let lease = held(task, token)?;
    let running = matches!(task.state, State::Running(_));
    let digest = outcome.digest();
    let settled = Some(Settled { token: *token, digest });
    let cancelled = |reason| Event::Cancelled { reason, settled };
    let event = match outcome {
        Outcome::Completed(_) | Outcome::Failed { .. } if !running => {
            return Err(invalid_state(task));
        }
        // A completion that arrives before the worker noticed the request wins (S10).
        Outcome::Completed(_) => Event::Completed { digest },
        _ if lease.cancel_requested.is_some() => cancelled(CancelReason::Requested),
        Outcome::Cancelled => cancelled(CancelReason::Worker),
        Outcome::Failed { failure, retry_after } => {
            fail(task, failure.clone(), *retry_after, settled, moment, random)
        }
        Outcome::Released { delay } => {
            let until = moment.now.plus(moment.rules.withhold);
            let withheld = delay.is_none().then_some(Withheld { worker: lease.worker, until });
            Event::Released { due_at: delay.map(|delay| moment.now.plus(delay)), withheld, settled }
        }
    };
    Ok(Decision::Change(event))
}

/// What a failed attempt leads to (S12).
pub(super) fn fail(
    task: &Task,
    failure: Failure,
    retry_after: Option<Duration>,
    settled: Option<Settled>,
    moment: &Moment<'_>,
    random: &mut impl Random,
) -> Event {
    let rules = moment.rules;
    let failures = task.counts.attempts + 1;
    let allowed = if failure.retryable { rules.kinds.retries(failure.kind) } else { 0 };
    if failures > task.spec.max_retries.min(allowed) {
        let reason = match allowed {
            0 => DeadReason::NotRetryable,
            _ => DeadReason::RetriesExhausted,
        };
        return death(task, Death { reason, failure: Some(Arc::new(failure)), settled });
    }
    let stretch = if failure.kind == ErrorKind::RateLimited { 2.0 } else { 1.0 };
    let delay = retry_after.unwrap_or_else(|| task.spec.retry.delay(failures - 1, stretch, random));
    let timeout = match failure.kind {
        ErrorKind::Timeout | ErrorKind::Resource => {
            let grown = task.timeout.mul_f64(rules.timeout_growth).min(rules.timeout_growth_max);
            grown.max(task.timeout)
        }
        _ => task.timeout,
    };
    let due_at = moment.now.plus(delay);
    Event::Retrying { failure: Arc::new(failure), due_at, timeout, settled }
}

/// The end without success, in the form the producer asked for.
pub(super) const fn death(task: &Task, death: Death) -> Event {
    if task.spec.dead_letter { Event::DeadLettered(death) } else { Event::Failed(death) }
}

/// What a settle that succeeded once led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The state it led to then, whatever the task is now.
    pub state: StateName,
    /// When the next attempt was due, if one was.
    pub due_at: Option<Timestamp>,
}

/// Looks for the settle with this token and digest among a task's entries. A store asks this
/// when a token is not the current one, so that repeating a settle gives the same answer (S5).
pub fn repeated(trail: &[Entry], token: &LeaseToken, digest: Digest) -> Option<Repeat> {
    let wanted = Settled { token: *token, digest };
    let entry = trail.iter().find(|entry| entry.event.settled() == Some(wanted))?;
    let (state, due_at) = match &entry.event {
        Event::Retrying { due_at, .. } => (StateName::Retrying, Some(*due_at)),
        Event::Released { due_at: Some(due_at), .. } => (StateName::Scheduled, Some(*due_at)),
        Event::Failed(_) => (StateName::Failed, None),
        Event::DeadLettered(_) => (StateName::DeadLetter, None),
        Event::Cancelled { .. } => (StateName::Cancelled, None),
        _ => (StateName::Pending, None),
    };
    Some(Repeat { state, due_at })
}
