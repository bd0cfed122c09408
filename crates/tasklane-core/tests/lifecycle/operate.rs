//! What operators may do (S4, S8).

use tasklane_core::{
    ErrorKind, Event, Intent, Metadata, NewTask, OrderingKey, Outcome, Place, Priority, Progress,
    Refusal, Sequence, State, StateName, Update, When, limits,
};

use crate::life::{Life, START, change, completed, invalid, plain, secs};

const RETRY: Intent = Intent::Retry { reset_attempts: false, priority: None };
const RESET: Intent = Intent::Retry { reset_attempts: true, priority: None };

/// A task that failed for good.
fn dead(task: NewTask) -> Life {
    let mut life = Life::of(task);
    life.fail(ErrorKind::Permanent);
    life
}

fn keyed() -> NewTask {
    NewTask { ordering_key: Some(OrderingKey::new("customer 7").unwrap()), ..plain() }
}

fn scheduled() -> NewTask {
    NewTask { schedule: Some(When::After(secs(60))), ..plain() }
}

fn rescheduled(seconds: u64) -> Update {
    Update { scheduled_at: Some(START.plus(secs(seconds))), ..Update::default() }
}

#[test]
fn every_end_without_success_can_be_retried() {
    let mut cancelled = Life::of(plain());
    cancelled.act(Intent::Cancel).unwrap();
    let failed = dead(NewTask { dead_letter: Some(false), ..plain() });
    for mut life in [dead(plain()), failed, cancelled] {
        life.act(RETRY).unwrap();
        assert_eq!((life.state(), life.task.counts.replays), (StateName::Pending, 1));
    }
}

#[test]
fn a_completed_or_live_task_cannot_be_retried() {
    let mut life = Life::of(plain());
    assert_eq!(life.act(RETRY), invalid(StateName::Pending));
    life.run();
    assert_eq!(life.act(RETRY), invalid(StateName::Running));
    life.settle(completed("")).unwrap();
    assert_eq!(life.act(RETRY), invalid(StateName::Completed));
}

#[test]
fn an_operator_retry_gets_a_new_place() {
    let mut life = dead(plain());
    life.pass(secs(500));
    life.act(RETRY).unwrap();
    let sequence = Sequence(4);
    assert_eq!(life.task.place, Place { ready_at: START.plus(secs(500)), sequence });
}

#[test]
fn an_operator_retry_keeps_the_attempts_unless_they_are_reset() {
    for (intent, attempts) in [(RETRY, 1), (RESET, 0)] {
        let mut life = dead(plain());
        life.act(intent).unwrap();
        assert_eq!((life.task.counts.attempts, life.task.counts.deliveries), (attempts, 1));
    }
}

#[test]
fn reset_attempts_give_all_retries_back_and_kept_ones_a_single_attempt() {
    let exhausted = || {
        let mut life = Life::of(NewTask { max_retries: Some(1), ..plain() });
        life.fail(ErrorKind::Transient);
        life.come_due();
        life.fail(ErrorKind::Transient);
        assert_eq!(life.state(), StateName::DeadLetter);
        life
    };
    for (intent, state) in [(RETRY, StateName::DeadLetter), (RESET, StateName::Retrying)] {
        let mut life = exhausted();
        life.act(intent).unwrap();
        life.fail(ErrorKind::Transient);
        assert_eq!(life.state(), state);
    }
}

#[test]
fn an_operator_retry_forgets_lost_leases_progress_and_the_grown_timeout() {
    let mut life = Life::of(plain());
    life.lose_lease();
    life.fail(ErrorKind::Timeout);
    life.come_due();
    life.lose_lease();
    let token = life.run();
    life.act(Intent::Progress(token, Progress::default())).unwrap();
    life.act(Intent::Cancel).unwrap();
    life.act_late(Intent::LoseLease(token)).unwrap();
    assert_eq!((life.task.timeout, life.task.counts.lease_losses), (secs(150), 1));
    assert!(life.task.progress.is_some());
    life.act(RETRY).unwrap();
    assert_eq!((life.task.timeout, life.task.counts.lease_losses), (secs(100), 0));
    assert_eq!(life.task.progress, None);
}

#[test]
fn an_operator_retry_clears_an_expiry_that_has_passed_and_keeps_one_to_come() {
    for (waited, kept) in [(9, true), (10, false)] {
        let mut life = dead(NewTask { expires: Some(When::After(secs(10))), ..plain() });
        life.pass(secs(waited));
        life.act(RETRY).unwrap();
        assert_eq!(life.task.expires_at.is_some(), kept);
    }
}

#[test]
fn an_operator_retry_may_change_the_priority() {
    let mut life = dead(plain());
    let priority = Some(Priority::Critical);
    life.act(Intent::Retry { reset_attempts: false, priority }).unwrap();
    assert_eq!(life.task.spec.priority, Priority::Critical);
}

#[test]
fn an_operator_retry_is_blocked_while_its_ordering_key_is_not_free() {
    for (task, key_free, state) in [
        (keyed(), false, StateName::Blocked),
        (keyed(), true, StateName::Pending),
        (plain(), false, StateName::Pending),
    ] {
        let mut life = dead(task);
        life.key_free = key_free;
        life.act(RETRY).unwrap();
        assert_eq!(life.state(), state);
    }
}

