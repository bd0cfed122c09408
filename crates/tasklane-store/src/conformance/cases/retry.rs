//! Failures and the attempts after them (S12).

use std::time::Duration;

use tasklane_core::{
    Backoff, Counts, DeadReason, ErrorKind, EventKind, Failure, Intent, Jitter, Outcome, Priority,
    Refusal, RetryPolicy, State, StateName, TaskId,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{Drafting, backoff, draft, failed, millis, secs};
use crate::conformance::scene::Scene;

/// Fails a task again and again: the delays until it is dead, and why it is.
fn delays<F: Fixture>(
    scene: &Scene<'_, F>,
    task: Drafting,
    kind: ErrorKind,
) -> (Vec<u64>, DeadReason) {
    let id = scene.submit(task);
    let mut delays = Vec::new();
    loop {
        let held = scene.claim_one(scene.worker());
        assert_eq!(held.id, id);
        let changed = scene.settle(&held, failed(kind)).unwrap();
        let Some(due_at) = changed.due_at else { break };
        assert_eq!(scene.task(id).state, State::Retrying { due_at });
        delays.push(due_at.since(scene.now()).as_secs());
        scene.pass(due_at.since(scene.now()));
        scene.maintain();
    }
    (delays, dead_reason(scene, id))
}

fn dead_reason<F: Fixture>(scene: &Scene<'_, F>, id: TaskId) -> DeadReason {
    match scene.task(id).state {
        State::DeadLetter { reason, .. } | State::Failed { reason, .. } => reason,
        state => panic!("not dead but {state:?}"),
    }
}

pub fn delays_double_by_default(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let told = delays(&scene, draft("a").retries(5), ErrorKind::Transient);
    assert_eq!(told, (vec![1, 2, 4, 8, 16], DeadReason::RetriesExhausted));
}

pub fn delays_grow_by_their_strategy_up_to_their_bound(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let of = |strategy| {
        let task = draft("a").retries(5).retry(backoff(strategy, 2, 7));
        delays(&scene, task, ErrorKind::Transient).0
    };
    assert_eq!(of(Backoff::Exponential), [2, 4, 7, 7, 7]);
    assert_eq!(of(Backoff::Linear), [2, 4, 6, 7, 7]);
    assert_eq!(of(Backoff::Fixed), [2, 2, 2, 2, 2]);
}

pub fn rate_limited_failures_wait_twice_as_long(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let told = delays(&scene, draft("a").retries(2), ErrorKind::RateLimited);
    assert_eq!(told, (vec![2, 4], DeadReason::RetriesExhausted));
}

pub fn a_task_fails_once_more_than_it_may_be_retried(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for retries in 0..4 {
        let told = delays(&scene, draft("a").retries(retries), ErrorKind::Transient);
        assert_eq!((told.0.len(), told.1), (retries as usize, DeadReason::RetriesExhausted));
    }
}

pub fn each_kind_allows_its_own_number_of_retries(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let of = |kind| delays(&scene, draft("a").retries(100), kind).0.len();
    assert_eq!(ErrorKind::ALL.map(of), [5, 5, 3, 3, 3, 0, 0]);
}

pub fn what_allows_no_retry_is_dead_at_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let told = delays(&scene, draft("a"), ErrorKind::Permanent);
    assert_eq!(told, (vec![], DeadReason::NotRetryable));
    let id = scene.submit(draft("a"));
    let failure = Failure::new(ErrorKind::Transient, "never again").not_retryable();
    let outcome = Outcome::Failed { failure, retry_after: Some(secs(1)) };
    scene.settle(&scene.claim_one(scene.worker()), outcome).unwrap();
    assert_eq!(dead_reason(&scene, id), DeadReason::NotRetryable);
}

