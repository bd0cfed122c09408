//! Later, not after, and clocks that step (S7).

use tasklane_core::{
    CancelReason, EventKind, Intent, Invalid, Refusal, State, StateName, TaskId, Update,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{days, draft, hours, millis, secs};
use crate::conformance::scene::Scene;

fn expired<F: Fixture>(scene: &Scene<'_, F>, id: TaskId) -> bool {
    matches!(scene.task(id).state, State::Cancelled { reason: CancelReason::Expired, .. })
}

fn move_to(scheduled_at: tasklane_core::Timestamp) -> Intent {
    Intent::Update(Update { scheduled_at: Some(scheduled_at), ..Update::default() })
}

pub fn a_delay_counts_from_the_stores_own_clock(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let taken = scene.offer_one(draft("a").after(secs(90))).unwrap();
    assert_eq!(taken.state, StateName::Scheduled);
    let task = scene.task(taken.id);
    let due_at = scene.now().plus(secs(90));
    assert_eq!(task.state, State::Scheduled { due_at });
    assert_eq!((task.admission.scheduled_at, task.place.ready_at), (Some(due_at), due_at));
}

pub fn a_scheduled_task_comes_due_at_its_time_and_not_before(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").at(scene.now().plus(secs(10))));
    scene.pass(secs(10) - millis(1));
    assert_eq!(scene.maintain().changed, 0);
    assert_eq!(scene.claim_ids(scene.worker(), 1), []);
    scene.pass(millis(1));
    assert_eq!(scene.maintain().changed, 1);
    assert_eq!(scene.kinds(id), [EventKind::Scheduled, EventKind::Due]);
    assert_eq!(scene.claim_ids(scene.worker(), 1), [id]);
}

pub fn time_alone_changes_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").after(secs(1)));
    scene.submit(draft("b").retries(1));
    scene.fail(&scene.claim_one(scene.worker()));
    let before = scene.snapshot();
    scene.pass(secs(100));
    assert_eq!(scene.overdue(100).commands.len(), 2);
    assert_eq!(scene.claim_ids(scene.worker(), 10), []);
    let after = scene.snapshot();
    assert_eq!(after.tasks, before.tasks);
}

pub fn a_task_cannot_come_due_early(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(10)).expires_after(secs(60)));
    let before = scene.snapshot();
    assert_eq!(scene.command(id, Intent::ComeDue), Err(Refusal::NotDue));
    assert_eq!(scene.command(id, Intent::Expire), Err(Refusal::NotDue));
    assert_eq!(scene.snapshot(), before);
}

pub fn a_clock_that_steps_back_fires_nothing_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(10)));
    scene.pass(secs(10));
    scene.maintain();
    let head = scene.head();
    scene.set_wall(scene.now().minus(hours(1)));
    scene.maintain();
    scene.set_wall(scene.now().plus(hours(1)));
    scene.maintain();
    assert_eq!(scene.happened(head), []);
    assert_eq!(scene.claim_ids(scene.worker(), 10), [id]);
}

pub fn a_clock_that_steps_back_postpones_what_is_scheduled(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(10)));
    scene.set_wall(scene.now().minus(hours(1)));
    scene.pass(secs(10));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Scheduled);
    scene.pass(hours(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn a_clock_that_steps_forward_fires_what_is_due_at_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let scheduled = scene.submit(draft("a").after(days(20)));
    let expiring = scene.submit(draft("a").expires_after(days(20)));
    scene.set_wall(scene.now().plus(days(20)));
    scene.maintain();
    assert_eq!(scene.state(scheduled), StateName::Pending);
    assert!(expired(&scene, expiring));
}

pub fn a_task_scheduled_far_ahead_is_delivered_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(days(2)));
    for _ in 0..48 {
        scene.pass(hours(1));
        assert_eq!(scene.claim_ids(scene.worker(), 1), []);
        scene.maintain();
    }
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.task(id).counts.deliveries, 1);
    assert_eq!(scene.claim_ids(scene.worker(), 1), []);
}

pub fn more_than_a_slice_comes_due_in_one_round(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..2_500).map(|_| draft("a").after(secs(5))));
    scene.pass(secs(5));
    assert_eq!(scene.maintain().changed, 2_500);
    let worker = scene.worker();
    let claimed: Vec<_> = (0..5).flat_map(|_| scene.claim_ids(worker, 500)).collect();
    assert_eq!(claimed, ids, "in the order of submission");
}

