//! What is kept, and for how long (S21).

use tasklane_core::{QueueSettings, Refusal, Retention, StateName, TaskId, WorkerState};

use crate::conformance::Fixture;
use crate::conformance::drafting::{days, draft, hours, secs};
use crate::conformance::scene::Scene;
use crate::{Direction, Filter, Prune, Pruned};

/// Prunes until there is nothing more.
fn prune_all<F: Fixture>(scene: &Scene<'_, F>, prune: Prune) -> Pruned {
    let mut whole = Pruned::default();
    loop {
        let slice = scene.prune(prune);
        whole.add(&slice);
        if !slice.more {
            return whole;
        }
    }
}

fn keeping(retention: Retention) -> QueueSettings {
    QueueSettings { retention: Some(retention), ..QueueSettings::default() }
}

fn cancelled<F: Fixture>(scene: &Scene<'_, F>) -> TaskId {
    let id = scene.submit(draft("a"));
    scene.cancel(id);
    id
}

/// Whether the task is removed after `span` and not a second before.
fn removed_after<F: Fixture>(scene: &Scene<'_, F>, id: TaskId, span: std::time::Duration) {
    let state = scene.state(id);
    scene.pass(span - secs(1));
    assert_eq!(prune_all(scene, Prune::default()).tasks_total(), 0, "{state}");
    assert!(scene.stored(id).is_some());
    scene.pass(secs(1));
    let pruned = prune_all(scene, Prune::default());
    assert_eq!((pruned.tasks[state.index()], pruned.tasks_total()), (1, 1), "{state}");
    assert_eq!(scene.stored(id), None);
}

pub fn completed_tasks_are_kept_a_day(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    removed_after(&scene, scene.completed(draft("a")), days(1));
}

pub fn cancelled_tasks_are_kept_a_day(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    removed_after(&scene, cancelled(&scene), days(1));
}

pub fn failed_tasks_are_kept_seven_days(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    removed_after(&scene, scene.dead(draft("a").without_dead_letter()), days(7));
}

pub fn dead_letters_are_kept_thirty_days(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    removed_after(&scene, scene.dead(draft("a")), days(30));
}

pub fn retention_counts_from_the_end(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.pass(days(9));
    scene.complete(&scene.claim_one(scene.worker()));
    removed_after(&scene, id, days(1));
}

pub fn a_live_task_is_never_pruned(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = [
        scene.submit(draft("a").ordered_by("k")),
        scene.submit(draft("a").ordered_by("k")),
        scene.submit(draft("a").after(days(900))),
    ];
    scene.claim_one(scene.worker());
    scene.pass(days(100));
    let nothing =
        Prune { retention: Retention::NOTHING, override_queues: true, ..Prune::default() };
    assert_eq!(prune_all(&scene, nothing).tasks_total(), 0);
    use StateName::{Blocked, Running, Scheduled};
    assert_eq!(scene.states(&ids), [Running, Blocked, Scheduled]);
}

pub fn a_pruned_task_is_gone(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a"));
    scene.pass(days(30));
    prune_all(&scene, Prune::default());
    assert_eq!(scene.ask(|store| store.trail(id)), None);
    assert_eq!(scene.list(Filter::default()), []);
    assert_eq!(scene.count(StateName::DeadLetter), 0);
    let retry = tasklane_core::Intent::Retry { reset_attempts: true, priority: None };
    assert_eq!(scene.command(id, retry), Err(Refusal::NotFound));
}

pub fn what_is_kept_for_ever_is_kept(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = [scene.completed(draft("a")), scene.dead(draft("a"))];
    scene.pass(days(3_000));
    let forever = Retention { completed: None, ..Retention::NOTHING };
    let pruned = prune_all(&scene, Prune { retention: forever, ..Prune::default() });
    assert_eq!(pruned.tasks_total(), 1);
    assert_eq!(scene.list(Filter::default()), [ids[0]]);
}