#[test]
fn an_operator_retry_does_not_wait_for_the_schedule_even_from_behind_its_key() {
    for key_free in [true, false] {
        let mut life = Life::of(NewTask { schedule: Some(When::After(secs(60))), ..keyed() });
        life.act(Intent::Cancel).unwrap();
        life.key_free = key_free;
        life.act(RETRY).unwrap();
        if !key_free {
            life.unblock().unwrap();
        }
        assert_eq!((life.state(), life.task.place.ready_at), (StateName::Pending, START));
    }
}

#[test]
fn a_requeue_takes_a_task_from_its_worker_and_keeps_its_place() {
    for auto_start in [false, true] {
        let mut life = Life::of(plain());
        let place = life.task.place;
        life.claim(crate::life::worker(1), auto_start).unwrap();
        assert_eq!(change(life.act(Intent::Requeue)), Event::Requeued);
        assert_eq!((life.task.state.clone(), life.task.place), (State::READY, place));
        assert_eq!(life.task.counts.attempts, 0);
    }
}

#[test]
fn a_requeue_ends_a_backoff() {
    let mut life = Life::of(plain());
    life.fail(ErrorKind::Transient);
    life.act(Intent::Requeue).unwrap();
    assert_eq!((life.state(), life.task.counts.attempts), (StateName::Pending, 1));
}

#[test]
fn nothing_else_can_be_requeued() {
    for mut life in
        [Life::of(plain()), Life::of(scheduled()), Life::blocked(plain()), dead(plain())]
    {
        assert_eq!(life.act(Intent::Requeue), invalid(life.state()));
    }
}

#[test]
fn a_live_task_takes_another_priority_and_labels_and_keeps_its_place() {
    let mut running = Life::of(plain());
    running.run();
    let metadata = Metadata::new([("a", "1")]).unwrap();
    let update = Update {
        priority: Some(Priority::High),
        metadata: Some(metadata.clone()),
        scheduled_at: None,
    };
    for mut life in [Life::of(plain()), Life::of(scheduled()), Life::blocked(plain()), running] {
        let (state, place) = (life.task.state.clone(), life.task.place);
        life.act(Intent::Update(update.clone())).unwrap();
        assert_eq!(
            (life.task.spec.priority, &life.task.spec.metadata),
            (Priority::High, &metadata)
        );
        assert_eq!((life.task.state, life.task.place), (state, place));
    }
}

#[test]
fn a_scheduled_task_can_be_given_another_time_and_with_it_another_place() {
    let mut life = Life::of(scheduled());
    life.act(Intent::Update(rescheduled(90))).unwrap();
    let due_at = START.plus(secs(90));
    assert_eq!(life.task.state, State::Scheduled { due_at });
    assert_eq!(life.task.place, Place { ready_at: due_at, sequence: Sequence(2) });
}

#[test]
fn another_time_in_the_past_means_at_once_and_gains_no_place() {
    let mut life = Life::of(scheduled());
    life.pass(secs(30));
    life.act(Intent::Update(rescheduled(10))).unwrap();
    life.act(Intent::ComeDue).unwrap();
    assert_eq!((life.state(), life.task.place.ready_at), (StateName::Pending, life.now));
}

#[test]
fn only_a_scheduled_task_can_be_given_another_time() {
    let mut running = Life::of(plain());
    running.run();
    for mut life in [Life::of(plain()), Life::blocked(plain()), running] {
        assert_eq!(life.act(Intent::Update(rescheduled(90))), invalid(life.state()));
    }
}

#[test]
fn another_time_is_at_most_five_years_ahead() {
    let mut life = Life::of(scheduled());
    let years = limits::SCHEDULE_AHEAD_MAX.as_secs();
    let refused = life.act(Intent::Update(rescheduled(years + 1)));
    assert!(matches!(refused, Err(Refusal::Invalid(e)) if e.field == "scheduled_at"));
    assert!(life.act(Intent::Update(rescheduled(years))).is_ok());
}

#[test]
fn an_update_must_say_something_and_meet_a_live_task() {
    let empty = Life::of(plain()).act(Intent::Update(Update::default()));
    assert!(matches!(empty, Err(Refusal::Invalid(e)) if e.field == "update"));
    let update = Update { priority: Some(Priority::Low), ..Update::default() };
    assert_eq!(dead(plain()).act(Intent::Update(update)), invalid(StateName::DeadLetter));
}

#[test]
fn only_what_has_ended_can_be_discarded() {
    let mut life = Life::of(plain());
    assert_eq!(life.act(Intent::Discard), invalid(StateName::Pending));
    life.run();
    assert_eq!(life.act(Intent::Discard), invalid(StateName::Running));
    life.settle(Outcome::Cancelled).unwrap();
    assert_eq!(change(life.act(Intent::Discard)), Event::Discarded);
    assert_eq!(life.state(), StateName::Cancelled);
}
