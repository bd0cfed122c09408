//! Carrying out an operation on a store: the child does it for the parent, and the parent itself
//! when it drains what is left.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{
    Backoff, Command, ErrorKind, Failure as Reported, IdempotencyKey, Intent, Invalid, Jitter,
    NewTask, OrderingKey, Outcome, Policies, Priority, QueueName, RetryPolicy, Selection, TaskId,
    TaskType, When, WorkerSpec,
};
use tasklane_store::conformance::block_on;
use tasklane_store::{ClaimRequest, Claimed, Store, StoreError, Submission, SubmitRefusal};

use crate::history::{Answer, Ending, Grant, Operation, Plan, Taken};
use crate::place::Place;

/// Leases one worker of the load may hold.
const CAPACITY: u32 = 2_000;
/// Every so many tasks one has a payload that does not fit a page.
const LARGE_EVERY: u64 = 32;
const LARGE_BYTES: usize = 9_000;

/// Makes the call and waits for its answer.
pub(crate) fn perform(place: &Place, store: &Arc<dyn Store>, operation: &Operation) -> Answer {
    attempt(store, operation).unwrap_or_else(|error| match place.is_away(&error) {
        true => Answer::Unknown(error.to_string()),
        false => Answer::Trouble(error.to_string()),
    })
}

/// The same, with the store's own error where the call failed as a whole.
pub(crate) fn attempt(store: &Arc<dyn Store>, operation: &Operation) -> Result<Answer, StoreError> {
    match operation {
        Operation::Register => register(store),
        Operation::Submit(plans) => submit(store, plans),
        Operation::Claim { worker, count, auto_start } => {
            let request = ClaimRequest {
                worker: *worker,
                count: *count,
                auto_start: *auto_start,
                narrowed: None,
            };
            claim(store, request)
        }
        Operation::Start(hold) => execute(store, hold.task, Intent::Start(hold.token)),
        Operation::Settle(hold, ending) => {
            execute(store, hold.task, Intent::Settle(hold.token, outcome(*ending)))
        }
        Operation::Cancel(task) => execute(store, *task, Intent::Cancel),
        Operation::Retry(task) => {
            execute(store, *task, Intent::Retry { reset_attempts: true, priority: None })
        }
    }
}

fn register(store: &Arc<dyn Store>) -> Result<Answer, StoreError> {
    let spec = WorkerSpec::new(Selection::default(), CAPACITY)?;
    Ok(Answer::Registered(block_on(store.register(spec))?))
}

fn submit(store: &Arc<dyn Store>, plans: &[Plan]) -> Result<Answer, StoreError> {
    let verdicts = block_on(store.submit(vec![submission(plans)?]))?;
    submitted(verdicts)
}

/// What is submitted for these plans.
pub(crate) fn submission(plans: &[Plan]) -> Result<Submission, Invalid> {
    let drafts = plans.iter().map(|plan| new_task(plan)?.resolve(&Policies::default()));
    Ok(Submission { tasks: drafts.collect::<Result<_, _>>()? })
}

/// The answer to one submission.
pub(crate) fn submitted(
    verdicts: Vec<Result<Vec<tasklane_store::Submitted>, SubmitRefusal>>,
) -> Result<Answer, StoreError> {
    Ok(match only(verdicts)? {
        Ok(submitted) => {
            let taken =
                |one: &tasklane_store::Submitted| Taken { id: one.id, replayed: one.replayed };
            Answer::Submitted(submitted.iter().map(taken).collect())
        }
        Err(refusal) => Answer::Refused(refusal.to_string()),
    })
}

fn claim(store: &Arc<dyn Store>, request: ClaimRequest) -> Result<Answer, StoreError> {
    Ok(match only(block_on(store.claim(vec![request]))?)? {
        Ok(claimed) => Answer::Claimed(claimed.iter().map(grant).collect::<Result<_, _>>()?),
        Err(refusal) => Answer::Refused(refusal.to_string()),
    })
}

