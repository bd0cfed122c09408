//! What the worker that holds a task may say, and what a worker that does not may not.

use std::time::Duration;

use tasklane_core::lifecycle::{Decision, Repeat, repeated};
use tasklane_core::{
    ErrorKind, Intent, LeaseToken, Outcome, Progress, Refusal, StateName, Withheld, limits,
};

use crate::life::{Life, RELEASED, completed, failed, invalid, plain, secs, worker};

const fn released(seconds: u64) -> Outcome {
    Outcome::Released { delay: Some(secs(seconds)) }
}

#[test]
fn a_start_makes_an_assigned_task_run() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.pass(secs(3));
    life.act(Intent::Start(token)).unwrap();
    assert_eq!(life.state(), StateName::Running);
    let started = life.task.state.lease().unwrap().started.unwrap();
    assert_eq!(started.at, life.now);
}

#[test]
fn starting_twice_is_harmless() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.act(Intent::Start(token)).unwrap();
    let before = life.task.clone();
    life.pass(secs(3));
    assert_eq!(life.act(Intent::Start(token)), Ok(Decision::Nothing));
    assert_eq!(life.task, before);
}

#[test]
fn an_assigned_task_cannot_complete_or_fail_or_report() {
    let mut life = Life::of(plain());
    let token = life.assign();
    for outcome in [completed("{}"), failed(ErrorKind::Transient)] {
        assert_eq!(life.settle(outcome), invalid(StateName::Assigned));
    }
    let report = Intent::Progress(token, Progress::default());
    assert_eq!(life.act(report), invalid(StateName::Assigned));
}

#[test]
fn an_assigned_task_can_be_given_back_or_cancelled() {
    for (outcome, to) in
        [(RELEASED, StateName::Pending), (Outcome::Cancelled, StateName::Cancelled)]
    {
        let mut life = Life::of(plain());
        life.assign();
        life.settle(outcome).unwrap();
        assert_eq!(life.state(), to);
    }
}

#[test]
fn progress_carries_the_time_of_the_store() {
    let mut life = Life::of(plain());
    let token = life.run();
    life.pass(secs(5));
    let progress = Progress::new(Some(12.5), Some(1), Some(8), Some("reading"), None).unwrap();
    life.act(Intent::Progress(token, progress.clone())).unwrap();
    let expected = Progress { updated_at: life.now, ..progress };
    assert_eq!(life.task.progress.as_deref(), Some(&expected));
}

#[test]
fn a_completion_ends_the_task_and_counts_an_attempt() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(completed("{}")).unwrap();
    assert_eq!(life.state(), StateName::Completed);
    assert_eq!((life.task.counts.attempts, life.task.counts.deliveries), (1, 1));
}

#[test]
fn a_stale_token_can_do_nothing() {
    let mut life = Life::of(plain());
    let stale = life.run();
    life.settle(RELEASED).unwrap();
    life.claim(worker(2), true).unwrap();
    let before = life.task.clone();
    for intent in everything_with(stale) {
        assert_eq!(life.act_late(intent), Err(Refusal::LeaseLost));
    }
    assert_eq!(life.task, before);
}

#[test]
fn a_forged_token_can_do_nothing() {
    let mut life = Life::of(plain());
    life.run();
    let before = life.task.clone();
    for intent in everything_with(LeaseToken::from_bytes([0xEE; 16])) {
        assert_eq!(life.act_late(intent), Err(Refusal::LeaseLost));
    }
    assert_eq!(life.task, before);
}

fn everything_with(token: LeaseToken) -> [Intent; 9] {
    [
        Intent::Start(token),
        Intent::Progress(token, Progress::default()),
        Intent::Settle(token, completed("{}")),
        Intent::Settle(token, failed(ErrorKind::Transient)),
        Intent::Settle(token, Outcome::Cancelled),
        Intent::Settle(token, RELEASED),
        Intent::LoseLease(token),
        Intent::TimeOut(token),
        Intent::Unassign(token),
    ]
}

#[test]
fn repeating_a_completion_succeeds_and_another_result_does_not() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(completed("{}")).unwrap();
    let before = life.task.clone();
    assert_eq!(life.settle(completed("{}")), Ok(Decision::Nothing));
    assert_eq!(life.settle(completed("[]")), Err(Refusal::LeaseLost));
    assert_eq!(life.settle(failed(ErrorKind::Bug)), Err(Refusal::LeaseLost));
    assert_eq!(life.task, before);
}

#[test]
fn a_completion_is_not_repeated_with_another_token() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(completed("{}")).unwrap();
    let forged = LeaseToken::from_bytes([0xEE; 16]);
    let intent = Intent::Settle(forged, completed("{}"));
    assert_eq!(life.act(intent), Err(Refusal::LeaseLost));
}

#[test]
fn a_repeated_failure_gets_the_answer_it_got_then_whatever_the_task_is_now() {
    let mut life = Life::of(plain());
    let token = life.run();
    let outcome = failed(ErrorKind::Transient);
    life.settle(outcome.clone()).unwrap();
    let due_at = life.task.state.due_at();
    life.come_due();
    life.run();
    life.settle(completed("")).unwrap();
    let answer = repeated(&life.stored, &token, outcome.digest());
    assert_eq!(answer, Some(Repeat { state: StateName::Retrying, due_at }));
    assert_eq!(repeated(&life.stored, &token, failed(ErrorKind::Bug).digest()), None);
}

#[test]
fn a_release_costs_no_attempt_and_keeps_the_place() {
    let mut life = Life::of(plain());
    let place = life.task.place;
    life.pass(secs(40));
    life.run();
    life.settle(RELEASED).unwrap();
    assert_eq!((life.state(), life.task.place), (StateName::Pending, place));
    assert_eq!((life.task.counts.attempts, life.task.counts.deliveries), (0, 1));
    let withheld = Some(Withheld { worker: worker(1), until: life.now.plus(secs(1)) });
    assert_eq!(life.task.state, tasklane_core::State::Pending { withheld });
}

#[test]
fn a_release_with_a_delay_is_scheduled_and_keeps_the_place() {
    let mut life = Life::of(plain());
    let place = life.task.place;
    life.run();
    life.settle(released(30)).unwrap();
    assert_eq!(life.task.state.due_at(), Some(life.now.plus(secs(30))));
    assert_eq!((life.state(), life.task.place), (StateName::Scheduled, place));
    life.come_due();
    assert_eq!((life.state(), life.task.place), (StateName::Pending, place));
}

#[test]
fn a_release_with_a_delay_withholds_the_task_from_nobody_when_it_is_due() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(released(0)).unwrap();
    life.come_due();
    assert!(life.claim(worker(1), true).is_ok());
}

#[test]
fn delays_and_results_beyond_their_bounds_are_refused() {
    let mut life = Life::of(plain());
    life.run();
    let long = limits::SCHEDULE_AHEAD_MAX + Duration::from_micros(1);
    let failure = tasklane_core::Failure::new(ErrorKind::Transient, "");
    let large = vec![b' '; limits::PAYLOAD_BYTES_MAX + 1];
    let fields = [
        Outcome::Released { delay: Some(long) },
        Outcome::Failed { failure, retry_after: Some(long) },
        Outcome::Completed(large.into()),
    ]
    .map(|outcome| match life.settle(outcome) {
        Err(Refusal::Invalid(invalid)) => invalid.field,
        other => panic!("{other:?}"),
    });
    assert_eq!(fields, ["delay_seconds", "retry_after_seconds", "result"]);
    assert_eq!(life.state(), StateName::Running);
}
