//! What time does to a task, and that it never comes too early (S6, S7, S10, S11).

use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    CancelReason, DeadReason, ErrorKind, Event, Intent, NewTask, Outcome, Refusal, State,
    StateName, When,
};

use crate::life::{Life, RELEASED, START, change, completed, failed, invalid, plain, secs, worker};

fn expiring() -> NewTask {
    NewTask { expires: Some(When::After(secs(10))), ..plain() }
}

#[test]
fn a_scheduled_task_comes_due_at_its_time_and_not_before() {
    let mut life = Life::of(NewTask { schedule: Some(When::After(secs(60))), ..plain() });
    life.pass(secs(59));
    assert_eq!(life.act(Intent::ComeDue), Err(Refusal::NotDue));
    life.pass(secs(1));
    assert_eq!(change(life.act(Intent::ComeDue)), Event::Due);
    assert_eq!(life.state(), StateName::Pending);
    assert_eq!(life.task.place.ready_at, START.plus(secs(60)));
}

#[test]
fn a_retrying_task_comes_due_after_its_backoff_and_not_before() {
    let mut life = Life::of(plain());
    life.fail(ErrorKind::Transient);
    assert_eq!(life.act(Intent::ComeDue), Err(Refusal::NotDue));
    life.pass(secs(1));
    assert_eq!(change(life.act(Intent::ComeDue)), Event::Due);
}

#[test]
fn a_clock_that_steps_back_fires_nothing_again() {
    let mut life = Life::of(NewTask { schedule: Some(When::After(secs(60))), ..plain() });
    life.come_due();
    life.now = START;
    assert_eq!(life.act(Intent::ComeDue), invalid(StateName::Pending));
    life.pass(secs(60));
    assert_eq!(life.act(Intent::ComeDue), invalid(StateName::Pending));
}

#[test]
fn every_waiting_task_past_its_expiry_is_cancelled() {
    let mut retrying = Life::of(expiring());
    retrying.fail(ErrorKind::Transient);
    let scheduled = NewTask { schedule: Some(When::After(secs(5))), ..expiring() };
    for mut life in [Life::of(expiring()), Life::of(scheduled), Life::blocked(expiring()), retrying]
    {
        life.pass(secs(10));
        life.act(Intent::Expire).unwrap();
        let State::Cancelled { reason, .. } = life.task.state else { panic!("{}", life.state()) };
        assert_eq!(reason, CancelReason::Expired);
    }
}

#[test]
fn nothing_expires_before_its_time_or_without_one() {
    let mut life = Life::of(expiring());
    life.pass(secs(9));
    assert_eq!(life.act(Intent::Expire), Err(Refusal::NotDue));
    assert_eq!(Life::of(plain()).act(Intent::Expire), Err(Refusal::NotDue));
}

#[test]
fn a_leased_or_ended_task_does_not_expire() {
    let mut assigned = Life::of(expiring());
    assigned.assign();
    let mut running = Life::of(expiring());
    running.run();
    let mut ended = Life::of(expiring());
    ended.run();
    ended.settle(completed("")).unwrap();
    for mut life in [assigned, running, ended] {
        life.pass(secs(60));
        assert_eq!(life.act(Intent::Expire), invalid(life.state()));
    }
}

#[test]
fn a_lease_is_lost_only_when_the_store_says_that_it_ended() {
    let mut life = Life::of(plain());
    let token = life.run();
    // Wall time does not count: leases follow the store's own clock.
    life.pass(secs(1_000_000));
    life.elapsed = Elapsed { lease: false, execution: true, assignment: true };
    assert_eq!(life.act(Intent::LoseLease(token)), Err(Refusal::NotDue));
    life.elapsed = Elapsed { lease: true, ..Elapsed::default() };
    assert_eq!(change(life.act(Intent::LoseLease(token))), Event::LeaseLost);
}

#[test]
fn a_lost_lease_costs_no_attempt_and_keeps_the_place() {
    let mut life = Life::of(plain());
    let place = life.task.place;
    life.pass(secs(50));
    life.lose_lease();
    assert_eq!((life.task.state.clone(), life.task.place), (State::READY, place));
    assert_eq!((life.task.counts.attempts, life.task.counts.lease_losses), (0, 1));
    assert!(life.claim(worker(1), true).is_ok());
}