fn grant(claimed: &Claimed) -> Result<Grant, StoreError> {
    let free = || StoreError::Corrupt("a task was handed out without a lease".into());
    let lease = claimed.task.state.lease().ok_or_else(free)?;
    // A payload that is not one of ours shows as a body that was never asked for.
    let body = body_of(&claimed.payload).unwrap_or(u64::MAX);
    Ok(Grant { task: claimed.task.id, token: lease.token, fence: lease.fence.as_u64(), body })
}

fn execute(store: &Arc<dyn Store>, task: TaskId, intent: Intent) -> Result<Answer, StoreError> {
    Ok(match only(block_on(store.execute(vec![Command { task, intent }]))?)? {
        Ok(changed) => Answer::Changed { state: changed.state, repeated: changed.repeated },
        Err(refusal) => Answer::Refused(refusal.to_string()),
    })
}

/// One unit was asked, so one verdict comes back.
fn only<T>(mut verdicts: Vec<T>) -> Result<T, StoreError> {
    let lost = || StoreError::Corrupt("a call came back without its verdict".into());
    verdicts.pop().ok_or_else(lost)
}

fn outcome(ending: Ending) -> Outcome {
    let failed = |kind| Outcome::Failed { failure: Reported::new(kind, "boom"), retry_after: None };
    match ending {
        Ending::Completed => Outcome::Completed("\"done\"".into()),
        Ending::Failed => failed(ErrorKind::Transient),
        Ending::FailedForGood => failed(ErrorKind::Permanent),
        Ending::Cancelled => Outcome::Cancelled,
        Ending::Released => Outcome::Released { delay: None },
        Ending::Delayed => Outcome::Released { delay: Some(Duration::from_millis(8)) },
    }
}

/// The task that a plan means. Each choice reads bits of its own, so that all of them combine.
pub(crate) fn new_task(plan: &Plan) -> Result<NewTask, Invalid> {
    let choice = |shift: u32, of: u64| (plan.body >> shift) % of;
    let backoff = RetryPolicy::new(
        Backoff::Fixed,
        Duration::from_millis(6),
        1.0,
        Duration::from_millis(6),
        Jitter::Full,
    )?;
    let ordering_key = match choice(8, 6) {
        0 => Some(OrderingKey::new(format!("line-{}", choice(16, 12)))?),
        _ => None,
    };
    let schedule = match choice(24, 8) {
        0 => Some(When::After(Duration::from_millis(1 + choice(28, 40)))),
        _ => None,
    };
    Ok(NewTask {
        id: Some(plan.id),
        queue: QueueName::new(if choice(36, 4) == 0 { "mail" } else { "default" })?,
        priority: Some(Priority::from_number(choice(40, 4))?),
        max_retries: Some(choice(44, 4) as u32),
        retry: Some(backoff),
        dead_letter: Some(choice(48, 4) > 0),
        schedule,
        ordering_key,
        idempotency_key: plan.key.as_deref().map(IdempotencyKey::new).transpose()?,
        ..NewTask::new(TaskType::new("proof")?, payload(plan.body))
    })
}

/// JSON that begins with the body's number, some of it long.
fn payload(body: u64) -> String {
    let filler = if body.is_multiple_of(LARGE_EVERY) { LARGE_BYTES } else { 0 };
    format!("[{body},\"{}\"]", "x".repeat(filler))
}

/// The number that a payload of ours was made of; none if it is anything else.
pub(crate) fn body_of(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let body = text.strip_prefix('[')?.split(',').next()?.parse().ok()?;
    (text == payload(body)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_tells_its_body_only_when_it_is_whole() {
        for body in [1, 32, u64::MAX] {
            let whole = payload(body);
            assert_eq!(body_of(whole.as_bytes()), Some(body));
            assert_eq!(body_of(&whole.as_bytes()[..whole.len() - 1]), None);
        }
    }
}
