//! What is left when the store is opened again (S1, S7).

use tasklane_core::{
    EventKind, Intent, Order, Pinned, Priority, QueueSettings, StateName, TaskId, Update, Weights,
    WorkerState,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, hours, millis, secs, taking};
use crate::conformance::scene::Scene;
use crate::{Cursor, Filter};

/// Opens the store again. `false` if it keeps nothing, which is then shown to be so.
fn survives<F: Fixture>(scene: &mut Scene<'_, F>) -> bool {
    let kept = scene.differences().survives_reopen;
    scene.reopen();
    if !kept {
        assert_eq!(scene.list(Filter::default()), []);
        assert!(scene.ask(|store| store.queues()).is_empty());
        assert!(scene.ask(|store| store.workers()).is_empty());
    }
    kept
}

pub fn everything_visible_is_as_before(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all((0..9).map(|_| draft("a").payload("[1]").labelled("tenant", "acme")));
    let held = scene.claim(worker, 5);
    scene.assign(worker);
    scene.complete(&held[0]);
    scene.fail(&held[1]);
    scene.kill(&held[2]);
    scene.cancel(held[3].id);
    scene.submit(draft("b").after(hours(1)).expires_after(hours(2)));
    scene.submit_all(["b", "b"].map(|name| draft(name).ordered_by("k").queue("other")));
    let before = scene.snapshot();
    let trail = scene.trail(held[2].id);
    let events = scene.follow(Cursor::OLDEST, 1_000);
    if !survives(&mut scene) {
        return;
    }
    assert_eq!(scene.snapshot(), before);
    assert_eq!(scene.trail(held[2].id), trail);
    assert_eq!(scene.follow(Cursor::OLDEST, 1_000), events);
    scene.reopen();
    assert_eq!(scene.snapshot(), before, "opening writes nothing");
}

pub fn the_order_of_claims_is_as_before(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.worker();
    let tasks = |n: usize| {
        let priority = Priority::DESCENDING[n % 4];
        draft(["a", "b", "c"][n % 3]).priority(priority)
    };
    let ids = scene.submit_all((0..12).map(tasks));
    let released = scene.claim_one(worker);
    scene.release(&released, None);
    let mut expected: Vec<TaskId> = ids;
    expected.sort_by_key(|id| std::cmp::Reverse(scene.task(*id).spec.priority));
    scene.pass(secs(1));
    if survives(&mut scene) {
        let later = scene.submit(draft("a").priority(Priority::Low));
        expected.push(later);
        assert_eq!(scene.claim_ids(worker, 20), expected);
    }
}

pub fn a_lease_is_still_good(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a", "a"].map(draft));
    let held = scene.claim(worker, 2);
    let assigned = scene.assign(worker);
    if survives(&mut scene) {
        assert_eq!(scene.renew_all(worker).held, 3);
        scene.start(&assigned);
        scene.complete(&held[0]);
        scene.fail(&held[1]);
        use StateName::{Completed, Retrying, Running};
        assert_eq!(scene.states(&ids), [Completed, Retrying, Running]);
    }
}

pub fn leases_start_anew_where_their_clock_does(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.claim_one(scene.worker());
    scene.pass(secs(20));
    if !survives(&mut scene) {
        return;
    }
    let restarts = scene.differences().leases_restart;
    scene.pass(secs(10));
    scene.maintain();
    let expected = if restarts { StateName::Running } else { StateName::Pending };
    assert_eq!(scene.state(id), expected);
    scene.pass(secs(20) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), expected);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Pending);
    assert_eq!(scene.task(id).counts.lease_losses, 1);
}

pub fn execution_timeouts_start_anew_where_their_clock_does(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let id = scene.submit(draft("a").timeout(secs(10)));
    scene.claim_one(scene.worker());
    scene.pass(secs(6));
    if !survives(&mut scene) {
        return;
    }
    scene.pass(secs(4));
    scene.maintain();
    let restarts = scene.differences().leases_restart;
    let expected = if restarts { StateName::Running } else { StateName::Retrying };
    assert_eq!(scene.state(id), expected);
    scene.pass(secs(6));
    scene.maintain();
    let ended = if restarts { StateName::Retrying } else { StateName::Pending };
    assert_eq!(scene.state(id), ended);
}

pub fn a_lost_lease_is_found_after_a_restart(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let ids = scene.submit_all((0..30).map(|_| draft("a")));
    scene.claim(scene.worker(), 30);
    scene.pass(hours(1));
    if survives(&mut scene) {
        scene.pass(secs(30));
        scene.maintain();
        assert_eq!(scene.states(&ids), [StateName::Pending; 30]);
    }
}

