//! Calls that are under way together, and calls nobody waits for.

use tasklane_core::{Command, Intent, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{done, draft, taking};
use crate::conformance::scene::{Held, Scene};
use crate::{ClaimRequest, Durability, Filter, Submission};

fn one(name: &str) -> Vec<Submission> {
    vec![Submission { tasks: vec![draft(name).build()] }]
}

pub fn calls_are_carried_out_in_the_order_they_are_made(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let store = scene.store();
    let submitting = store.submit(one("a"));
    let request = ClaimRequest { worker, count: 10, auto_start: true, narrowed: None };
    let claiming = store.claim(vec![request]);
    let claimed = scene.wait(claiming).remove(0).unwrap();
    let submitted = scene.wait(submitting).remove(0).unwrap();
    assert_eq!(claimed[0].task.id, submitted[0].id);
}

pub fn the_time_shown_is_the_stores_own(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let before = scene.store().now();
    scene.pass(std::time::Duration::from_secs(3_600));
    let after = scene.store().now();
    assert!(after.since(before) >= std::time::Duration::from_secs(3_600));
    assert!(after.since(scene.stats().now) < std::time::Duration::from_secs(1));
}

pub fn a_call_that_nobody_waits_for_is_carried_out(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    drop(scene.store().submit(one("a")));
    let held = scene.claim_one(scene.worker());
    let intent = Intent::Settle(held.token, done("1"));
    drop(scene.store().execute(vec![Command { task: held.id, intent }]));
    assert!(scene.settle(&held, done("1")).unwrap().repeated);
    assert_eq!(scene.state(held.id), StateName::Completed);
}

pub fn a_settle_makes_room_for_the_claim_of_the_same_call(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..3).map(|_| draft("a")));
    let worker = scene.register(taking().capacity(1));
    let mut held = scene.claim_one(worker);
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(held.id, *id);
        let settle = Command { task: held.id, intent: Intent::Settle(held.token, done("1")) };
        let late = Command { task: *id, intent: Intent::Start(held.token) };
        let request = ClaimRequest { worker, count: 2, auto_start: true, narrowed: None };
        let call = vec![settle, late];
        let (executed, mut claimed) =
            scene.ask(|store| store.execute_and_claim(call, vec![request]));
        assert_eq!(executed[0].as_ref().unwrap().state, StateName::Completed);
        assert_eq!((executed.len(), executed[1].is_err()), (2, true), "each has its own verdict");
        let claimed = claimed.remove(0).unwrap();
        assert_eq!(claimed.len(), usize::from(n < 2), "one at a time, until none is left");
        held = claimed.first().map_or(held, Held::from);
    }
    assert_eq!(scene.count(StateName::Completed), 3);
}

pub fn claims_under_way_together_never_share_a_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..50).map(|_| draft("a")));
    let store = scene.store();
    let workers: Vec<_> = (0..20).map(|_| scene.worker()).collect();
    let request = |worker| ClaimRequest { worker, count: 3, auto_start: true, narrowed: None };
    let claiming: Vec<_> =
        workers.iter().map(|worker| store.claim(vec![request(*worker)])).collect();
    let mut claimed = Vec::new();
    for answer in claiming {
        let tasks = scene.wait(answer).remove(0).unwrap();
        claimed.extend(tasks.into_iter().map(|claimed| claimed.task.id));
    }
    claimed.sort();
    assert_eq!(claimed, ids, "each once, and none is left");
}

pub fn one_key_under_way_many_times_makes_one_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let store = scene.store();
    let submission = || vec![Submission { tasks: vec![draft("a").key("k").build()] }];
    let submitting: Vec<_> = (0..50).map(|_| store.submit(submission())).collect();
    let mut taken = Vec::new();
    for answer in submitting {
        taken.push(scene.wait(answer).remove(0).unwrap()[0]);
    }
    assert_eq!(taken.iter().filter(|task| !task.replayed).count(), 1);
    assert!(taken.iter().all(|task| task.id == taken[0].id));
    assert_eq!(scene.list(Filter::default()), [taken[0].id]);
}

pub fn one_task_settled_many_times_at_once_ends_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let head = scene.head();
    let store = scene.store();
    let settle = |result| {
        let intent = Intent::Settle(held.token, done(result));
        store.execute(vec![Command { task: held.id, intent }])
    };
    let settling: Vec<_> = ["1", "2", "1", "3"].map(settle).into_iter().collect();
    let mut verdicts = Vec::new();
    for answer in settling {
        verdicts.push(scene.wait(answer).remove(0).map(|changed| changed.repeated).ok());
    }
    assert_eq!(verdicts, [Some(false), None, Some(true), None]);
    assert_eq!(scene.happened(head).len(), 1);
}

pub fn a_healthy_store_says_how_durable_it_is(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let status = scene.store().status();
    assert_eq!(status.trouble, None);
    let survives = scene.differences().survives_reopen;
    assert!(survives || status.durability == Durability::Memory, "{status:?}");
}
