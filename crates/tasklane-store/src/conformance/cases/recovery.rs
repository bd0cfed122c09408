//! What happens when workers fall silent (S6), and what must not.

use tasklane_core::{
    Command, Counts, DeadReason, ErrorKind, EventKind, Intent, Outcome, Progress, Refusal,
    SeededRandom, State, StateName,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{Drafting, done, draft, failed, millis, secs};
use crate::conformance::scene::{Held, Scene};
use crate::{Direction, Leases};

/// Claims with a fresh worker and lets the lease end.
fn lose<F: Fixture>(scene: &Scene<'_, F>) -> Held {
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(30));
    scene.maintain();
    held
}

/// Submits a task and loses its lease that often.
fn lost_times<F: Fixture>(scene: &Scene<'_, F>, task: Drafting, times: usize) -> Held {
    scene.submit(task);
    for _ in 1..times {
        lose(scene);
    }
    lose(scene)
}

pub fn a_lost_lease_is_reclaimed_when_it_ends_and_not_before(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    scene.claim_one(scene.worker());
    scene.pass(secs(30) - millis(1));
    assert_eq!(scene.maintain().changed, 0);
    assert_eq!(scene.state(id), StateName::Running);
    scene.pass(millis(1));
    assert_eq!(scene.maintain().changed, 1);
    assert_eq!(scene.task(id).state, State::READY);
    let kinds = [EventKind::Submitted, EventKind::Claimed, EventKind::LeaseLost];
    assert_eq!(scene.kinds(id), kinds);
}

pub fn losing_a_lease_costs_no_attempt(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a").retries(0), 3);
    let counts = Counts { attempts: 0, deliveries: 3, lease_losses: 3, replays: 0 };
    assert_eq!(scene.task(held.id).counts, counts);
    assert_eq!(scene.claim_one(scene.worker()).id, held.id);
}

pub fn five_leases_lost_in_a_row_make_a_dead_letter(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a"), 4);
    assert_eq!(scene.state(held.id), StateName::Pending);
    lose(&scene);
    let task = scene.task(held.id);
    let State::DeadLetter { ended, reason } = task.state else { panic!("{:?}", task.state) };
    assert_eq!((ended.at, reason), (scene.now(), DeadReason::Poison));
    assert_eq!((task.counts.attempts, task.counts.lease_losses, task.error), (0, 5, None));
}

pub fn poison_without_a_dead_letter_is_failed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a").without_dead_letter(), 5);
    let task = scene.task(held.id);
    let State::Failed { reason, .. } = task.state else { panic!("{:?}", task.state) };
    assert_eq!(reason, DeadReason::Poison);
}

pub fn a_settle_starts_the_count_of_lost_leases_anew(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a"), 4);
    scene.fail(&scene.claim_one(scene.worker()));
    assert_eq!(scene.task(held.id).counts.lease_losses, 0);
    scene.pass(secs(1));
    scene.maintain();
    lose(&scene);
    assert_eq!(scene.task(held.id).counts.lease_losses, 1);
}

pub fn a_release_starts_the_count_of_lost_leases_anew(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a"), 4);
    scene.release(&scene.claim_one(scene.worker()), None);
    assert_eq!(scene.task(held.id).counts.lease_losses, 0);
    lose(&scene);
    assert_eq!(scene.state(held.id), StateName::Pending);
}

/// The worker lives and holds on to the lease, but never begins.
pub fn a_task_not_started_within_thirty_seconds_is_released(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    let held = scene.assign(worker);
    scene.pass(secs(20));
    scene.renew_all(worker);
    scene.pass(secs(10) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Assigned);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.task(id).state, State::READY, "nobody has it withheld");
    assert_eq!(scene.task(id).counts.lease_losses, 0);
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::Released));
    assert_eq!(scene.command(id, Intent::Start(held.token)), Err(Refusal::LeaseLost));
}

pub fn a_started_task_is_not_released_for_a_late_start(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    let held = scene.assign(worker);
    scene.pass(secs(29));
    scene.start(&held);
    scene.renew_all(worker);
    scene.pass(secs(20));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
}

pub fn a_zombie_changes_nothing_after_the_reclaim(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let zombie = lose(&scene);
    let held = scene.claim_one(scene.worker());
    assert!(held.fence > zombie.fence);
    let before = scene.snapshot();
    let lost = Err(Refusal::LeaseLost);
    assert_eq!(scene.settle(&zombie, done("1")), lost);
    assert_eq!(scene.settle(&zombie, failed(ErrorKind::Bug)), lost);
    assert_eq!(scene.settle(&zombie, Outcome::Released { delay: None }), lost);
    let progress = Intent::Progress(zombie.token, Progress::default());
    assert_eq!(scene.command(zombie.id, progress), lost);
    assert_eq!(scene.snapshot(), before);
    scene.complete(&held);
    assert_eq!(scene.settle(&zombie, done("1")), lost, "nor after the end");
}

