//! Leases, tokens and fences (S5).

use tasklane_core::{
    EventKind, Intent, LeaseToken, Outcome, Progress, Refusal, State, StateName, TaskId,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{chosen_id, done, draft, failed, hours, millis, secs, taking};
use crate::conformance::scene::Scene;
use crate::{Changed, ClaimRequest, Direction, LeaseRef, Leases};

/// Everything that needs a lease token.
fn with_token(token: LeaseToken) -> Vec<Intent> {
    vec![
        Intent::Start(token),
        Intent::Progress(token, Progress::default()),
        Intent::Settle(token, done("1")),
        Intent::Settle(token, failed(tasklane_core::ErrorKind::Transient)),
        Intent::Settle(token, Outcome::Cancelled),
        Intent::Settle(token, Outcome::Released { delay: None }),
        Intent::LoseLease(token),
        Intent::TimeOut(token),
        Intent::Unassign(token),
    ]
}

fn refuses_token<F: Fixture>(scene: &Scene<'_, F>, task: TaskId, token: LeaseToken) {
    let before = scene.snapshot();
    for intent in with_token(token) {
        assert_eq!(scene.command(task, intent.clone()), Err(Refusal::LeaseLost), "{intent:?}");
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn a_claim_makes_a_lease_of_thirty_seconds(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a").payload("[7]"));
    scene.pass(secs(1));
    let claimed = scene.ask_for(worker, 1).unwrap().remove(0);
    assert_eq!((claimed.lease, &claimed.payload[..]), (secs(30), &b"[7]"[..]));
    assert_eq!(claimed.task, scene.task(id), "the claim is stored before it is answered");
    let State::Running(lease) = claimed.task.state else { panic!("{:?}", claimed.task.state) };
    assert_eq!((lease.worker, lease.claimed.at), (worker, scene.now()));
    assert_eq!((lease.started, lease.cancel_requested), (Some(lease.claimed), None));
    assert_eq!((claimed.task.counts.deliveries, claimed.task.attempt()), (1, 1));
}

pub fn a_claim_without_auto_start_waits_for_its_start(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.assign(scene.worker());
    assert_eq!(scene.state(id), StateName::Assigned);
    scene.pass(secs(3));
    assert_eq!(scene.start(&held).state, StateName::Running);
    let task = scene.task(id);
    let lease = task.state.lease().unwrap();
    assert_eq!(lease.started.unwrap().at, scene.now());
    assert_eq!((lease.token, task.state_since()), (held.token, scene.now()));
    let kinds = [EventKind::Submitted, EventKind::Claimed, EventKind::Started];
    assert_eq!(scene.kinds(id), kinds);
}

pub fn starting_again_is_harmless(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.assign(scene.worker());
    assert!(!scene.start(&held).repeated);
    scene.pass(secs(1));
    let before = scene.snapshot();
    let again = scene.start(&held);
    assert_eq!((again.state, again.repeated), (StateName::Running, true));
    assert_eq!(scene.snapshot(), before);
}

pub fn every_claim_has_another_token(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all(["a"; 20].map(draft));
    let held = scene.claim(worker, 20);
    let distinct: std::collections::HashSet<_> = held.iter().map(|held| held.token).collect();
    assert_eq!(distinct.len(), 20);
    scene.release(&held[0], None);
    assert_ne!(scene.claim_one(scene.worker()).token, held[0].token);
}

pub fn fences_follow_the_clock_and_only_rise(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let claim = || {
        let held = scene.claim_one(scene.worker());
        scene.release(&held, None);
        held.fence.as_u64()
    };
    let clock = || u64::try_from(scene.now().as_micros()).unwrap();
    let first = claim();
    assert_eq!(first, clock());
    assert_eq!(claim(), first + 1, "at the same instant");
    scene.set_wall(scene.now().minus(hours(5)));
    assert_eq!(claim(), first + 2, "after a step back");
    scene.set_wall(scene.now().plus(hours(6)));
    assert_eq!(claim(), clock());
}

pub fn a_forged_token_does_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.claim_one(scene.worker());
    refuses_token(&scene, id, LeaseToken::from_bytes([7; 16]));
    refuses_token(&scene, id, LeaseToken::from_bytes([0; 16]));
}

pub fn a_token_opens_its_own_task_only(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(scene.worker(), 2);
    refuses_token(&scene, held[0].id, held[1].token);
}

pub fn a_token_of_an_earlier_claim_does_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let stale = scene.claim_one(scene.worker());
    scene.command(stale.id, Intent::Requeue).unwrap();
    refuses_token(&scene, stale.id, stale.token);
    scene.claim_one(scene.worker());
    refuses_token(&scene, stale.id, stale.token);
}

pub fn renewing_all_renews_every_lease_of_the_worker(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a", "b"].map(draft));
    scene.claim(worker, 2);
    scene.assign(worker);
    let other = scene.submit(draft("c"));
    scene.claim_one(scene.worker());
    scene.pass(secs(20));
    let renewed = scene.renew_all(worker);
    assert_eq!((renewed.held, renewed.lost, renewed.cancel), (3, vec![], vec![]));
    scene.pass(secs(10));
    scene.maintain();
    assert_eq!(scene.state(other), StateName::Pending);
    assert_eq!(scene.states(&ids[..2]), [StateName::Running; 2]);
    scene.pass(secs(20) - millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids[..2]), [StateName::Running; 2]);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids[..2]), [StateName::Pending; 2]);
}

