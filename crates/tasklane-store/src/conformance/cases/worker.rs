//! Workers come, pause, fall silent and go (S5, S6).

use tasklane_core::{EventKind, Health, Intent, Refusal, State, StateName, WorkerId, WorkerState};

use crate::conformance::Fixture;
use crate::conformance::drafting::{done, draft, hours, millis, secs, taking};
use crate::conformance::scene::Scene;
use crate::{
    ClaimRequest, Cursor, Direction, Leases, Renewal, Subject, WorkerChange, WorkerRefusal,
};

fn changes<F: Fixture>(scene: &Scene<'_, F>, id: WorkerId) -> Vec<WorkerChange> {
    let events = scene.follow(Cursor::OLDEST, 1_000).into_iter();
    let changes = events.filter_map(|event| match event.subject {
        Subject::Worker(worker, change) if worker == id => Some(change),
        _ => None,
    });
    changes.collect()
}

fn is_gone<F: Fixture>(scene: &Scene<'_, F>, worker: WorkerId) {
    let gone = WorkerRefusal::Gone;
    assert_eq!(scene.ask_for(worker, 1).unwrap_err(), gone);
    assert_eq!(scene.renew(worker, Leases::All).unwrap_err(), gone);
    for direction in [Direction::Pause, Direction::Resume, Direction::Drain, Direction::Leave] {
        assert_eq!(scene.direct(worker, direction), Err(gone), "{direction:?}");
    }
}

pub fn a_registered_worker_is_shown_as_it_said(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut spec = taking().queues(&["mail.*"]).types(&["a"]).having(&["gpu"]).capacity(7);
    spec.0 = spec.0.described(Some("w-1"), Some("1.2"), Some("host")).unwrap();
    spec.0.owner = Some("key-1".into());
    let said = spec.0.clone();
    let id = scene.register(spec);
    let worker = scene.find_worker(id).unwrap();
    assert_eq!((worker.id, worker.spec, worker.state), (id, said, WorkerState::Active));
    assert_eq!((worker.registered_at, worker.seen_at), (scene.now(), scene.now()));
    assert_eq!((worker.leases, worker.health), (0, Health::default()));
}

pub fn every_registration_is_another_worker(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids: std::collections::HashSet<_> = (0..20).map(|_| scene.worker()).collect();
    assert_eq!(ids.len(), 20);
    assert_eq!(scene.ask(|store| store.workers()).len(), 20);
}

pub fn a_worker_nobody_knows_is_gone(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    is_gone(&scene, WorkerId::from_bytes([5; 16]));
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn a_worker_that_takes_no_more_gets_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let states = [
        (Direction::Pause, WorkerState::Paused),
        (Direction::Drain, WorkerState::Draining),
        (Direction::MarkUnhealthy, WorkerState::Unhealthy),
    ];
    for (direction, state) in states {
        let id = scene.submit(draft("a"));
        let worker = scene.worker();
        scene.direct(worker, direction).unwrap();
        assert_eq!(scene.claim_ids(worker, 1), [], "{state:?}");
        assert_eq!(scene.renew_all(worker).state, state);
        assert_eq!(scene.find_worker(worker).unwrap().state, state);
        scene.direct(worker, Direction::Resume).unwrap();
        assert_eq!(scene.renew_all(worker).state, WorkerState::Active);
        assert_eq!(scene.claim_ids(worker, 1), [id]);
    }
}

pub fn an_unhealthy_worker_that_recovers_gets_tasks_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.direct(worker, Direction::MarkUnhealthy).unwrap();
    assert_eq!(scene.claim_ids(worker, 1), []);
    scene.direct(worker, Direction::Recover).unwrap();
    assert_eq!(scene.renew_all(worker).state, WorkerState::Active);
    assert_eq!(scene.claim_ids(worker, 1), [id]);
    use WorkerChange::{Joined, Resumed, Unhealthy};
    assert_eq!(changes(&scene, worker), [Joined, Unhealthy, Resumed]);
}

pub fn health_does_not_undo_what_an_operator_said(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let states = [
        (Direction::Resume, WorkerState::Active),
        (Direction::Pause, WorkerState::Paused),
        (Direction::Drain, WorkerState::Draining),
    ];
    for (direction, state) in states {
        let worker = scene.worker();
        scene.direct(worker, direction).unwrap();
        let before = scene.head();
        scene.direct(worker, Direction::Recover).unwrap();
        if state != WorkerState::Active {
            scene.direct(worker, Direction::MarkUnhealthy).unwrap();
        }
        assert_eq!(scene.renew_all(worker).state, state);
        assert_eq!(scene.head(), before, "nothing happened");
    }
}

pub fn a_worker_that_takes_no_more_finishes_what_it_has(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(worker, 2);
    scene.direct(worker, Direction::Drain).unwrap();
    scene.pass(secs(20));
    assert_eq!(scene.renew_all(worker).held, 2);
    scene.pass(secs(20));
    scene.maintain();
    scene.complete(&held[0]);
    scene.complete(&held[1]);
}

pub fn leaving_gives_unstarted_tasks_back_at_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "b"].map(draft));
    let unstarted = scene.assign(worker);
    scene.claim_one(worker);
    let place = scene.place(ids[0]);
    scene.direct(worker, Direction::Leave).unwrap();
    assert_eq!(scene.states(&ids), [StateName::Pending, StateName::Running]);
    let task = scene.task(ids[0]);
    assert_eq!((task.state, task.place), (State::READY, place));
    assert_eq!(scene.kinds(ids[0]).last(), Some(&EventKind::Released));
    assert_eq!(scene.command(ids[0], Intent::Start(unstarted.token)), Err(Refusal::LeaseLost));
    assert_eq!(scene.claim_ids(scene.worker(), 10), [ids[0]]);
}

