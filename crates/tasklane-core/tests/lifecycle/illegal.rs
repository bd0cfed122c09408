//! Every event against every state: what the diagram does not know is refused, and harms nothing.

use std::sync::Arc;

use tasklane_core::StateName::{self, *};
use tasklane_core::lifecycle::Illegal;
use tasklane_core::{
    CancelReason, DeadReason, Death, Entry, ErrorKind, Event, EventKind, Failure, Fence, Intent,
    LeaseToken, Outcome, Priority, Progress, Sequence, Stamp, Task, Update, When,
};

use crate::life::{Life, START, completed, failed, plain, secs, worker};

/// A task that came into `state` the ordinary way.
fn task_in(state: StateName) -> Task {
    let mut life = match state {
        Scheduled => {
            Life::of(tasklane_core::NewTask { schedule: Some(When::After(secs(60))), ..plain() })
        }
        Blocked => Life::blocked(plain()),
        Failed => Life::of(tasklane_core::NewTask { dead_letter: Some(false), ..plain() }),
        _ => Life::of(plain()),
    };
    let outcome = match state {
        Scheduled | Blocked | Pending => None,
        Assigned => {
            life.assign();
            None
        }
        Running => {
            life.run();
            None
        }
        Retrying => Some(failed(ErrorKind::Transient)),
        Completed => Some(completed("")),
        Failed | DeadLetter => Some(failed(ErrorKind::Permanent)),
        Cancelled => Some(Outcome::Cancelled),
    };
    if let Some(outcome) = outcome {
        let token = life.run();
        life.act(Intent::Settle(token, outcome)).unwrap();
    }
    assert_eq!(life.state(), state);
    life.task
}

fn death(failure: Option<Failure>) -> Death {
    let reason = if failure.is_some() { DeadReason::NotRetryable } else { DeadReason::Poison };
    Death { reason, failure: failure.map(Arc::new), settled: None }
}

/// Every kind of event, in each form that the diagram tells apart, and the states it may meet.
fn events() -> Vec<(Event, &'static [StateName])> {
    const LIVE: &[StateName] = &[Scheduled, Blocked, Pending, Assigned, Running, Retrying];
    const LEASED: &[StateName] = &[Assigned, Running];
    let failure = Failure::new(ErrorKind::Transient, "no luck");
    let (from, to) = (Priority::Normal, Priority::High);
    let (worker, token, fence) = (worker(1), LeaseToken::from_bytes([1; 16]), Fence::from_u64(1));
    let claimed = |started| Event::Claimed { worker, token, fence, started };
    let priority = Update { priority: Some(to), ..Update::default() };
    let scheduled_at = Update { scheduled_at: Some(START), ..Update::default() };
    let digest = completed("").digest();
    let cancelled = |reason| Event::Cancelled { reason, settled: None };
    let retrying = Event::Retrying {
        failure: Arc::new(failure.clone()),
        due_at: START,
        timeout: secs(1),
        settled: None,
    };
    let released = |due_at| Event::Released { due_at, withheld: None, settled: None };
    let replayed = |blocked| Event::Replayed { priority: None, reset_attempts: false, blocked };
    let refused = Death { reason: DeadReason::Refused, ..death(Some(failure.clone())) };
    let revivable: &[StateName] = &[Failed, Cancelled, DeadLetter];
    vec![
        (Event::Submitted, &[]),
        (Event::Scheduled, &[]),
        (Event::Due, &[Scheduled, Retrying]),
        (Event::Unblocked, &[Blocked]),
        (Event::Promoted { from, to }, &[Pending]),
        (claimed(false), &[Pending]),
        (claimed(true), &[Pending]),
        (Event::Started, &[Assigned]),
        (Event::Progressed(Arc::new(Progress::default())), &[Running]),
        (Event::Completed { digest }, &[Running]),
        (retrying, &[Running]),
        (Event::Failed(death(Some(failure.clone()))), &[Running]),
        (Event::Failed(death(None)), LEASED),
        (Event::DeadLettered(death(Some(failure))), &[Running]),
        (Event::DeadLettered(death(None)), LEASED),
        (Event::DeadLettered(refused.clone()), &[Pending]),
        (Event::Failed(refused), &[]),
        (cancelled(CancelReason::Requested), LIVE),
        (Event::CancelRequested, LEASED),
        (released(None), LEASED),
        (released(Some(START)), LEASED),
        (Event::LeaseLost, LEASED),
        (Event::Requeued, &[Assigned, Running, Retrying]),
        (replayed(false), revivable),
        (replayed(true), revivable),
        (Event::Updated(priority), LIVE),
        (Event::Updated(scheduled_at), &[Scheduled]),
        (Event::Discarded, &[Completed, Failed, Cancelled, DeadLetter]),
    ]
}

#[test]
fn an_event_that_the_diagram_does_not_allow_is_illegal_and_changes_nothing() {
    let stamp = Stamp { at: START.plus(secs(9)), sequence: Sequence(99) };
    for state in StateName::ALL {
        let before = task_in(state);
        for (event, allowed) in events() {
            let mut task = before.clone();
            let kind = event.kind();
            let verdict = task.apply(&Entry { stamp, event: event.clone() });
            if allowed.contains(&state) {
                assert_eq!(verdict, Ok(()), "{event:?} while {state}");
                assert_eq!(task.updated_at, stamp.at);
            } else {
                assert_eq!(verdict, Err(Illegal { state, event: kind }), "{event:?} while {state}");
                assert_eq!(task, before, "{event:?} while {state}");
            }
        }
    }
}

#[test]
fn the_table_of_events_misses_no_kind() {
    let listed: Vec<_> = events().iter().map(|(event, _)| event.kind()).collect();
    for kind in EventKind::ALL {
        assert!(listed.contains(&kind), "{kind:?}");
    }
}