pub fn a_reclaim_never_touches_what_was_settled_in_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(30));
    let overdue = scene.overdue(100);
    let lose = Command { task: id, intent: Intent::LoseLease(held.token) };
    assert_eq!(overdue.commands, [lose]);
    scene.complete(&held);
    let before = scene.snapshot();
    assert!(scene.commands(overdue.commands)[0].is_err());
    assert_eq!(scene.snapshot(), before);
}

pub fn a_lease_renewed_before_the_reclaim_is_kept(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.claim_one(worker);
    scene.pass(secs(30));
    let overdue = scene.overdue(100);
    scene.renew_all(worker);
    assert_eq!(scene.commands(overdue.commands), [Err(Refusal::NotDue)]);
    assert_eq!(scene.state(id), StateName::Running);
}

pub fn a_lease_cannot_be_taken_before_its_end(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(29));
    let before = scene.snapshot();
    let not_due = Err(Refusal::NotDue);
    assert_eq!(scene.command(id, Intent::LoseLease(held.token)), not_due);
    assert_eq!(scene.command(id, Intent::TimeOut(held.token)), not_due);
    assert_eq!(scene.snapshot(), before);
}

pub fn a_busy_worker_keeps_its_task_for_hours(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a").timeout(secs(86_400)));
    let held = scene.claim_one(worker);
    for _ in 0..100 {
        scene.pass(secs(29));
        assert_eq!(scene.renew_all(worker).held, 1);
        scene.maintain();
    }
    assert_eq!(scene.task(id).counts.deliveries, 1);
    scene.complete(&held);
}

pub fn the_death_of_a_worker_never_shortens_a_lease(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(worker);
    scene.pass(secs(20));
    scene.command(id, Intent::Progress(held.token, Progress::default())).unwrap();
    scene.pass(secs(30) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.complete(&held);
}

pub fn what_a_worker_was_running_when_it_left_keeps_its_lease(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(worker, 2);
    scene.direct(worker, Direction::Leave).unwrap();
    scene.pass(secs(30) - millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids), [StateName::Running; 2]);
    scene.complete(&held[0]);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.states(&ids), [StateName::Completed, StateName::Pending]);
}

pub fn every_lost_lease_is_found_however_many_there_are(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..2_500).map(|_| draft("a")));
    let worker = scene.worker();
    (0..3).for_each(|_| drop(scene.claim(worker, 1_000)));
    assert_eq!(scene.count(StateName::Running), 2_500);
    scene.pass(secs(30));
    assert_eq!(scene.maintain().changed, 2_500);
    assert_eq!(scene.count(StateName::Pending), 2_500);
}

pub fn maintenance_may_run_twice(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let held = lost_times(&scene, draft("a"), 1);
    assert_eq!(scene.maintain().changed, 0);
    assert_eq!(scene.task(held.id).counts.lease_losses, 1);
    let renewed = scene.renew(scene.worker(), Leases::These(vec![held.lease()])).unwrap();
    assert_eq!((renewed.held, renewed.lost), (0, vec![held.id]));
}

/// Whatever was going on when everybody fell silent, every live task is offered again (S3).
pub fn no_live_task_is_ever_stuck(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut random = SeededRandom::new(4);
    for n in 0..60 {
        let task = draft("a").timeout(secs(1 + random.below(40)));
        scene.submit(match n % 4 {
            0 => task.ordered_by(["k", "l"][random.below(2) as usize]),
            1 => task.after(secs(random.below(100))),
            _ => task,
        });
        let worker = scene.worker();
        let held = scene.claim(worker, 1).pop();
        match (random.below(6), held) {
            (0, Some(held)) => assert!(scene.command(held.id, Intent::Requeue).is_ok()),
            (1, Some(held)) => assert_eq!(scene.fail(&held).state, StateName::Retrying),
            (2, _) => scene.direct(worker, Direction::Leave).unwrap(),
            (3, _) => scene.pass(secs(random.below(20))),
            (4, _) => assert_eq!(scene.maintain().refused, 0),
            _ => {}
        }
    }
    let mut live = 60;
    for _ in 0..60 {
        scene.pass(secs(301));
        scene.maintain();
        for state in [StateName::Assigned, StateName::Running, StateName::Retrying] {
            assert_eq!(scene.count(state), 0, "{state} and held by nobody who lives");
        }
        for held in scene.claim(scene.worker(), 10) {
            scene.complete(&held);
            live -= 1;
        }
    }
    let ended = |state| scene.count(state) as i64;
    assert_eq!(live, ended(StateName::DeadLetter), "every other task was completed");
    assert_eq!(scene.count(StateName::Completed) + scene.count(StateName::DeadLetter), 60);
}
