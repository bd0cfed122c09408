//! Waiting raises a task, at claim and exactly (S9).

use std::time::Duration;

use tasklane_core::{Aging, EventKind, Order, Priority, QueueSettings, TaskId, Weights};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, hours, millis, secs};
use crate::conformance::scene::Scene;

fn aging(order: Order) -> QueueSettings {
    QueueSettings { order, ..QueueSettings::default() }
}

/// Submits a low task, waits, submits one of `rival` a moment before, and claims both.
fn low_against<F: Fixture>(scene: &Scene<'_, F>, rival: Priority, waited: Duration) -> [TaskId; 2] {
    let old = scene.submit(draft("a").priority(Priority::Low));
    scene.pass(waited.saturating_sub(millis(1)));
    let young = scene.submit(draft("b").priority(rival));
    scene.pass(millis(1));
    let claimed = scene.claim_ids(scene.worker(), 2);
    assert!(claimed.contains(&old) && claimed.contains(&young));
    let first_is_old = claimed[0] == old;
    if first_is_old { [old, young] } else { [young, old] }
}

/// Whether a low task that waited so long went before a younger one of `rival`.
fn low_wins<F: Fixture>(scene: &Scene<'_, F>, rival: Priority, waited: Duration) -> bool {
    let [first, _] = low_against(scene, rival, waited);
    scene.task(first).spec.priority == Priority::Low
}

pub fn a_low_task_counts_as_normal_from_600_seconds(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert!(!low_wins(&scene, Priority::Normal, secs(600) - millis(1)));
    assert!(low_wins(&scene, Priority::Normal, secs(600)));
}

pub fn a_low_task_counts_as_high_from_1200_seconds(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert!(!low_wins(&scene, Priority::High, secs(1_200) - millis(1)));
    assert!(low_wins(&scene, Priority::High, secs(1_200)));
}

pub fn a_low_task_counts_as_critical_from_3600_seconds(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert!(!low_wins(&scene, Priority::Critical, secs(3_600) - millis(1)));
    assert!(low_wins(&scene, Priority::Critical, secs(3_600)));
}

pub fn every_base_reaches_a_level_after_the_same_wait(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let bases = [Priority::Normal, Priority::Low, Priority::High];
    let old = scene.submit_all(bases.map(|base| draft("a").priority(base)));
    scene.pass(secs(1_199));
    let young = scene.submit(draft("a").priority(Priority::High));
    let worker = scene.worker();
    assert_eq!(scene.claim_ids(worker, 1), [old[2]], "the two others still count as normal");
    scene.pass(secs(1));
    assert_eq!(scene.claim_ids(worker, 4), [old[0], old[1], young]);
}

pub fn equals_by_age_go_by_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let normal = scene.submit(draft("a"));
    scene.pass(secs(1));
    let low = scene.submit(draft("b").priority(Priority::Low));
    scene.pass(secs(1));
    let later = scene.submit(draft("c"));
    scene.pass(secs(600));
    assert_eq!(scene.claim_ids(scene.worker(), 10), [normal, low, later]);
}

pub fn a_claim_above_the_base_is_told_before_it(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").priority(Priority::Low));
    scene.pass(secs(1_200));
    let head = scene.head();
    scene.claim_one(scene.worker());
    let told: Vec<_> = scene.notices(head).into_iter().map(|n| (n.kind, n.priority)).collect();
    let promoted = (EventKind::Promoted, Priority::High);
    assert_eq!(told, [promoted, (EventKind::Claimed, Priority::Low)]);
    assert_eq!(scene.task(id).spec.priority, Priority::Low, "nothing is rewritten");
}

pub fn a_claim_at_its_base_is_no_promotion(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").priority(Priority::High));
    scene.pass(secs(3_599));
    scene.claim_one(scene.worker());
    assert_eq!(scene.kinds(id), [EventKind::Submitted, EventKind::Claimed]);
}

pub fn waiting_counts_through_retries(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let old = scene.submit(draft("a").priority(Priority::Low));
    scene.fail(&scene.claim_one(worker));
    scene.pass(secs(599));
    let young = scene.submit(draft("b"));
    scene.pass(secs(1));
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 2), [old, young]);
}

pub fn waiting_starts_at_the_scheduled_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let old = scene.submit(draft("a").priority(Priority::Low).after(secs(600)));
    scene.pass(secs(1_000));
    scene.maintain();
    let young = scene.submit(draft("b"));
    assert_eq!(scene.claim_ids(scene.worker(), 2), [young, old]);
}

pub fn an_operators_retry_waits_anew(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a").priority(Priority::Low));
    scene.pass(secs(900));
    scene.retry(id);
    scene.pass(secs(599));
    let young = scene.submit(draft("b"));
    assert_eq!(scene.claim_ids(scene.worker(), 2), [young, id]);
}

pub fn a_queue_may_age_in_its_own_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let fast = Aging::new(Some(secs(10)), None, Some(secs(20))).unwrap();
    scene.configure("default", aging(Order::Aging(fast)));
    assert!(!low_wins(&scene, Priority::Normal, secs(10) - millis(1)));
    assert!(low_wins(&scene, Priority::Normal, secs(10)));
    assert!(!low_wins(&scene, Priority::High, secs(20) - millis(1)));
    assert!(low_wins(&scene, Priority::Critical, secs(20)));
}

pub fn aging_that_is_off_never_promotes(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", aging(Order::Aging(Aging::OFF)));
    assert!(!low_wins(&scene, Priority::Normal, hours(1_000)));
}

pub fn another_order_counts_for_tasks_that_wait_already(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", aging(Order::Aging(Aging::OFF)));
    let old = scene.submit(draft("a").priority(Priority::Low));
    scene.pass(secs(700));
    let young = scene.submit(draft("a"));
    scene.configure("default", QueueSettings::default());
    assert_eq!(scene.claim_ids(scene.worker(), 2), [old, young]);
}

pub fn a_clock_that_steps_back_makes_nothing_older(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let low = scene.submit(draft("a").priority(Priority::Low));
    scene.set_wall(scene.now().minus(hours(5)));
    let normal = scene.submit(draft("a"));
    assert_eq!(scene.claim_ids(scene.worker(), 2), [normal, low]);
    assert_eq!(scene.kinds(low), [EventKind::Submitted, EventKind::Claimed]);
}

pub fn a_weighted_queue_serves_every_priority_by_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let even = Weights::new(1, 1, 1, 1).unwrap();
    scene.configure("default", aging(Order::Weighted(even)));
    for _ in 0..100 {
        scene.submit_all(Priority::DESCENDING.map(|priority| draft("a").priority(priority)));
    }
    let worker = scene.worker();
    let claimed = scene.claim_ids(worker, 100);
    assert_eq!(claimed.len(), 100);
    let tasks: Vec<_> = claimed.iter().map(|id| scene.task(*id)).collect();
    for priority in Priority::DESCENDING {
        let drawn = tasks.iter().filter(|task| task.spec.priority == priority);
        let places: Vec<_> = drawn.map(|task| task.place).collect();
        assert!(places.is_sorted(), "by place inside {priority}");
        assert!(!places.is_empty(), "{priority} is never drawn only once in 10^12 runs");
    }
}

pub fn a_weighted_queue_serves_what_there_is_and_promotes_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", aging(Order::Weighted(Weights::default())));
    let ids = scene.submit_all(["a"; 20].map(|name| draft(name).priority(Priority::Low)));
    scene.pass(hours(2));
    assert_eq!(scene.claim_ids(scene.worker(), 100), ids);
    assert_eq!(scene.kinds(ids[0]), [EventKind::Submitted, EventKind::Claimed]);
}