#[test]
fn an_assigned_task_loses_its_lease_too() {
    let mut life = Life::of(plain());
    let token = life.assign();
    assert_eq!(change(life.act_late(Intent::LoseLease(token))), Event::LeaseLost);
}

#[test]
fn five_leases_lost_in_a_row_are_poison() {
    let mut life = Life::of(plain());
    for _ in 0..4 {
        assert_eq!(life.lose_lease(), Event::LeaseLost);
    }
    life.lose_lease();
    let State::DeadLetter { reason, .. } = life.task.state else { panic!("{}", life.state()) };
    assert_eq!(reason, DeadReason::Poison);
    assert_eq!((life.task.counts.attempts, life.task.counts.lease_losses), (0, 5));
}

#[test]
fn poison_without_dead_letters_ends_as_failed() {
    let mut life = Life::of(NewTask { dead_letter: Some(false), ..plain() });
    for _ in 0..5 {
        life.lose_lease();
    }
    let State::Failed { reason, .. } = life.task.state else { panic!("{}", life.state()) };
    assert_eq!(reason, DeadReason::Poison);
}

#[test]
fn every_settle_resets_the_lost_leases() {
    for outcome in [completed(""), failed(ErrorKind::Transient), Outcome::Cancelled, RELEASED] {
        let mut life = Life::of(plain());
        life.lose_lease();
        assert_eq!(life.task.counts.lease_losses, 1);
        life.run();
        life.settle(outcome).unwrap();
        assert_eq!(life.task.counts.lease_losses, 0, "{}", life.state());
    }
}

#[test]
fn four_losses_a_release_and_four_more_are_not_poison() {
    let mut life = Life::of(plain());
    for _ in 0..2 {
        for _ in 0..4 {
            life.lose_lease();
        }
        life.run();
        life.settle(RELEASED).unwrap();
        life.pass(secs(1));
    }
    assert_eq!(life.state(), StateName::Pending);
}

#[test]
fn an_attempt_times_out_only_when_the_store_says_so() {
    let mut life = Life::of(plain());
    let token = life.run();
    life.pass(secs(1_000_000));
    life.elapsed = Elapsed { lease: true, execution: false, assignment: true };
    assert_eq!(life.act(Intent::TimeOut(token)), Err(Refusal::NotDue));
}

#[test]
fn passing_the_timeout_fails_the_attempt_with_kind_timeout() {
    let mut life = Life::of(plain());
    let token = life.run();
    let event = change(life.act_late(Intent::TimeOut(token)));
    assert_eq!(event.failure().unwrap().kind, ErrorKind::Timeout);
    assert_eq!(event.settled(), None);
    assert_eq!((life.state(), life.task.counts.attempts), (StateName::Retrying, 1));
    assert_eq!(life.task.timeout, secs(150));
}

#[test]
fn a_task_that_has_not_started_cannot_time_out() {
    let mut life = Life::of(plain());
    let token = life.assign();
    assert_eq!(life.act_late(Intent::TimeOut(token)), invalid(StateName::Assigned));
}

#[test]
fn an_assigned_task_is_taken_back_only_when_the_store_says_so() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.elapsed = Elapsed { lease: true, execution: true, assignment: false };
    assert_eq!(life.act(Intent::Unassign(token)), Err(Refusal::NotDue));
}

#[test]
fn a_task_that_is_not_started_in_time_is_released_and_withheld_from_nobody() {
    let mut life = Life::of(plain());
    let place = life.task.place;
    let token = life.assign();
    let event = change(life.act_late(Intent::Unassign(token)));
    assert!(matches!(event, Event::Released { due_at: None, withheld: None, settled: None }));
    assert_eq!((life.task.state.clone(), life.task.place), (State::READY, place));
}

#[test]
fn a_running_task_is_not_taken_back_for_a_late_start() {
    let mut life = Life::of(plain());
    let token = life.run();
    assert_eq!(life.act_late(Intent::Unassign(token)), invalid(StateName::Running));
}
