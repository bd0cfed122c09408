//! How a task comes into its store.

use tasklane_core::lifecycle::{admit, check_admission};
use tasklane_core::{
    Event, Invalid, NewTask, Place, Policies, SeededRandom, Sequence, Stamp, StateName, TaskId,
    Timestamp, When, limits,
};

use crate::life::{Life, START, plain, secs};

fn checked(task: NewTask) -> Result<(), Invalid> {
    check_admission(&task.resolve(&Policies::default()).unwrap(), START)
}

fn admission_event(task: NewTask, blocked: bool) -> Event {
    let draft = task.resolve(&Policies::default()).unwrap();
    let id = TaskId::generate(0, 0, &mut SeededRandom::new(0));
    admit(draft, id, Stamp { at: START, sequence: Sequence(1) }, blocked).1
}

fn scheduled(when: When) -> NewTask {
    NewTask { schedule: Some(when), ..plain() }
}

fn scheduled_and_expiring(due: When, expires: When) -> NewTask {
    NewTask { schedule: Some(due), expires: Some(expires), ..plain() }
}

fn expiring(when: When) -> NewTask {
    NewTask { expires: Some(when), ..plain() }
}

#[test]
fn a_task_without_a_schedule_is_pending_at_once() {
    let life = Life::of(plain());
    assert_eq!(life.state(), StateName::Pending);
    assert_eq!(life.task.place, Place { ready_at: START, sequence: Sequence(1) });
    assert_eq!(admission_event(plain(), false), Event::Submitted);
}

#[test]
fn a_task_for_later_is_scheduled_and_its_place_is_its_time() {
    let due_at = START.plus(secs(60));
    for when in [When::At(due_at), When::After(secs(60))] {
        let life = Life::of(scheduled(when));
        assert_eq!(life.task.state.due_at(), Some(due_at));
        assert_eq!(life.task.place, Place { ready_at: due_at, sequence: Sequence(1) });
        assert_eq!(admission_event(scheduled(when), false), Event::Scheduled);
    }
}

#[test]
fn a_schedule_in_the_past_means_at_once_and_gains_no_place() {
    let life = Life::of(scheduled(When::At(START.minus(secs(60)))));
    assert_eq!(life.state(), StateName::Pending);
    assert_eq!(life.task.place.ready_at, START);
}

#[test]
fn a_task_behind_its_ordering_key_is_blocked_even_if_it_is_for_later() {
    let task = scheduled(When::After(secs(60)));
    assert_eq!(Life::blocked(plain()).state(), StateName::Blocked);
    assert_eq!(Life::blocked(task.clone()).state(), StateName::Blocked);
    assert_eq!(admission_event(task, true), Event::Submitted);
}

#[test]
fn an_unblocked_task_becomes_pending_with_the_place_of_that_moment() {
    let mut life = Life::blocked(plain());
    life.pass(secs(9));
    life.unblock().unwrap();
    assert_eq!(life.state(), StateName::Pending);
    let place = Place { ready_at: START.plus(secs(9)), sequence: Sequence(2) };
    assert_eq!(life.task.place, place);
}

#[test]
fn a_task_unblocked_before_its_time_is_scheduled() {
    let mut life = Life::blocked(scheduled(When::After(secs(60))));
    life.pass(secs(9));
    life.unblock().unwrap();
    assert_eq!(life.task.state.due_at(), Some(START.plus(secs(60))));
    assert_eq!(life.task.place.ready_at, START.plus(secs(60)));
}

#[test]
fn a_task_unblocked_after_its_time_is_pending() {
    let mut life = Life::blocked(scheduled(When::After(secs(60))));
    life.pass(secs(61));
    life.unblock().unwrap();
    assert_eq!(life.state(), StateName::Pending);
    assert_eq!(life.task.place.ready_at, START.plus(secs(61)));
}

#[test]
fn a_schedule_may_be_five_years_ahead_and_no_more() {
    let horizon = START.plus(limits::SCHEDULE_AHEAD_MAX);
    let beyond = horizon.plus(secs(1));
    assert_eq!(checked(scheduled(When::At(horizon))), Ok(()));
    assert_eq!(checked(scheduled(When::At(beyond))).unwrap_err().field, "scheduled_at");
    let delay = limits::SCHEDULE_AHEAD_MAX + secs(1);
    assert_eq!(checked(scheduled(When::After(delay))).unwrap_err().field, "scheduled_at");
    assert_eq!(checked(scheduled(When::At(Timestamp::MAX))).unwrap_err().field, "scheduled_at");
}

#[test]
fn an_expiry_must_lie_in_the_next_five_years() {
    let horizon = START.plus(limits::SCHEDULE_AHEAD_MAX);
    assert_eq!(checked(expiring(When::After(secs(1)))), Ok(()));
    assert_eq!(checked(expiring(When::At(horizon))), Ok(()));
    for at in [START.minus(secs(1)), START, horizon.plus(secs(1))] {
        assert_eq!(checked(expiring(When::At(at))).unwrap_err().field, "expires_at");
    }
}

#[test]
fn an_expiry_must_lie_behind_the_schedule() {
    let task = |expires| scheduled_and_expiring(When::After(secs(60)), When::After(expires));
    assert_eq!(checked(task(secs(61))), Ok(()));
    for expires in [secs(59), secs(60)] {
        assert_eq!(checked(task(expires)).unwrap_err().field, "expires_at");
    }
    let past = When::At(START.minus(secs(60)));
    assert_eq!(checked(scheduled_and_expiring(past, When::After(secs(1)))), Ok(()));
}