pub fn a_scheduled_task_can_be_moved(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(10)));
    let later = scene.now().plus(secs(60));
    scene.command(id, move_to(later)).unwrap();
    assert_eq!(scene.task(id).state, State::Scheduled { due_at: later });
    assert_eq!(scene.place(id).ready_at, later);
    scene.pass(secs(10));
    assert_eq!(scene.maintain().changed, 0);
    scene.command(id, move_to(scene.now().plus(secs(1)))).unwrap();
    scene.pass(secs(1));
    assert_eq!(scene.maintain().changed, 1);
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn a_task_moved_into_the_past_is_due_at_once_and_gains_no_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(10)));
    scene.command(id, move_to(scene.now().minus(hours(9)))).unwrap();
    assert_eq!(scene.place(id).ready_at, scene.now());
    assert_eq!(scene.maintain().changed, 1);
    assert_eq!(scene.claim_ids(scene.worker(), 1), [id]);
}

pub fn only_a_scheduled_task_can_be_moved(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let pending = scene.submit(draft("a"));
    let scheduled = scene.submit(draft("a").after(secs(1)));
    let before = scene.snapshot();
    let refused = scene.command(pending, move_to(scene.now()));
    assert_eq!(refused, Err(Refusal::InvalidState { current: StateName::Pending }));
    let far = scene.now().plus(days(6 * 366));
    let refused = scene.command(scheduled, move_to(far));
    let expected = Invalid::out_of_range("scheduled_at", "at most five years ahead");
    assert_eq!(refused, Err(Refusal::Invalid(expected)));
    assert_eq!(scene.snapshot(), before);
}

pub fn every_waiting_task_expires_at_its_time_and_not_before(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let short = || draft("a").expires_after(secs(60));
    let retrying = scene.submit(short().ordered_by("k"));
    scene
        .settle(
            &scene.claim_one(scene.worker()),
            tasklane_core::Outcome::Failed {
                failure: tasklane_core::Failure::new(tasklane_core::ErrorKind::Transient, "later"),
                retry_after: Some(hours(1)),
            },
        )
        .unwrap();
    let ids = [
        retrying,
        scene.submit(short().ordered_by("k")),
        scene.submit(short()),
        scene.submit(short().after(secs(30))),
    ];
    scene.command(ids[3], move_to(scene.now().plus(hours(1)))).unwrap();
    use StateName::{Blocked, Cancelled, Pending, Retrying, Scheduled};
    scene.pass(secs(60) - millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids), [Retrying, Blocked, Pending, Scheduled]);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids), [Cancelled; 4]);
    assert!(ids.into_iter().all(|id| expired(&scene, id)));
}

pub fn an_expired_task_is_never_handed_out(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").expires_after(secs(10)));
    let second = scene.submit(draft("a"));
    scene.pass(secs(10));
    assert_eq!(scene.claim_ids(scene.worker(), 1), [second], "it takes nobody's turn");
    assert!(expired(&scene, first), "the claim that met it ended it");
    assert_eq!(scene.kinds(first), [EventKind::Submitted, EventKind::Cancelled]);
}

pub fn a_queue_full_of_expired_tasks_hides_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..300).map(|_| draft("a").expires_after(secs(10))));
    let last = scene.submit(draft("a"));
    scene.pass(secs(10));
    assert_eq!(scene.claim_ids(scene.worker(), 5), [last]);
    scene.maintain();
    assert_eq!(scene.count(StateName::Cancelled), 300);
}

pub fn a_leased_task_does_not_expire(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").expires_after(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(20));
    assert_eq!(scene.maintain().changed, 0);
    let refused = scene.command(id, Intent::Expire);
    assert_eq!(refused, Err(Refusal::InvalidState { current: StateName::Running }));
    scene.complete(&held);
}

pub fn a_task_given_back_after_its_time_expires(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").expires_after(secs(10)));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(20));
    scene.release(&held, None);
    scene.maintain();
    assert!(expired(&scene, id));
}

pub fn a_revived_task_does_not_expire_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").expires_after(secs(10)));
    scene.pass(secs(10));
    scene.maintain();
    scene.retry(id);
    assert_eq!(scene.task(id).expires_at, None);
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 1), [id]);
}