pub fn renewing_some_lets_the_others_run_out(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a", "a"].map(draft));
    let held = scene.claim(worker, 3);
    scene.pass(secs(20));
    let these = vec![held[0].lease(), held[2].lease()];
    assert_eq!(scene.renew(worker, Leases::These(these)).unwrap().held, 2);
    scene.pass(secs(10));
    scene.maintain();
    let expected = [StateName::Running, StateName::Pending, StateName::Running];
    assert_eq!(scene.states(&ids), expected);
}

pub fn a_renewal_tells_which_leases_are_lost(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all(["a", "a", "a", "a"].map(draft));
    let held = scene.claim(worker, 4);
    scene.complete(&held[1]);
    scene.command(held[2].id, Intent::Requeue).unwrap();
    let forged = LeaseRef { task: held[3].id, token: LeaseToken::from_bytes([1; 16]) };
    let these = vec![held[0].lease(), held[1].lease(), held[2].lease(), forged];
    let renewed = scene.renew(worker, Leases::These(these)).unwrap();
    assert_eq!((renewed.held, renewed.lost), (1, vec![held[1].id, held[2].id, held[3].id]));
    scene.pass(secs(29));
    assert_eq!(scene.renew_all(worker).held, 2);
}

pub fn a_renewal_writes_no_event_and_no_change(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit(draft("a"));
    scene.claim_one(worker);
    scene.pass(secs(10));
    let before = scene.snapshot();
    scene.renew_all(worker);
    assert_eq!(scene.snapshot(), before);
}

/// Nobody else has it yet, so nothing is won by taking it away.
pub fn a_lease_that_ended_but_was_not_reclaimed_can_be_renewed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(worker);
    scene.pass(secs(40));
    let renewed = scene.renew(worker, Leases::These(vec![held.lease()])).unwrap();
    assert_eq!((renewed.held, renewed.lost), (1, vec![]));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.complete(&held);
}

pub fn a_settle_after_the_end_but_before_the_reclaim_is_accepted(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(40));
    scene.complete(&held);
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Completed);
}

pub fn progress_renews_the_lease(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(20));
    scene.command(id, Intent::Progress(held.token, Progress::default())).unwrap();
    scene.pass(secs(30) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn the_end_of_a_lease_is_told_until_it_is_reclaimed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let ends = || scene.lease_ends(id);
    let in_full = || Some(scene.now().plus(secs(30)));
    assert_eq!(ends(), None, "nobody has it");
    let worker = scene.worker();
    let held = scene.assign(worker);
    assert_eq!(ends(), in_full());
    scene.pass(secs(10));
    scene.start(&held);
    assert_eq!(ends(), Some(scene.now().plus(secs(20))), "starting renews nothing");
    scene.renew_all(worker);
    assert_eq!(ends(), in_full());
    scene.pass(secs(10));
    scene.command(id, Intent::Progress(held.token, Progress::default())).unwrap();
    assert_eq!(ends(), in_full());
    scene.pass(secs(10));
    scene.renew(worker, Leases::These(vec![held.lease()])).unwrap();
    let end = in_full();
    assert_eq!(ends(), end);
    scene.pass(secs(40));
    assert_eq!(ends(), end, "it has passed");
    scene.maintain();
    assert_eq!(ends(), None, "it was reclaimed");
    let held = scene.claim_one(scene.worker());
    assert_eq!(ends(), in_full());
    scene.complete(&held);
    assert_eq!(ends(), None, "the task has ended");
    assert_eq!(scene.lease_ends(chosen_id(1_790_000_000_000, 99)), None, "there is no such task");
}

