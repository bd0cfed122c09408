//! Counters. That they equal what a list counts is audited after every case.

use tasklane_core::{Aging, Intent, Order, Priority, QueueSettings, StateName, Update};

use crate::LaneStats;
use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, hours, secs};
use crate::conformance::scene::Scene;

fn lane<F: Fixture>(scene: &Scene<'_, F>, name: &str, priority: Priority) -> Option<LaneStats> {
    let lanes = scene.stats().lanes.into_iter();
    let wanted =
        |lane: &LaneStats| lane.lane.task_type.as_str() == name && lane.priority == priority;
    lanes.filter(|lane| lane.counts.iter().sum::<u64>() > 0).find(wanted)
}

pub fn tasks_are_counted_by_state(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit(draft("a").after(hours(1)));
    scene.submit_all((0..9).map(|_| draft("a")));
    let held = scene.claim(worker, 6);
    scene.assign(worker);
    scene.complete(&held[0]);
    scene.fail(&held[1]);
    scene.kill(&held[2]);
    scene.cancel(scene.submit(draft("a")));
    scene.submit(draft("a").ordered_by("k"));
    scene.submit(draft("a").ordered_by("k"));
    scene.dead(draft("urgent").without_dead_letter().priority(Priority::Critical));
    let counts = StateName::ALL.map(|state| scene.count(state));
    assert_eq!(counts, [1, 1, 3, 1, 3, 1, 1, 1, 1, 1]);
}

pub fn lanes_and_priorities_are_counted_apart(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all([draft("a"), draft("a"), draft("b"), draft("a").priority(Priority::High)]);
    let pending = |name, priority| {
        lane(&scene, name, priority).map(|lane| lane.counts[StateName::Pending.index()])
    };
    assert_eq!(pending("a", Priority::Normal), Some(2));
    assert_eq!(pending("b", Priority::Normal), Some(1));
    assert_eq!(pending("a", Priority::High), Some(1));
    assert_eq!(pending("b", Priority::High), None);
}

pub fn another_priority_is_counted_where_it_belongs(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let update = Update { priority: Some(Priority::High), ..Update::default() };
    scene.command(id, Intent::Update(update)).unwrap();
    assert_eq!(lane(&scene, "a", Priority::Normal), None);
    let counted = lane(&scene, "a", Priority::High).unwrap();
    assert_eq!(counted.counts[StateName::Pending.index()], 1);
    assert_eq!(counted.oldest_ready_at, Some(scene.now()));
}

pub fn the_oldest_pending_place_is_shown(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let oldest = || lane(&scene, "a", Priority::Normal).unwrap().oldest_ready_at;
    let start = scene.now();
    scene.submit(draft("a"));
    scene.pass(secs(5));
    scene.submit(draft("a"));
    assert_eq!(oldest(), Some(start));
    let held = scene.claim_one(scene.worker());
    assert_eq!(oldest(), Some(start.plus(secs(5))));
    scene.claim_one(scene.worker());
    assert_eq!(oldest(), None);
    scene.release(&held, None);
    assert_eq!(oldest(), Some(start));
}

pub fn what_has_waited_most_of_its_bound_is_starving(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let starving = || scene.stats().lanes.iter().map(|lane| lane.starving).sum::<u64>();
    scene.submit_all([draft("a"), draft("a"), draft("b").priority(Priority::Low)]);
    scene.submit(draft("a").priority(Priority::Critical));
    scene.pass(secs(100));
    scene.submit(draft("a"));
    // Four fifths of an hour.
    scene.pass(secs(2_780));
    assert_eq!(starving(), 0);
    scene.pass(secs(1));
    assert_eq!(starving(), 3, "nothing passes over a critical task");
    assert_eq!(lane(&scene, "a", Priority::Normal).unwrap().starving, 2);
    scene.pass(secs(100));
    assert_eq!(starving(), 4);
    scene.configure("default", QueueSettings { order: Order::Aging(Aging::OFF), ..default() });
    assert_eq!(starving(), 0, "what nothing bounds is not near its bound");
    scene.configure("default", default());
    scene.claim(scene.worker(), 5);
    assert_eq!(starving(), 0);
}

fn default() -> QueueSettings {
    QueueSettings::default()
}

pub fn stats_tell_the_stores_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.stats().now, scene.now());
    scene.pass(secs(5));
    assert_eq!(scene.stats().now, scene.now());
}

pub fn a_lane_that_is_emptied_counts_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.completed(draft("a"));
    scene.command(id, Intent::Discard).unwrap();
    assert!(StateName::ALL.iter().all(|state| scene.count(*state) == 0));
    assert_eq!(scene.depth("default"), 0);
}