pub fn a_queues_own_retention_comes_first(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let short = Retention { completed: Some(secs(60)), ..Retention::default() };
    let long = Retention { completed: None, ..Retention::default() };
    scene.configure("short", keeping(short));
    scene.configure("long", keeping(long));
    let ids = ["short", "long", "usual"].map(|name| scene.completed(draft("a").queue(name)));
    scene.pass(secs(60));
    prune_all(&scene, Prune::default());
    let left = |id: &TaskId| scene.stored(*id).is_some();
    assert_eq!(ids.iter().map(left).collect::<Vec<_>>(), [false, true, true]);
    scene.pass(days(2));
    prune_all(&scene, Prune::default());
    assert_eq!(ids.iter().map(left).collect::<Vec<_>>(), [false, true, false]);
}

pub fn an_emergency_removes_everything_that_has_ended(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let forever = Retention { completed: None, cancelled: None, failed: None, dead_letter: None };
    scene.configure("default", keeping(forever));
    scene.completed(draft("a"));
    scene.dead(draft("a"));
    cancelled(&scene);
    let live = scene.submit(draft("a"));
    assert_eq!(prune_all(&scene, Prune::default()).tasks_total(), 0);
    assert_eq!(prune_all(&scene, Prune::emergency()).tasks_total(), 3);
    assert_eq!(scene.list(Filter::default()), [live]);
}

pub fn pruning_goes_in_slices(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..25).map(|_| draft("a")));
    for held in scene.claim(scene.worker(), 25) {
        scene.complete(&held);
    }
    scene.pass(days(1));
    let mut removed = Vec::new();
    loop {
        let slice = scene.prune(Prune { limit: 10, ..Prune::default() });
        assert!(slice.tasks_total() <= 10);
        removed.push(slice.tasks_total());
        if !slice.more {
            break;
        }
        assert!(slice.tasks_total() > 0, "a slice that says more removes something");
    }
    assert_eq!(removed.iter().sum::<u64>(), 25);
    assert_eq!(scene.count(StateName::Completed), 0);
}

pub fn a_revived_task_is_not_pruned_for_its_former_end(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = cancelled(&scene);
    scene.pass(hours(23));
    scene.retry(id);
    scene.pass(hours(2));
    assert_eq!(prune_all(&scene, Prune::default()).tasks_total(), 0);
    scene.cancel(id);
    scene.pass(hours(23));
    assert_eq!(prune_all(&scene, Prune::default()).tasks_total(), 0);
    scene.pass(hours(1));
    assert_eq!(prune_all(&scene, Prune::default()).tasks_total(), 1);
}

pub fn a_pruned_task_leaves_its_ordering_key_to_others(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.completed(draft("a").ordered_by("k"));
    let ids = ["a", "b"].map(|name| scene.submit(draft(name).ordered_by("k")));
    scene.pass(days(1));
    prune_all(&scene, Prune::default());
    assert_eq!(scene.states(&ids), [StateName::Pending, StateName::Blocked]);
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.state(ids[1]), StateName::Pending);
}

pub fn dead_workers_are_shown_for_an_hour(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.pass(secs(30));
    scene.direct(worker, Direction::DeclareDead).unwrap();
    scene.pass(secs(3_000));
    assert_eq!(scene.prune(Prune::default()).workers, 0);
    assert_eq!(scene.find_worker(worker).unwrap().state, WorkerState::Dead);
    let alive = scene.worker();
    scene.pass(secs(600));
    assert_eq!(scene.prune(Prune::default()).workers, 1);
    assert_eq!(scene.find_worker(worker), None);
    assert!(scene.find_worker(alive).is_some());
}

pub fn pruning_a_clean_store_removes_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.prune(Prune::default()), Pruned::default());
    scene.submit(draft("a").key("k"));
    cancelled(&scene);
    let before = scene.snapshot();
    assert_eq!(scene.prune(Prune::default()), Pruned::default());
    assert_eq!(scene.snapshot(), before);
}

pub fn more_than_a_slice_of_events_and_keys_goes_in_the_end(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for n in 0..50 {
        scene.completed(draft("a").key(&format!("key {n}")));
    }
    scene.pass(days(2));
    let pruned = prune_all(&scene, Prune { limit: 7, ..Prune::default() });
    assert_eq!((pruned.tasks_total(), pruned.idempotency_records), (50, 50));
    // The last event may stay, so that numbers go on from it.
    assert!(scene.follow(crate::Cursor::OLDEST, 100).len() <= 1);
}
