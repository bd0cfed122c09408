//! Attempts that run too long (S11).

use tasklane_core::{ErrorKind, EventKind, Intent, Refusal, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{done, draft, failed, hours, millis, secs};
use crate::conformance::scene::Scene;

pub fn an_attempt_fails_when_its_time_is_over_and_not_before(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(10) - millis(1));
    assert_eq!(scene.maintain().changed, 0);
    assert_eq!(scene.command(id, Intent::TimeOut(held.token)), Err(Refusal::NotDue));
    scene.pass(millis(1));
    assert_eq!(scene.maintain().changed, 1);
    let task = scene.task(id);
    assert_eq!(task.state.name(), StateName::Retrying);
    assert_eq!(task.state.due_at(), Some(scene.now().plus(secs(1))));
    assert_eq!(task.error.unwrap().kind, ErrorKind::Timeout);
    assert_eq!(task.counts.attempts, 1);
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::Retrying));
}

pub fn the_time_starts_when_the_task_does(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    let held = scene.assign(scene.worker());
    scene.pass(secs(9));
    scene.start(&held);
    scene.pass(secs(10) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Retrying);
}

pub fn heartbeats_do_not_prolong_the_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a").timeout(secs(55)));
    scene.claim_one(worker);
    for _ in 0..5 {
        scene.pass(secs(10));
        scene.renew_all(worker);
        scene.maintain();
        assert_eq!(scene.state(id), StateName::Running);
    }
    scene.pass(secs(5));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Retrying);
}

pub fn what_comes_after_the_timeout_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").timeout(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(10));
    scene.maintain();
    let before = scene.snapshot();
    assert_eq!(scene.settle(&held, done("1")), Err(Refusal::LeaseLost));
    assert_eq!(scene.settle(&held, failed(ErrorKind::Transient)), Err(Refusal::LeaseLost));
    assert_eq!(scene.snapshot(), before);
}

pub fn a_completion_before_maintenance_notices_is_accepted(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(20));
    scene.complete(&held);
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Completed);
}

pub fn the_next_attempt_gets_half_as_much_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(8)));
    for expected in [8, 12, 18] {
        assert_eq!(scene.task(id).timeout, secs(expected));
        scene.claim_one(scene.worker());
        scene.pass(secs(expected) - millis(1));
        assert_eq!(scene.maintain().changed, 0);
        scene.pass(millis(1));
        assert_eq!(scene.maintain().changed, 1);
        scene.pass(secs(4));
        scene.maintain();
    }
}

pub fn the_growth_stops_at_one_hour_and_never_shrinks(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for (timeout, expected) in [(secs(3_000), hours(1)), (hours(2), hours(2))] {
        let id = scene.submit(draft("a").timeout(timeout));
        let held = scene.claim_one(scene.worker());
        scene.settle(&held, failed(ErrorKind::Resource)).unwrap();
        assert_eq!(scene.task(id).timeout, expected);
    }
}

pub fn other_failures_leave_the_time_as_it_is(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    scene.fail(&scene.claim_one(scene.worker()));
    assert_eq!(scene.task(id).timeout, secs(10));
}

pub fn a_task_that_times_out_every_time_is_dead_after_three_retries(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(1)).retries(50));
    for _ in 0..4 {
        scene.claim_one(scene.worker());
        scene.pass(secs(5));
        scene.maintain();
        scene.pass(secs(5));
        scene.maintain();
    }
    let task = scene.task(id);
    assert_eq!((task.state.name(), task.counts.attempts), (StateName::DeadLetter, 4));
    assert_eq!(task.error.unwrap().kind, ErrorKind::Timeout);
}

pub fn a_revived_task_has_its_first_time_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    scene.settle(&scene.claim_one(scene.worker()), failed(ErrorKind::Resource)).unwrap();
    assert_eq!(scene.task(id).timeout, secs(15));
    scene.cancel(id);
    scene.retry(id);
    assert_eq!(scene.task(id).timeout, secs(10));
}

pub fn stepping_the_wall_clock_does_not_time_out_on_a_steady_clock(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    scene.claim_one(scene.worker());
    scene.set_wall(scene.now().plus(secs(20)));
    scene.maintain();
    let steady = scene.differences().leases_restart;
    let expected = if steady { StateName::Running } else { StateName::Retrying };
    assert_eq!(scene.state(id), expected);
}
