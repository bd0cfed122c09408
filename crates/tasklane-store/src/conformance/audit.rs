//! What must hold of a store at any time, whatever has happened in it. Checked after every case.

use std::collections::BTreeMap;

use tasklane_core::{EventKind, Lane, Priority, QueueName, StateName, TaskId, Timestamp, trail};

use super::Fixture;
use super::scene::Scene;
use crate::{Cursor, Filter, StoredTask, Subject};

/// Trails compared one by one; `check` looks at the rest.
const TRAILS_MAX: usize = 200;

/// Runs a case and looks for contradictions in what it leaves behind.
pub fn run_case<F: Fixture>(mut fixture: F, case: impl FnOnce(&mut F)) {
    case(&mut fixture);
    let scene = Scene::new(&mut fixture);
    let tasks = scene.list_by(Filter::default(), 1_000, false);
    assert_eq!(scene.ask(|store| store.check()), [], "the store finds no contradiction");
    tallies_equal_the_list(&scene, &tasks);
    workers_hold_what_the_list_shows(&scene, &tasks);
    trails_lead_to_their_tasks(&scene, &tasks);
}

type Tally = ([u64; StateName::COUNT], Option<Timestamp>);

fn tallies_equal_the_list<F: Fixture>(scene: &Scene<'_, F>, tasks: &[StoredTask]) {
    let mut listed: BTreeMap<(Lane, Priority), Tally> = BTreeMap::new();
    let mut depths: BTreeMap<QueueName, u64> = BTreeMap::new();
    for StoredTask { task, .. } in tasks {
        let tally = listed.entry((task.spec.lane.clone(), task.spec.priority)).or_default();
        let state = task.state.name();
        if let Some(count) = tally.0.get_mut(state.index()) {
            *count += 1;
        }
        if state == StateName::Pending {
            let ready_at = task.place.ready_at;
            tally.1 = Some(tally.1.map_or(ready_at, |oldest| oldest.min(ready_at)));
        }
        let depth = depths.entry(task.spec.lane.queue.clone()).or_default();
        *depth += u64::from(state.is_waiting());
    }
    let lanes = scene.stats().lanes.into_iter();
    let counted: BTreeMap<_, Tally> = lanes
        .filter(|lane| lane.counts.iter().any(|count| *count > 0))
        .map(|lane| ((lane.lane, lane.priority), (lane.counts, lane.oldest_ready_at)))
        .collect();
    assert_eq!(counted, listed, "stats count what the list shows");
    for state in scene.ask(|store| store.queues()) {
        let listed = depths.remove(&state.queue).unwrap_or_default();
        assert_eq!(state.depth, listed, "the depth of {} is what waits in it", state.queue);
    }
    assert!(depths.is_empty(), "queues with tasks are known: {depths:?}");
}

fn workers_hold_what_the_list_shows<F: Fixture>(scene: &Scene<'_, F>, tasks: &[StoredTask]) {
    for worker in scene.ask(|store| store.workers()) {
        let leases = tasks.iter().filter_map(|stored| stored.task.state.lease());
        let held = leases.filter(|lease| lease.worker == worker.id).count();
        assert_eq!(worker.leases as usize, held, "leases of worker {}", worker.id);
    }
}

fn trails_lead_to_their_tasks<F: Fixture>(scene: &Scene<'_, F>, tasks: &[StoredTask]) {
    let feed = feed_by_task(scene);
    for StoredTask { task, .. } in tasks.iter().take(TRAILS_MAX) {
        let trail = scene.trail(task.id);
        assert_eq!(&trail.task, task, "a trail shows the task as it is");
        if trail.cut {
            continue;
        }
        let admission = trail.admitted.admission;
        let replayed = trail::replay(task.id, trail.admitted.spec, admission, &trail.entries);
        match replayed {
            Ok(replayed) => {
                assert!(trail::agrees(task, &replayed), "replay gives {replayed:?}, not {task:?}");
            }
            Err(illegal) => assert_eq!(Err(illegal), Ok(()), "the trail of {task:?} replays"),
        }
        let told = feed.get(&task.id).map(Vec::as_slice).unwrap_or_default();
        let entries: Vec<_> =
            trail.entries.iter().map(|entry| (entry.stamp.at, entry.event.kind())).collect();
        // Older events may have been pruned.
        if told.first() == entries.first() {
            assert_eq!(told, entries, "the feed tells what the trail of {} tells", task.id);
        }
    }
}

/// What the feed tells of each task, progress apart, which a trail does not keep.
fn feed_by_task<F: Fixture>(scene: &Scene<'_, F>) -> BTreeMap<TaskId, Vec<(Timestamp, EventKind)>> {
    let mut feed: BTreeMap<TaskId, Vec<(Timestamp, EventKind)>> = BTreeMap::new();
    for event in scene.follow(Cursor::OLDEST, 1_000) {
        if let Subject::Task(notice) = event.subject
            && notice.kind != EventKind::Progressed
        {
            feed.entry(notice.id).or_default().push((event.at, notice.kind));
        }
    }
    feed
}