pub fn leaving_cancels_an_unstarted_task_that_should_stop(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.assign(worker);
    scene.cancel(id);
    scene.direct(worker, Direction::Leave).unwrap();
    assert_eq!(scene.state(id), StateName::Cancelled);
}

pub fn a_worker_that_left_is_gone_but_may_settle(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim_one(worker);
    scene.direct(worker, Direction::Leave).unwrap();
    is_gone(&scene, worker);
    scene.complete(&held);
}

pub fn a_worker_that_left_keeps_its_renewed_leases_to_their_end(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.claim_one(worker);
    scene.pass(secs(20));
    scene.renew_all(worker);
    scene.direct(worker, Direction::Leave).unwrap();
    scene.pass(secs(30) - millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Running);
    scene.pass(millis(1));
    scene.maintain();
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn a_worker_that_was_heard_of_is_not_dead(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.pass(secs(30) - millis(1));
    assert_eq!(scene.direct(worker, Direction::DeclareDead), Err(WorkerRefusal::Alive));
    assert_eq!(scene.maintain().dead_workers, 0);
    assert_eq!(scene.find_worker(worker).unwrap().state, WorkerState::Active);
}

pub fn a_worker_silent_for_thirty_seconds_is_declared_dead(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.pass(secs(30));
    assert_eq!(scene.overdue(100).silent, [worker]);
    assert_eq!(scene.maintain().dead_workers, 1);
    assert_eq!(scene.find_worker(worker).unwrap().state, WorkerState::Dead);
    is_gone(&scene, worker);
    assert_eq!(scene.maintain().dead_workers, 0, "once");
}

pub fn claims_and_heartbeats_are_signs_of_life(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.pass(secs(20));
    assert_eq!(scene.claim_ids(worker, 1), []);
    assert_eq!(scene.find_worker(worker).unwrap().seen_at, scene.now());
    scene.pass(secs(20));
    scene.renew_all(worker);
    scene.pass(secs(20));
    assert_eq!(scene.maintain().dead_workers, 0);
    assert_eq!(scene.find_worker(worker).unwrap().state, WorkerState::Active);
}

pub fn a_dead_worker_may_still_settle_while_its_lease_is_current(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit(draft("a"));
    let held = scene.claim_one(worker);
    scene.pass(secs(30));
    scene.direct(worker, Direction::DeclareDead).unwrap();
    assert_eq!(scene.state(held.id), StateName::Running);
    assert_eq!(scene.settle(&held, done("1")).unwrap().state, StateName::Completed);
}

pub fn every_change_of_a_worker_is_told(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let directions = [
        Direction::Pause,
        Direction::Resume,
        Direction::Drain,
        Direction::Resume,
        Direction::MarkUnhealthy,
        Direction::Recover,
        Direction::Leave,
    ];
    directions.into_iter().for_each(|direction| scene.direct(worker, direction).unwrap());
    use WorkerChange::{Draining, Joined, Left, Paused, Resumed, Unhealthy};
    let expected = [Joined, Paused, Resumed, Draining, Resumed, Unhealthy, Resumed, Left];
    assert_eq!(changes(&scene, worker), expected);
    let silent = scene.worker();
    scene.pass(secs(30));
    scene.maintain();
    assert_eq!(changes(&scene, silent), [Joined, WorkerChange::Dead]);
}

pub fn a_heartbeat_carries_health(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let health = Health { cpu_percent: Some(12.5), memory_percent: None, load: Some(3) };
    let renewal = Renewal { worker, leases: Leases::All, health: Some(health) };
    scene.pass(secs(1));
    scene.ask(|store| store.renew(vec![renewal])).remove(0).unwrap();
    let shown = scene.find_worker(worker).unwrap();
    assert_eq!((shown.health, shown.seen_at), (health, scene.now()));
    scene.renew_all(worker);
    assert_eq!(scene.find_worker(worker).unwrap().health, health, "what it last reported");
}

pub fn the_leases_of_a_worker_are_counted(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all(["a"; 3].map(draft));
    let held = scene.claim(worker, 2);
    scene.assign(worker);
    assert_eq!(scene.find_worker(worker).unwrap().leases, 3);
    scene.complete(&held[0]);
    assert_eq!(scene.find_worker(worker).unwrap().leases, 2);
}

pub fn one_workers_refusal_does_not_fail_another(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let unknown = WorkerId::from_bytes([5; 16]);
    let workers = [unknown, scene.worker(), unknown];
    let claim = |worker| ClaimRequest { worker, count: 1, auto_start: true, narrowed: None };
    let verdicts = scene.ask(|store| store.claim(workers.map(claim).to_vec()));
    assert_eq!(verdicts[0], Err(WorkerRefusal::Gone));
    assert_eq!(verdicts[1].as_ref().unwrap()[0].task.id, id);
    assert_eq!(verdicts[2], Err(WorkerRefusal::Gone));
    let renew = |worker| Renewal { worker, leases: Leases::All, health: None };
    let verdicts = scene.ask(|store| store.renew(workers.map(renew).to_vec()));
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
}

pub fn stepping_the_wall_clock_kills_no_worker_on_a_steady_clock(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.set_wall(scene.now().plus(hours(1)));
    let dead = scene.maintain().dead_workers;
    assert_eq!(dead, usize::from(!scene.differences().leases_restart));
    scene.set_wall(scene.now().minus(hours(9)));
    scene.pass(secs(30));
    scene.maintain();
    let steady = scene.differences().leases_restart;
    if steady {
        assert_eq!(scene.find_worker(worker).unwrap().state, WorkerState::Dead);
    }
}
