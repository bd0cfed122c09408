//! Cancelling, at once or through the worker (S10).

use tasklane_core::lifecycle::Decision;
use tasklane_core::{
    CancelReason, ErrorKind, Event, Intent, NewTask, Outcome, State, StateName, When,
};

use crate::life::{Life, RELEASED, completed, failed, invalid, plain, secs};

/// A running task that somebody wants cancelled.
fn asked() -> Life {
    let mut life = Life::of(plain());
    life.run();
    life.act(Intent::Cancel).unwrap();
    life
}

fn reason(life: &Life) -> CancelReason {
    match life.task.state {
        State::Cancelled { reason, .. } => reason,
        _ => panic!("{}", life.state()),
    }
}

#[test]
fn a_waiting_task_is_cancelled_at_once() {
    let scheduled = NewTask { schedule: Some(When::After(secs(60))), ..plain() };
    let mut retrying = Life::of(plain());
    retrying.fail(ErrorKind::Transient);
    for mut life in [Life::of(plain()), Life::of(scheduled), Life::blocked(plain()), retrying] {
        life.act(Intent::Cancel).unwrap();
        assert_eq!(reason(&life), CancelReason::Requested);
    }
}

#[test]
fn cancelling_a_leased_task_asks_the_worker() {
    for auto_start in [false, true] {
        let mut life = Life::of(plain());
        life.claim(crate::life::worker(1), auto_start).unwrap();
        let state = life.state();
        let verdict = life.act(Intent::Cancel);
        assert_eq!(verdict, Ok(Decision::Change(Event::CancelRequested)));
        assert_eq!(life.state(), state);
        assert!(life.task.state.lease().unwrap().cancel_requested.is_some());
    }
}

#[test]
fn asking_twice_changes_nothing_more() {
    let mut life = asked();
    let before = life.task.clone();
    life.pass(secs(5));
    assert_eq!(life.act(Intent::Cancel), Ok(Decision::Nothing));
    assert_eq!(life.task, before);
}

#[test]
fn an_ended_task_cannot_be_cancelled() {
    for outcome in [completed(""), failed(ErrorKind::Bug), Outcome::Cancelled] {
        for dead_letter in [false, true] {
            let mut life = Life::of(NewTask { dead_letter: Some(dead_letter), ..plain() });
            life.run();
            life.settle(outcome.clone()).unwrap();
            assert_eq!(life.act(Intent::Cancel), invalid(life.state()));
        }
    }
}

#[test]
fn a_completion_wins_over_a_pending_cancel() {
    let mut life = asked();
    life.settle(completed("{}")).unwrap();
    assert_eq!(life.state(), StateName::Completed);
}

#[test]
fn any_other_settle_under_a_pending_cancel_ends_as_cancelled() {
    let delayed = Outcome::Released { delay: Some(secs(5)) };
    for outcome in [
        failed(ErrorKind::Transient),
        failed(ErrorKind::Permanent),
        Outcome::Cancelled,
        RELEASED,
        delayed,
    ] {
        let mut life = asked();
        life.settle(outcome).unwrap();
        assert_eq!(reason(&life), CancelReason::Requested);
    }
}

#[test]
fn a_lease_that_ends_under_a_pending_cancel_ends_as_cancelled() {
    let mut life = asked();
    life.act_late(Intent::LoseLease(life.token())).unwrap();
    assert_eq!(reason(&life), CancelReason::Requested);
}

#[test]
fn a_timeout_under_a_pending_cancel_ends_as_cancelled() {
    let mut life = asked();
    life.act_late(Intent::TimeOut(life.token())).unwrap();
    assert_eq!(reason(&life), CancelReason::Requested);
}

#[test]
fn a_late_start_under_a_pending_cancel_ends_as_cancelled() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.act(Intent::Cancel).unwrap();
    life.act_late(Intent::Unassign(token)).unwrap();
    assert_eq!(reason(&life), CancelReason::Requested);
}

#[test]
fn a_requeue_under_a_pending_cancel_ends_as_cancelled() {
    let mut life = asked();
    life.act(Intent::Requeue).unwrap();
    assert_eq!(reason(&life), CancelReason::Requested);
}

#[test]
fn a_worker_may_cancel_without_being_asked() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(Outcome::Cancelled).unwrap();
    assert_eq!(reason(&life), CancelReason::Worker);
}

#[test]
fn a_cancelled_execution_counts_no_attempt() {
    for outcome in [Outcome::Cancelled, failed(ErrorKind::Transient)] {
        let mut life = asked();
        life.settle(outcome).unwrap();
        assert_eq!(life.task.counts.attempts, 0);
    }
}
