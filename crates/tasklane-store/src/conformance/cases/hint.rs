//! Hints: that something became claimable, how much, and where.

use tasklane_core::{Intent, Lane, QueueSettings, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, secs};
use crate::conformance::scene::Scene;

pub fn the_hint_rises_when_something_becomes_claimable(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let receiver = scene.store().watch();
    let mut last = *receiver.borrow();
    let mut rises = |what: &str| {
        let now = *receiver.borrow();
        assert!(now.claimable > last.claimable, "after {what}");
        assert_eq!(now.last, scene.head().position, "after {what}");
        last = now;
    };
    scene.submit(draft("a"));
    rises("a submission");
    let held = scene.claim_one(scene.worker());
    scene.fail(&held);
    scene.pass(secs(1));
    scene.maintain();
    rises("a backoff");
    let held = scene.claim_one(scene.worker());
    scene.release(&held, None);
    rises("a release");
    scene.claim_one(scene.worker());
    scene.pass(secs(30));
    scene.maintain();
    rises("a lost lease");
    let id = scene.claim_one(scene.worker()).id;
    scene.cancel(id);
    scene.command(id, Intent::Requeue).unwrap();
    assert_eq!(scene.state(id), StateName::Cancelled);
    scene.retry(id);
    rises("an operator's retry");
}

pub fn where_tasks_became_claimable_is_told_or_not_known(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let receiver = scene.store().watch();
    let worker = scene.worker();
    let told = |seen: u64, name: &str| {
        let lanes = scene.store().claimable_since(seen);
        let there = |lanes: Vec<Lane>| lanes.iter().any(|lane| lane.task_type.as_str() == name);
        assert!(lanes.is_none_or(there), "{name}");
    };
    let hint = || receiver.borrow().claimable;
    let start = hint();
    scene.submit(draft("submitted"));
    told(start, "submitted");
    let seen = hint();
    scene.submit(draft("due").after(secs(1)));
    scene.pass(secs(1));
    scene.maintain();
    told(seen, "due");
    let held = scene.claim(worker, 2);
    let seen = hint();
    scene.release(&held[0], None);
    told(seen, "submitted");
    let seen = hint();
    scene.fail(&held[1]);
    scene.pass(secs(5));
    scene.maintain();
    told(seen, "due");
    scene.submit(draft("key").ordered_by("k"));
    scene.submit(draft("key").ordered_by("k"));
    scene.claim(scene.worker(), 2);
    let first = scene.claim_one(worker);
    let seen = hint();
    scene.complete(&first);
    told(seen, "key");
    let seen = hint();
    scene.configure("default", QueueSettings { paused: true, ..Default::default() });
    scene.configure("default", QueueSettings::default());
    told(seen, "key");
    told(start, "submitted");
}

pub fn the_hint_rises_by_as_many_as_became_claimable(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let receiver = scene.store().watch();
    let mut last = receiver.borrow().claimable;
    let mut rises = |by: u64, what: &str| {
        let now = receiver.borrow().claimable;
        assert!(now - last >= by, "after {what}: {} instead of {by}", now - last);
        last = now;
    };
    scene.submit_all((0..7).map(|_| draft("a")));
    rises(7, "a submission");
    scene.submit_all((0..5).map(|_| draft("a").after(secs(9))));
    scene.pass(secs(9));
    scene.maintain();
    rises(5, "coming due");
    let settings = QueueSettings::default();
    let paused = QueueSettings { paused: true, ..settings };
    scene.configure("default", paused);
    rises(0, "a pause");
    scene.configure("default", settings);
    rises(12, "its end");
}
