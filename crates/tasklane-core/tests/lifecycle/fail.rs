//! What a failed attempt leads to (S11, S12).

use std::time::Duration;

use tasklane_core::{DeadReason, ErrorKind, Event, Failure, NewTask, Outcome, State, StateName};

use crate::life::{Life, change, plain, secs};

/// How many retries follow when every attempt fails.
fn retries(kind: ErrorKind, max_retries: u32) -> u32 {
    let mut life = Life::of(NewTask { max_retries: Some(max_retries), ..plain() });
    let mut retries = 0;
    while let Event::Retrying { .. } = life.fail(kind) {
        retries += 1;
        life.come_due();
    }
    assert_eq!(life.state(), StateName::DeadLetter);
    assert_eq!(life.task.counts.attempts, retries + 1);
    retries
}

/// The delays before the first three retries.
fn delays(kind: ErrorKind) -> [u64; 3] {
    let mut life = Life::of(plain());
    [(); 3].map(|()| {
        life.fail(kind);
        let delay = life.task.state.due_at().unwrap().since(life.now);
        life.come_due();
        delay.as_secs()
    })
}

/// The timeouts of the second to fourth attempt.
fn timeouts(kind: ErrorKind, first: Duration) -> [f64; 3] {
    let mut life = Life::of(NewTask { timeout: Some(first), ..plain() });
    [(); 3].map(|()| {
        life.fail(kind);
        life.come_due();
        life.task.timeout.as_secs_f64()
    })
}

fn dead_reason(life: &Life) -> DeadReason {
    match life.task.state {
        State::DeadLetter { reason, .. } | State::Failed { reason, .. } => reason,
        _ => panic!("{}", life.state()),
    }
}

#[test]
fn a_failed_attempt_is_retried_while_failures_do_not_exceed_max_retries() {
    for max_retries in 0..=5 {
        assert_eq!(retries(ErrorKind::Transient, max_retries), max_retries);
    }
}

#[test]
fn each_kind_bounds_the_retries_whatever_max_retries_says() {
    let allowed = ErrorKind::ALL.map(|kind| retries(kind, 100));
    // Transient, rate limited, timeout, resource, unknown, permanent, bug.
    assert_eq!(allowed, [5, 5, 3, 3, 3, 0, 0]);
}

#[test]
fn a_kind_does_not_raise_max_retries() {
    assert_eq!(retries(ErrorKind::Transient, 2), 2);
    assert_eq!(retries(ErrorKind::Timeout, 1), 1);
}

#[test]
fn failures_of_other_kinds_count_against_the_bound_of_a_kind() {
    let mut life = Life::of(plain());
    for _ in 0..3 {
        life.fail(ErrorKind::Transient);
        life.come_due();
    }
    life.fail(ErrorKind::Resource);
    assert_eq!(life.state(), StateName::DeadLetter);
}

#[test]
fn the_reason_tells_exhausted_retries_from_a_failure_that_allows_none() {
    let mut life = Life::of(NewTask { max_retries: Some(0), ..plain() });
    life.fail(ErrorKind::Transient);
    assert_eq!(dead_reason(&life), DeadReason::RetriesExhausted);
    for kind in [ErrorKind::Permanent, ErrorKind::Bug] {
        let mut life = Life::of(plain());
        life.fail(kind);
        assert_eq!(dead_reason(&life), DeadReason::NotRetryable);
    }
}

#[test]
fn a_worker_that_forbids_the_retry_wins_over_the_kind() {
    let mut life = Life::of(plain());
    life.run();
    let failure = Failure::new(ErrorKind::Transient, "no luck").not_retryable();
    life.settle(Outcome::Failed { failure, retry_after: Some(secs(1)) }).unwrap();
    assert_eq!(life.state(), StateName::DeadLetter);
    assert_eq!(dead_reason(&life), DeadReason::NotRetryable);
}

#[test]
fn without_dead_letters_a_task_ends_as_failed() {
    let mut life = Life::of(NewTask { dead_letter: Some(false), ..plain() });
    let event = life.fail(ErrorKind::Permanent);
    assert!(matches!(event, Event::Failed(_)));
    assert_eq!(life.state(), StateName::Failed);
}

#[test]
fn the_backoff_grows_from_one_retry_to_the_next() {
    assert_eq!(delays(ErrorKind::Transient), [1, 2, 4]);
}

#[test]
fn rate_limited_doubles_the_delay() {
    assert_eq!(delays(ErrorKind::RateLimited), [2, 4, 8]);
}

#[test]
fn retry_after_wins_over_the_backoff_and_its_bound() {
    for kind in [ErrorKind::Transient, ErrorKind::RateLimited] {
        let mut life = Life::of(plain());
        life.run();
        let failure = Failure::new(kind, "later");
        life.settle(Outcome::Failed { failure, retry_after: Some(secs(1_000)) }).unwrap();
        assert_eq!(life.task.state.due_at(), Some(life.now.plus(secs(1_000))));
    }
}

#[test]
fn a_timeout_or_resource_failure_grows_the_timeout_by_half() {
    for kind in [ErrorKind::Timeout, ErrorKind::Resource] {
        assert_eq!(timeouts(kind, secs(100)), [150.0, 225.0, 337.5]);
    }
}

#[test]
fn other_failures_leave_the_timeout() {
    for kind in [ErrorKind::Transient, ErrorKind::RateLimited, ErrorKind::Unknown] {
        assert_eq!(timeouts(kind, secs(100)), [100.0; 3]);
    }
}

#[test]
fn the_timeout_grows_to_one_hour_at_most() {
    assert_eq!(timeouts(ErrorKind::Timeout, secs(2_000)), [3_000.0, 3_600.0, 3_600.0]);
}

#[test]
fn a_timeout_above_one_hour_is_not_shortened() {
    assert_eq!(timeouts(ErrorKind::Timeout, secs(7_200)), [7_200.0; 3]);
}

#[test]
fn a_retry_keeps_the_place_and_waits_for_the_next_attempt() {
    let mut life = Life::of(plain());
    let place = life.task.place;
    life.pass(secs(50));
    life.fail(ErrorKind::Transient);
    assert_eq!((life.state(), life.task.place), (StateName::Retrying, place));
    life.come_due();
    assert_eq!((life.state(), life.task.place), (StateName::Pending, place));
    assert_eq!(life.task.attempt(), 2);
}

#[test]
fn the_task_shows_the_failure_without_details_and_stack_and_the_event_has_them() {
    let mut life = Life::of(plain());
    life.run();
    let failure = Failure::new(ErrorKind::Transient, "no luck")
        .with_code("E1")
        .with_details("{}".into())
        .with_stack("main");
    let event =
        change(life.settle(Outcome::Failed { failure: failure.clone(), retry_after: None }));
    assert_eq!(event.failure().map(|kept| &**kept), Some(&failure));
    assert_eq!(life.task.error.as_deref(), Some(&failure.summary()));
}
