//! What a claim gives, and to whom not.

use tasklane_core::lifecycle::Claim;
use tasklane_core::{
    Event, Intent, NewTask, Order, Outcome, Priority, Progress, StateName, Weights, When,
};

use crate::life::{Life, RELEASED, completed, failed, invalid, plain, secs, worker};

#[test]
fn a_claim_without_auto_start_assigns() {
    let mut life = Life::of(plain());
    let claim = life.claim(worker(1), false).unwrap();
    assert!(matches!(claim.claimed, Event::Claimed { started: false, .. }));
    let lease = *life.task.state.lease().unwrap();
    assert_eq!((life.state(), lease.started), (StateName::Assigned, None));
    assert_eq!((lease.worker, lease.cancel_requested), (worker(1), None));
}

#[test]
fn a_claim_with_auto_start_runs_at_once_by_the_same_event() {
    let mut life = Life::of(plain());
    let claim = life.claim(worker(1), true).unwrap();
    assert!(matches!(
        claim,
        Claim { promoted: None, claimed: Event::Claimed { started: true, .. } }
    ));
    let lease = life.task.state.lease().unwrap();
    assert_eq!((life.state(), lease.started), (StateName::Running, Some(lease.claimed)));
    assert_eq!(life.history.len(), 1);
}

#[test]
fn only_a_pending_task_is_claimed() {
    let scheduled = NewTask { schedule: Some(When::After(secs(60))), ..plain() };
    let mut lives = vec![Life::of(scheduled), Life::blocked(plain())];
    for outcome in [completed(""), failed(tasklane_core::ErrorKind::Bug), Outcome::Cancelled] {
        let mut life = Life::of(plain());
        life.run();
        life.settle(outcome).unwrap();
        lives.push(life);
    }
    for auto_start in [false, true] {
        let mut life = Life::of(plain());
        life.claim(worker(2), auto_start).unwrap();
        lives.push(life);
    }
    for mut life in lives {
        assert_eq!(life.claim(worker(1), true), invalid(life.state()));
    }
}

#[test]
fn a_claim_counts_a_delivery_and_no_attempt() {
    let mut life = Life::of(plain());
    life.run();
    let counts = life.task.counts;
    assert_eq!((counts.deliveries, counts.attempts, life.task.attempt()), (1, 0, 1));
}

#[test]
fn the_fence_rises_even_when_the_clock_steps_back() {
    let mut life = Life::of(plain());
    life.run();
    let first = life.task.fence;
    assert_eq!(first.as_u64(), life.now.as_micros().unsigned_abs());
    life.settle(RELEASED).unwrap();
    life.now = life.now.minus(secs(3_600));
    life.claim(worker(2), true).unwrap();
    assert_eq!(life.task.fence.as_u64(), first.as_u64() + 1);
}

#[test]
fn each_claim_has_a_token_of_its_own() {
    let mut life = Life::of(plain());
    let first = life.run();
    life.settle(RELEASED).unwrap();
    life.pass(secs(1));
    assert_ne!(life.run(), first);
}

#[test]
fn the_releasing_worker_does_not_get_the_task_back_for_one_second() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(RELEASED).unwrap();
    life.pass(secs(1) - std::time::Duration::from_micros(1));
    assert_eq!(life.claim(worker(1), true), invalid(StateName::Pending));
    life.pass(std::time::Duration::from_micros(1));
    assert!(life.claim(worker(1), true).is_ok());
}

#[test]
fn another_worker_gets_a_released_task_at_once() {
    let mut life = Life::of(plain());
    life.run();
    life.settle(RELEASED).unwrap();
    assert!(life.claim(worker(2), true).is_ok());
}

#[test]
fn a_task_past_its_expiry_is_not_claimed_though_nobody_has_cancelled_it_yet() {
    let mut life = Life::of(NewTask { expires: Some(When::After(secs(10))), ..plain() });
    life.pass(secs(10));
    assert_eq!(life.claim(worker(1), true), invalid(StateName::Pending));
    life.now = life.now.minus(secs(1));
    assert!(life.claim(worker(1), true).is_ok());
}

#[test]
fn a_new_claim_clears_the_progress_of_the_last_one() {
    let mut life = Life::of(plain());
    let token = life.run();
    let progress = Progress::new(Some(50.0), None, None, None, None).unwrap();
    life.act(Intent::Progress(token, progress)).unwrap();
    life.settle(RELEASED).unwrap();
    assert!(life.task.progress.is_some());
    life.claim(worker(2), true).unwrap();
    assert_eq!(life.task.progress, None);
}

#[test]
fn a_task_claimed_above_its_base_is_promoted_first() {
    let mut life = Life::of(NewTask { priority: Some(Priority::Low), ..plain() });
    life.pass(secs(1_200));
    let claim = life.claim(worker(1), true).unwrap();
    let (from, to) = (Priority::Low, Priority::High);
    assert_eq!(claim.promoted, Some(Event::Promoted { from, to }));
    assert_eq!(life.task.spec.priority, Priority::Low);
}

#[test]
fn a_task_claimed_at_its_base_is_not_promoted() {
    let mut life = Life::of(NewTask { priority: Some(Priority::High), ..plain() });
    life.pass(secs(1_200));
    assert_eq!(life.claim(worker(1), true).unwrap().promoted, None);
}

#[test]
fn a_weighted_queue_promotes_nothing() {
    let mut life = Life::of(NewTask { priority: Some(Priority::Low), ..plain() });
    life.order = Order::Weighted(Weights::default());
    life.pass(secs(1_000_000));
    assert_eq!(life.claim(worker(1), true).unwrap().promoted, None);
}