pub fn each_lease_ends_by_its_own_last_renewal(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(worker, 2);
    scene.pass(secs(10));
    scene.renew_all(worker);
    let first = Some(scene.now().plus(secs(30)));
    scene.pass(secs(10));
    scene.renew(worker, Leases::These(vec![held[1].lease()])).unwrap();
    let second = Some(scene.now().plus(secs(30)));
    let ends = || ids.iter().map(|id| scene.lease_ends(*id)).collect::<Vec<_>>();
    assert_eq!(ends(), [first, second]);
    // What a worker renewed is good also when nothing else is known of it any more.
    scene.direct(worker, Direction::Leave).unwrap();
    assert_eq!(ends(), [first, second]);
}

pub fn a_worker_never_holds_more_than_its_capacity(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.register(taking().capacity(3));
    let ids = scene.submit_all(["a"; 10].map(draft));
    let request = ClaimRequest { worker, count: 2, auto_start: false, narrowed: None };
    assert_eq!(scene.request(request).unwrap().len(), 2);
    assert_eq!(scene.claim_ids(worker, 10), [ids[2]]);
    assert_eq!(scene.claim_ids(worker, 10), []);
    assert_eq!(scene.find_worker(worker).unwrap().leases, 3);
}

pub fn two_claims_of_one_call_share_the_capacity(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.register(taking().capacity(3));
    scene.submit_all(["a"; 10].map(draft));
    let request = ClaimRequest { worker, count: 2, auto_start: true, narrowed: None };
    let verdicts = scene.ask(|store| store.claim(vec![request.clone(), request]));
    let counts = verdicts.iter().map(|verdict| verdict.as_ref().unwrap().len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 1]);
}

pub fn every_end_of_a_lease_frees_capacity(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.register(taking().capacity(1));
    scene.submit_all(["a"; 10].map(draft));
    scene.complete(&scene.claim_one(worker));
    scene.fail(&scene.claim_one(worker));
    scene.kill(&scene.claim_one(worker));
    scene.release(&scene.claim_one(worker), Some(hours(1)));
    scene.settle(&scene.claim_one(worker), Outcome::Cancelled).unwrap();
    let held = scene.claim_one(worker);
    scene.command(held.id, Intent::Requeue).unwrap();
    scene.claim_one(worker);
    assert_eq!(scene.claim_ids(worker, 1), []);
    scene.pass(secs(20));
    assert_eq!(scene.renew(worker, Leases::These(vec![])).unwrap().held, 0);
    scene.pass(secs(10));
    scene.maintain();
    scene.claim_one(worker);
    assert_eq!(scene.find_worker(worker).unwrap().leases, 1);
}

pub fn stepping_the_wall_clock_does_not_end_a_steady_lease(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.set_wall(scene.now().plus(hours(1)));
    scene.maintain();
    // Where the clock is a server's, there is no other to count on.
    let steady = scene.differences().leases_restart;
    let expected = if steady { StateName::Running } else { StateName::Pending };
    assert_eq!(scene.state(id), expected);
    if steady {
        scene.set_wall(scene.now().minus(hours(2)));
        scene.pass(secs(30));
        scene.maintain();
        assert_eq!(scene.settle(&held, done("1")), Err(Refusal::LeaseLost));
    }
}

pub fn the_answer_to_a_command_tells_the_state_after_it(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let due_at = Some(scene.now().plus(secs(1)));
    let expected =
        Changed { state: StateName::Retrying, due_at, cancel_requested: false, repeated: false };
    assert_eq!(scene.fail(&held), expected);
}
