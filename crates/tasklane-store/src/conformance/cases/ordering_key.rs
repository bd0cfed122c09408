//! One at a time, in order, for each ordering key (S8).

use tasklane_core::{EventKind, Intent, Priority, State, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, secs};
use crate::conformance::scene::Scene;

use StateName::{Blocked, Cancelled, Pending, Running, Scheduled};

pub fn tasks_behind_their_key_are_blocked(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k"));
    let second = scene.offer_one(draft("b").ordered_by("k")).unwrap();
    assert_eq!(second.state, Blocked);
    assert_eq!(scene.states(&[first, second.id]), [Pending, Blocked]);
    assert!(scene.task(second.id).admission.blocked);
    assert_eq!(scene.claim_ids(scene.worker(), 10), [first]);
}

pub fn tasks_of_one_submission_queue_up_behind_their_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "b", "c"].map(|name| draft(name).ordered_by("k")));
    assert_eq!(scene.states(&ids), [Pending, Blocked, Blocked]);
}

pub fn one_key_runs_in_order_whatever_the_priorities(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let priorities = [Priority::Low, Priority::Normal, Priority::Critical, Priority::High];
    let ids =
        priorities.map(|priority| scene.submit(draft("a").ordered_by("k").priority(priority)));
    let worker = scene.worker();
    for id in ids {
        let held = scene.claim(worker, 10);
        assert_eq!(held.iter().map(|held| held.id).collect::<Vec<_>>(), [id]);
        scene.complete(&held[0]);
    }
}

pub fn other_keys_queues_and_tasks_without_a_key_are_free(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all([
        draft("a").ordered_by("k"),
        draft("a").ordered_by("l"),
        draft("a").ordered_by("k").queue("other"),
        draft("a"),
        draft("a").ordered_by("K"),
    ]);
    assert_eq!(scene.states(&ids), [Pending; 5]);
}

pub fn the_end_of_a_task_frees_the_next_in_the_same_write(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = ["a", "b", "c"].map(|name| scene.submit(draft(name).ordered_by("k")));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(5));
    let head = scene.head();
    scene.complete(&held);
    let expected = [(ids[0], EventKind::Completed), (ids[1], EventKind::Unblocked)];
    assert_eq!(scene.happened(head), expected);
    assert_eq!(scene.states(&ids[1..]), [Pending, Blocked]);
    let place = scene.place(ids[1]);
    assert_eq!(place.ready_at, scene.now(), "it became ready when what it waited for ended");
    let last = scene.trail(ids[1]).entries.pop().unwrap();
    assert_eq!(place.sequence, last.stamp.sequence);
}

pub fn every_way_to_end_frees_the_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let first = scene.submit(draft("a").ordered_by("k").retries(0));
    let second = scene.submit(draft("b").ordered_by("k").without_dead_letter());
    let third = scene.submit(draft("c").ordered_by("k"));
    let fourth = scene.submit(draft("d").ordered_by("k").expires_after(secs(60)));
    let fifth = scene.submit(draft("e").ordered_by("k"));
    scene.fail(&scene.claim_one(worker));
    scene.kill(&scene.claim_one(worker));
    assert_eq!(scene.states(&[first, second]), [StateName::DeadLetter, StateName::Failed]);
    scene.cancel(third);
    assert_eq!(scene.states(&[third, fourth]), [Cancelled, Pending]);
    scene.pass(secs(60));
    scene.maintain();
    assert_eq!(scene.states(&[fourth, fifth]), [Cancelled, Pending]);
}

pub fn an_expired_task_met_by_a_claim_frees_its_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k").expires_after(secs(1)));
    let second = scene.submit(draft("a").ordered_by("k"));
    scene.pass(secs(1));
    let worker = scene.worker();
    let mut claimed = scene.claim_ids(worker, 10);
    claimed.extend(scene.claim_ids(worker, 10));
    assert_eq!(claimed, [second]);
    assert_eq!(scene.state(first), Cancelled);
}

pub fn a_scheduled_task_holds_its_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k").after(secs(60)));
    let second = scene.submit(draft("b").ordered_by("k"));
    assert_eq!(scene.states(&[first, second]), [Scheduled, Blocked]);
    assert_eq!(scene.claim_ids(scene.worker(), 10), []);
    scene.cancel(first);
    assert_eq!(scene.state(second), Pending);
}

