//! A task's own history (S17). That trails lead to their tasks is audited after every case.

use tasklane_core::{
    Event, EventKind, Intent, Outcome, Priority, Progress, Stamp, Update, limits, trail,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, secs};
use crate::conformance::scene::Scene;

use EventKind::{
    CancelRequested, Cancelled, Claimed, Completed, DeadLettered, Due, LeaseLost, Released,
    Replayed, Requeued, Retrying, Scheduled, Started, Submitted, Unblocked, Updated,
};

fn kinds<F: Fixture>(scene: &Scene<'_, F>, id: tasklane_core::TaskId) -> Vec<EventKind> {
    scene.trail(id).entries.iter().map(|entry| entry.event.kind()).collect()
}

pub fn a_plain_life_leaves_a_plain_trail(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.pass(secs(1));
    let held = scene.assign(scene.worker());
    scene.pass(secs(1));
    scene.start(&held);
    scene.pass(secs(1));
    scene.complete(&held);
    let entries = scene.trail(id).entries;
    let told: Vec<_> = entries.iter().map(|entry| entry.event.kind()).collect();
    assert_eq!(told, [Submitted, Claimed, Started, Completed]);
    let stamps: Vec<Stamp> = entries.iter().map(|entry| entry.stamp).collect();
    assert!(stamps.is_sorted_by(|a, b| a.sequence < b.sequence && a.at < b.at), "{stamps:?}");
}

pub fn an_eventful_life_is_told_whole(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k"));
    let id = scene.submit(draft("b").ordered_by("k").after(secs(5)).retries(2));
    scene.cancel(first);
    scene.pass(secs(5));
    scene.maintain();
    scene.release(&scene.claim_one(scene.worker()), None);
    scene.claim_one(scene.worker());
    scene.pass(secs(30));
    scene.maintain();
    let held = scene.assign(scene.worker());
    scene.start(&held);
    scene.fail(&held);
    let update = Update { priority: Some(Priority::High), ..Update::default() };
    scene.command(id, Intent::Update(update)).unwrap();
    scene.command(id, Intent::Requeue).unwrap();
    scene.kill(&scene.claim_one(scene.worker()));
    scene.retry(id);
    let held = scene.claim_one(scene.worker());
    scene.cancel(id);
    scene.settle(&held, Outcome::Cancelled).unwrap();
    let expected = [
        Submitted,
        Unblocked,
        Due,
        Claimed,
        Released,
        Claimed,
        LeaseLost,
        Claimed,
        Started,
        Retrying,
        Updated,
        Requeued,
        Claimed,
        DeadLettered,
        Replayed,
        Claimed,
        CancelRequested,
        Cancelled,
    ];
    assert_eq!(kinds(&scene, id), expected);
    assert_eq!(scene.kinds(id), expected, "and the feed tells the same");
}

pub fn a_scheduled_life_begins_with_its_schedule(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").after(secs(1)));
    scene.pass(secs(1));
    scene.maintain();
    assert_eq!(kinds(&scene, id), [Scheduled, Due]);
}

pub fn a_trail_shows_the_task_as_it_was_admitted(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").priority(Priority::Low));
    let admitted = scene.task(id);
    let update = Update { priority: Some(Priority::High), ..Update::default() };
    scene.command(id, Intent::Update(update)).unwrap();
    scene.fail(&scene.claim_one(scene.worker()));
    let trail = scene.trail(id);
    assert_eq!(trail.admitted, admitted);
    assert_eq!(trail.task, scene.task(id));
    assert!(!trail.cut);
}

pub fn progress_is_not_kept_in_the_trail(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let progress = Progress { percent: Some(1.0), ..Progress::default() };
    scene.command(id, Intent::Progress(held.token, progress)).unwrap();
    assert_eq!(kinds(&scene, id), [Submitted, Claimed]);
    assert_eq!(scene.kinds(id), [Submitted, Claimed, EventKind::Progressed]);
}

pub fn an_update_keeps_the_lease_and_is_told(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let metadata = tasklane_core::Metadata::new([("tenant", "acme")]).unwrap();
    let update = Update { metadata: Some(metadata.clone()), ..Update::default() };
    scene.command(id, Intent::Update(update)).unwrap();
    assert_eq!(scene.task(id).spec.metadata, metadata);
    scene.complete(&held);
    assert_eq!(kinds(&scene, id), [Submitted, Claimed, Updated, Completed]);
}

pub fn replaying_a_trail_gives_the_task_at_every_point(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").retries(1));
    let mut seen = vec![scene.task(id)];
    scene.fail(&scene.claim_one(scene.worker()));
    seen.push(scene.task(id));
    scene.pass(secs(1));
    scene.maintain();
    seen.push(scene.task(id));
    let held = scene.claim_one(scene.worker());
    seen.push(scene.task(id));
    scene.complete(&held);
    seen.push(scene.task(id));
    let told = scene.trail(id);
    for (task, length) in seen.iter().zip([1, 3, 4, 5, 6]) {
        let spec = told.admitted.spec.clone();
        let entries = &told.entries[..length];
        let replayed = trail::replay(id, spec, told.admitted.admission, entries).unwrap();
        assert!(trail::agrees(task, &replayed), "{task:?} is not {replayed:?}");
    }
}

pub fn an_endless_trail_is_cut_and_says_so(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let workers = [scene.worker(), scene.worker()];
    for n in 0..600 {
        scene.release(&scene.claim_one(workers[n % 2]), None);
    }
    let trail = scene.trail(id);
    assert!(trail.cut);
    assert!(trail.entries.len() <= limits::TRAIL_ENTRIES_MAX + 1, "{}", trail.entries.len());
    assert!(trail.entries.len() >= limits::TRAIL_ENTRIES_MAX / 2);
    assert_eq!(trail.entries[0].event, Event::Submitted);
    let last = trail.entries.last().unwrap();
    assert_eq!(last.event.kind(), EventKind::Released);
    assert!(trail.entries.is_sorted_by_key(|entry| entry.stamp.sequence));
    assert_eq!(scene.task(id).counts.deliveries, 600);
}