pub fn what_came_due_meanwhile_comes_due(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let scheduled = scene.submit(draft("a").after(secs(60)));
    let retrying = scene.submit(draft("a"));
    scene.fail(&scene.claim_one(scene.worker()));
    let expiring = scene.submit(draft("a").expires_after(secs(60)));
    scene.pass(hours(2));
    if survives(&mut scene) {
        scene.maintain();
        use StateName::{Cancelled, Pending};
        let expected = [Pending, Pending, Cancelled];
        assert_eq!(scene.states(&[scheduled, retrying, expiring]), expected);
    }
}

pub fn keys_are_still_known(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let id = scene.submit(draft("a").key("k"));
    if survives(&mut scene) {
        let again = scene.offer_one(draft("a").key("k")).unwrap();
        assert_eq!((again.id, again.replayed), (id, true));
        assert!(scene.offer_one(draft("b").key("k")).is_err());
    } else {
        assert_ne!(scene.submit(draft("a").key("k")), id);
    }
}

pub fn a_repeated_settle_is_still_known(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(scene.worker(), 2);
    scene.complete(&held[0]);
    scene.fail(&held[1]);
    if survives(&mut scene) {
        assert!(scene.complete(&held[0]).repeated);
        assert!(scene.fail(&held[1]).repeated);
    }
}

pub fn a_reader_of_the_feed_goes_on(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    scene.submit_all(["a", "a"].map(draft));
    let cursor = scene.head();
    let id = scene.submit(draft("b"));
    if survives(&mut scene) {
        assert_eq!(scene.head().epoch, cursor.epoch);
        let later = scene.submit(draft("c"));
        let expected = [(id, EventKind::Submitted), (later, EventKind::Submitted)];
        assert_eq!(scene.happened(cursor), expected);
    } else {
        assert!(scene.feed_page(cursor, 10).gap, "what it waited for will never come");
    }
}

pub fn settings_are_kept(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let settings = QueueSettings {
        paused: true,
        order: Order::Weighted(Weights::new(4, 3, 2, 1).unwrap()),
        pinned: Pinned { depth: true, ..Pinned::default() },
        ..QueueSettings::default()
    };
    scene.submit(draft("a"));
    scene.configure("default", settings);
    if survives(&mut scene) {
        assert_eq!(scene.queue_state("default").unwrap().settings, settings);
        assert_eq!(scene.claim_ids(scene.worker(), 1), []);
    }
}

pub fn workers_are_still_known(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.register(taking().having(&["gpu"]).capacity(2));
    let paused = scene.worker();
    scene.direct(paused, crate::Direction::Pause).unwrap();
    scene.submit_all((0..5).map(|_| draft("a").needing(&["gpu"])));
    scene.claim_one(worker);
    let before = scene.find_worker(worker).unwrap();
    if survives(&mut scene) {
        let after = scene.find_worker(worker).unwrap();
        assert_eq!((after.spec, after.leases), (before.spec, 1));
        assert_eq!(scene.find_worker(paused).unwrap().state, WorkerState::Paused);
        assert_eq!(scene.claim(worker, 5).len(), 1, "its capacity counts what it holds");
    }
}

/// The process was down, not the workers.
pub fn a_restart_gives_workers_time_to_be_heard(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.pass(secs(25));
    if survives(&mut scene) && scene.differences().leases_restart {
        scene.pass(secs(10));
        assert_eq!(scene.maintain().dead_workers, 0);
        scene.renew_all(worker);
        scene.pass(secs(30));
        assert_eq!(scene.maintain().dead_workers, 1);
    }
}

pub fn a_line_behind_a_key_goes_on(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let ids = ["a", "b", "c"].map(|name| scene.submit(draft(name).ordered_by("k")));
    let held = scene.claim_one(scene.worker());
    if survives(&mut scene) {
        let last = scene.submit(draft("d").ordered_by("k"));
        scene.complete(&held);
        let worker = scene.worker();
        for id in [ids[1], ids[2], last] {
            let held = scene.claim_one(worker);
            assert_eq!(held.id, id);
            scene.complete(&held);
        }
    }
}

pub fn fences_and_ids_still_rise(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let first = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.command(first, Intent::Requeue).unwrap();
    if survives(&mut scene) {
        assert!(scene.claim_one(scene.worker()).fence > held.fence);
        assert!(scene.submit(draft("a")) > first);
    }
}

pub fn counters_and_depths_are_kept(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let ids = scene.submit_all((0..5).map(|_| draft("a")));
    let update = Update { priority: Some(Priority::Low), ..Update::default() };
    scene.command(ids[3], Intent::Update(update)).unwrap();
    scene.complete(&scene.claim_one(scene.worker()));
    let before = scene.stats();
    if survives(&mut scene) {
        assert_eq!(scene.stats(), before);
        assert_eq!(scene.depth("default"), 4);
    }
}

pub fn a_task_withheld_from_its_worker_still_is(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.release(&scene.claim_one(worker), None);
    if survives(&mut scene) {
        assert_eq!(scene.claim_ids(worker, 1), []);
        scene.pass(secs(1));
        assert_eq!(scene.claim_ids(worker, 1), [id]);
    }
}