pub fn a_retrying_task_holds_its_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = ["a", "b"].map(|name| scene.submit(draft(name).ordered_by("k")));
    scene.fail(&scene.claim_one(scene.worker()));
    assert_eq!(scene.states(&ids), [StateName::Retrying, Blocked]);
    scene.pass(secs(1));
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 10), [ids[0]]);
}

pub fn a_release_and_a_lost_lease_hold_the_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = ["a", "b"].map(|name| scene.submit(draft(name).ordered_by("k")));
    scene.release(&scene.claim_one(scene.worker()), None);
    assert_eq!(scene.states(&ids), [Pending, Blocked]);
    scene.release(&scene.claim_one(scene.worker()), Some(secs(9)));
    assert_eq!(scene.states(&ids), [Scheduled, Blocked]);
    scene.pass(secs(9));
    scene.maintain();
    scene.claim_one(scene.worker());
    scene.pass(secs(30));
    scene.maintain();
    assert_eq!(scene.states(&ids), [Pending, Blocked]);
}

pub fn a_cancelled_task_in_the_middle_is_passed_over(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = ["a", "b", "c"].map(|name| scene.submit(draft(name).ordered_by("k")));
    scene.cancel(ids[1]);
    assert_eq!(scene.states(&ids), [Pending, Cancelled, Blocked]);
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.state(ids[2]), Pending);
}

pub fn a_blocked_task_expires_and_the_line_goes_on(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k"));
    let second = scene.submit(draft("b").ordered_by("k").expires_after(secs(10)));
    let third = scene.submit(draft("c").ordered_by("k"));
    scene.pass(secs(10));
    scene.maintain();
    assert_eq!(scene.states(&[first, second, third]), [Pending, Cancelled, Blocked]);
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.state(third), Pending);
}

pub fn a_freed_task_still_waits_for_its_schedule(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").ordered_by("k"));
    let due_at = scene.now().plus(secs(60));
    let second = scene.submit(draft("b").ordered_by("k").at(due_at));
    assert_eq!(scene.states(&[first, second]), [Pending, Blocked]);
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.task(second).state, State::Scheduled { due_at });
    scene.pass(secs(60));
    scene.maintain();
    assert_eq!(scene.place(second).ready_at, due_at);
    assert_eq!(scene.claim_ids(scene.worker(), 10), [second]);
}

pub fn an_operators_retry_joins_the_end_of_the_line(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let first = scene.dead(draft("a").ordered_by("k"));
    let others = ["b", "c"].map(|name| scene.submit(draft(name).ordered_by("k")));
    assert_eq!(scene.retry(first).state, Blocked);
    let mut order = Vec::new();
    for _ in 0..3 {
        let held = scene.claim_one(worker);
        order.push(held.id);
        scene.complete(&held);
    }
    assert_eq!(order, [others[0], others[1], first]);
}

pub fn an_operators_retry_takes_a_free_key_and_holds_it(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.dead(draft("a").ordered_by("k"));
    assert_eq!(scene.retry(first).state, Pending);
    let second = scene.submit(draft("b").ordered_by("k"));
    assert_eq!(scene.state(second), Blocked);
    scene.complete(&scene.claim_one(scene.worker()));
    assert_eq!(scene.state(second), Pending);
}

pub fn a_cancelled_task_that_never_held_the_key_frees_nobody(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = ["a", "b", "c"].map(|name| scene.submit(draft(name).ordered_by("k")));
    scene.claim_one(worker);
    scene.cancel(ids[1]);
    assert_eq!(scene.states(&ids), [Running, Cancelled, Blocked]);
    scene.retry(ids[1]);
    scene.cancel(ids[1]);
    scene.command(ids[1], Intent::Discard).unwrap();
    assert_eq!(scene.states(&[ids[0], ids[2]]), [Running, Blocked]);
}

pub fn a_long_line_behind_a_key_never_hides_other_tasks(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let urgent = |_| draft("a").ordered_by("k").priority(Priority::Critical);
    let ids = scene.submit_all((0..500).map(urgent));
    let other = scene.submit(draft("a").priority(Priority::Low));
    assert_eq!(scene.claim_ids(scene.worker(), 10), [ids[0], other]);
    assert_eq!(scene.count(Blocked), 499);
}
