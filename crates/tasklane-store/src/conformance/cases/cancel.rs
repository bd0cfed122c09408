//! Withdrawing tasks (S10).

use tasklane_core::{
    CancelReason, ErrorKind, EventKind, Intent, Outcome, Progress, Refusal, State, StateName,
    TaskId,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{done, draft, failed, secs};
use crate::conformance::scene::{Held, Scene};

fn reason<F: Fixture>(scene: &Scene<'_, F>, id: TaskId) -> CancelReason {
    match scene.task(id).state {
        State::Cancelled { reason, ended } => {
            assert_eq!(ended.at, scene.now());
            reason
        }
        state => panic!("not cancelled but {state:?}"),
    }
}

/// A running task whose worker has been asked to stop.
fn asked<F: Fixture>(scene: &Scene<'_, F>) -> Held {
    scene.submit(draft("a").timeout(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.cancel(held.id);
    held
}

pub fn a_task_that_nobody_holds_is_cancelled_at_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let retrying = scene.submit(draft("a").ordered_by("k"));
    scene.fail(&scene.claim_one(scene.worker()));
    let blocked = scene.submit(draft("a").ordered_by("k"));
    let scheduled = scene.submit(draft("a").after(secs(60)));
    let pending = scene.submit(draft("a"));
    let ids = [blocked, pending, scheduled, retrying];
    for id in ids {
        let changed = scene.cancel(id);
        assert_eq!((changed.state, changed.cancel_requested), (StateName::Cancelled, false));
        assert_eq!(reason(&scene, id), CancelReason::Requested);
        assert_eq!(scene.kinds(id).last(), Some(&EventKind::Cancelled));
    }
    scene.pass(secs(100));
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 10), []);
}

pub fn the_worker_of_a_leased_task_is_asked(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(1));
    let changed = scene.cancel(id);
    assert_eq!((changed.state, changed.cancel_requested), (StateName::Running, true));
    let task = scene.task(id);
    let lease = task.state.lease().unwrap();
    assert_eq!(lease.cancel_requested.unwrap().at, scene.now());
    assert_eq!(lease.token, held.token);
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::CancelRequested));
}

pub fn asking_twice_is_asking_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = asked(&scene);
    scene.pass(secs(1));
    let before = scene.snapshot();
    let again = scene.cancel(held.id);
    assert_eq!((again.cancel_requested, again.repeated), (true, true));
    assert_eq!(scene.snapshot(), before);
}

pub fn the_worker_learns_it_from_every_answer(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a"].map(draft));
    let held = [scene.assign(worker), scene.assign(worker)];
    scene.cancel(ids[1]);
    assert_eq!(scene.renew_all(worker).cancel, [ids[1]]);
    let these = crate::Leases::These(vec![held[1].lease(), held[0].lease()]);
    let renewed = scene.renew(worker, these).unwrap();
    assert_eq!((renewed.held, renewed.cancel), (2, vec![ids[1]]));
    assert!(!scene.start(&held[0]).cancel_requested);
    assert!(scene.start(&held[1]).cancel_requested);
    let progress = Intent::Progress(held[1].token, Progress::default());
    assert!(scene.command(ids[1], progress).unwrap().cancel_requested);
}

pub fn a_worker_that_stops_as_asked_cancels_the_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = asked(&scene);
    let changed = scene.settle(&held, Outcome::Cancelled).unwrap();
    assert_eq!(changed.state, StateName::Cancelled);
    assert_eq!(reason(&scene, held.id), CancelReason::Requested);
}

pub fn a_failure_or_release_after_the_request_cancels(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let delay = Some(secs(5));
    let outcomes = [
        failed(ErrorKind::Transient),
        failed(ErrorKind::Bug),
        Outcome::Released { delay: None },
        Outcome::Released { delay },
    ];
    for outcome in outcomes {
        let held = asked(&scene);
        let changed = scene.settle(&held, outcome).unwrap();
        assert_eq!(changed.state, StateName::Cancelled);
        assert_eq!(reason(&scene, held.id), CancelReason::Requested);
        assert_eq!(scene.task(held.id).counts.attempts, 0);
    }
}

pub fn a_completion_that_comes_first_wins(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = asked(&scene);
    assert_eq!(scene.settle(&held, done("1")).unwrap().state, StateName::Completed);
    assert_eq!(scene.stored(held.id).unwrap().result.unwrap(), "1");
}

pub fn the_end_of_the_lease_cancels(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.claim_one(scene.worker());
    scene.cancel(id);
    scene.pass(secs(29));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.pass(secs(1));
    scene.maintain();
    assert_eq!(reason(&scene, id), CancelReason::Requested);
}

pub fn an_execution_timeout_after_the_request_cancels(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = asked(&scene);
    scene.pass(secs(10));
    scene.maintain();
    assert_eq!(reason(&scene, held.id), CancelReason::Requested);
}

pub fn a_start_that_never_comes_after_the_request_cancels(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.assign(worker);
    scene.cancel(id);
    scene.pass(secs(20));
    scene.renew_all(worker);
    scene.pass(secs(10));
    scene.maintain();
    assert_eq!(reason(&scene, id), CancelReason::Requested);
}

pub fn a_requeue_after_the_request_cancels(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = asked(&scene);
    scene.command(held.id, Intent::Requeue).unwrap();
    assert_eq!(reason(&scene, held.id), CancelReason::Requested);
    assert_eq!(scene.settle(&held, done("1")), Err(Refusal::LeaseLost));
}

pub fn a_worker_may_cancel_of_its_own_accord(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.settle(&scene.claim_one(scene.worker()), Outcome::Cancelled).unwrap();
    assert_eq!(reason(&scene, id), CancelReason::Worker);
}

pub fn a_cancelled_task_can_be_revived(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.cancel(id);
    assert_eq!(scene.retry(id).state, StateName::Pending);
    let held = scene.claim_one(scene.worker());
    assert_eq!(scene.task(id).state.lease().unwrap().cancel_requested, None);
    scene.complete(&held);
}