pub fn the_workers_own_wish_for_the_delay_wins(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let wish = |retry_after| {
        let failure = Failure::new(ErrorKind::RateLimited, "slow down");
        let outcome = Outcome::Failed { failure, retry_after: Some(retry_after) };
        scene.settle(&scene.claim_one(scene.worker()), outcome).unwrap().due_at.unwrap()
    };
    assert_eq!(wish(secs(1_000)), scene.now().plus(secs(1_000)));
    scene.command(id, Intent::Requeue).unwrap();
    assert_eq!(wish(Duration::ZERO), scene.now());
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn jitter_blurs_a_delay_by_a_tenth(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let blurred = RetryPolicy::new(Backoff::Fixed, secs(100), 1.0, secs(100), Jitter::Proportional);
    scene.submit_all((0..20).map(|_| draft("a").retry(blurred.clone().unwrap())));
    let held = scene.claim(scene.worker(), 20);
    let due = held.iter().map(|held| scene.fail(held).due_at.unwrap().since(scene.now()));
    let due: Vec<_> = due.collect();
    assert!(due.iter().all(|delay| (secs(90)..=secs(110)).contains(delay)), "{due:?}");
    assert!(due.iter().any(|delay| *delay != due[0]), "{due:?}");
}

pub fn a_retrying_task_waits_for_its_backoff(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.fail(&scene.claim_one(scene.worker()));
    scene.pass(secs(1) - millis(1));
    assert_eq!(scene.maintain().changed, 0);
    assert_eq!(scene.claim_ids(scene.worker(), 1), []);
    scene.pass(millis(1));
    scene.maintain();
    let held = scene.claim_one(scene.worker());
    assert_eq!(scene.task(held.id).attempt(), 2);
    use EventKind::{Claimed, Due, Retrying, Submitted};
    assert_eq!(scene.kinds(id), [Submitted, Claimed, Retrying, Due, Claimed]);
}

pub fn attempts_deliveries_and_losses_are_counted_apart(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").retries(1));
    scene.release(&scene.claim_one(scene.worker()), None);
    for _ in 0..3 {
        scene.claim_one(scene.worker());
        scene.pass(secs(30));
        scene.maintain();
    }
    scene.release(&scene.claim_one(scene.worker()), None);
    assert_eq!(scene.fail(&scene.claim_one(scene.worker())).state, StateName::Retrying);
    let counts = Counts { attempts: 1, deliveries: 6, lease_losses: 0, replays: 0 };
    assert_eq!(scene.task(id).counts, counts);
}

pub fn the_last_error_is_shown_in_short_and_kept_in_full(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let failure = Failure::new(ErrorKind::Resource, "out of memory")
        .with_code("ENOMEM")
        .with_stack("at main:1")
        .with_details(bytes::Bytes::from_static(b"{\"mb\":512}"));
    let outcome = Outcome::Failed { failure: failure.clone(), retry_after: None };
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(2));
    let head = scene.head();
    scene.settle(&held, outcome).unwrap();
    assert_eq!(scene.task(id).error.as_deref(), Some(&failure.summary()));
    let notice = scene.notices(head).remove(0);
    assert_eq!(notice.error.as_deref(), Some(&failure.summary()));
    assert_eq!((notice.duration, notice.attempt), (Some(secs(2)), 1));
    assert_eq!(notice.worker, Some(held.worker));
    let trail = scene.trail(id);
    let kept = trail.entries.last().unwrap().event.failure();
    assert_eq!(kept.map(|kept| &**kept), Some(&failure));
}

pub fn an_operator_may_end_a_backoff(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.fail(&scene.claim_one(scene.worker()));
    assert_eq!(scene.command(id, Intent::Requeue).unwrap().state, StateName::Pending);
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::Requeued));
    scene.pass(secs(1));
    assert_eq!(scene.maintain().changed, 0, "the backoff is forgotten");
    assert_eq!(scene.task(scene.claim_one(scene.worker()).id).attempt(), 2);
}

pub fn an_operator_may_take_a_task_from_its_worker(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.command(id, Intent::Requeue).unwrap();
    assert_eq!(scene.task(id).state, State::READY);
    assert_eq!(scene.settle(&held, failed(ErrorKind::Bug)), Err(Refusal::LeaseLost));
    let next = scene.claim_one(held.worker);
    assert!(next.fence > held.fence);
}

pub fn only_a_held_or_retrying_task_can_be_requeued(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = [
        scene.submit(draft("a").ordered_by("k")),
        scene.submit(draft("a").ordered_by("k")),
        scene.submit(draft("a").after(secs(5))),
    ];
    let before = scene.snapshot();
    for id in ids {
        let current = scene.state(id);
        let refused = scene.command(id, Intent::Requeue);
        assert_eq!(refused, Err(Refusal::InvalidState { current }));
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn a_revived_task_keeps_its_attempts_unless_told_otherwise(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").retries(0));
    scene.fail(&scene.claim_one(scene.worker()));
    scene.retry(id);
    assert_eq!(scene.task(id).counts.attempts, 1);
    scene.fail(&scene.claim_one(scene.worker()));
    assert_eq!(scene.state(id), StateName::DeadLetter);
    let intent = Intent::Retry { reset_attempts: true, priority: Some(Priority::Critical) };
    scene.command(id, intent).unwrap();
    let task = scene.task(id);
    let counts = Counts { attempts: 0, deliveries: 2, lease_losses: 0, replays: 2 };
    assert_eq!((task.counts, task.spec.priority), (counts, Priority::Critical));
}

pub fn a_live_task_cannot_be_revived(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let retry = || Intent::Retry { reset_attempts: false, priority: None };
    let id = scene.submit(draft("a"));
    let refused = |current| Err(Refusal::InvalidState { current });
    assert_eq!(scene.command(id, retry()), refused(StateName::Pending));
    let held = scene.claim_one(scene.worker());
    assert_eq!(scene.command(id, retry()), refused(StateName::Running));
    scene.fail(&held);
    assert_eq!(scene.command(id, retry()), refused(StateName::Retrying));
}
