//! Explanations, on plain data.

use super::*;
use tasklane_core::{
    Admission, Capability, CapabilitySet, Entry, Event, Fence, LeaseToken, NewTask, OrderingKey,
    Policies, Selection, Sequence, Stamp, TaskType, Withheld, WorkerSpec, WorkerState,
};

const LEASE: Duration = Duration::from_secs(30);

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn stamp(second: i64) -> Stamp {
    Stamp { at: at(second), sequence: Sequence(second.unsigned_abs()) }
}

fn capabilities(names: &[&str]) -> CapabilitySet {
    CapabilitySet::new(names.iter().map(|name| Capability::new(name).unwrap())).unwrap()
}

/// Created at 0, needing `needs`.
fn task(needs: &[&str]) -> Task {
    let mut new = NewTask::new(TaskType::new("video.cut").unwrap(), "1");
    new.capabilities = capabilities(needs);
    new.ordering_key = Some(OrderingKey::new("k").unwrap());
    let spec = new.resolve(&Policies::default()).unwrap().spec;
    let admission =
        Admission { created: stamp(0), scheduled_at: None, expires_at: None, blocked: false };
    let id = "0198c0de-7f00-7abc-8def-0123456789ab".parse().unwrap();
    Task::admitted(id, spec, admission)
}

fn worker(number: u8, has: &[&str]) -> (Worker, Breaker) {
    let selection = Selection { capabilities: capabilities(has), ..Selection::default() };
    let worker = Worker {
        id: WorkerId::from_bytes([number; 16]),
        spec: WorkerSpec::new(selection, 2).unwrap(),
        state: WorkerState::Active,
        registered_at: at(0),
        seen_at: at(5),
        leases: 0,
        health: tasklane_core::Health::default(),
    };
    (worker, Breaker::default())
}

fn facts<'a>(
    task: &'a Task,
    workers: &'a [(Worker, Breaker)],
    queue: &'a QueueSettings,
) -> Facts<'a> {
    let estimate = Estimate { position: Some(1), wait: None };
    let (now, holder, lease, lease_ends) = (at(10), None, LEASE, None);
    Facts { task, now, queue, workers, estimate, holder, lease, lease_ends }
}

fn explained(task: &Task, workers: &[(Worker, Breaker)], queue: &QueueSettings) -> Explanation {
    decide(&facts(task, workers, queue))
}

/// A held task whose lease ends then.
fn held_until(second: i64, task: &Task, workers: &[(Worker, Breaker)]) -> Explanation {
    let lease_ends = Some(at(second));
    decide(&Facts { lease_ends, ..facts(task, workers, &QueueSettings::default()) })
}

fn codes(explanation: &Explanation) -> Vec<&'static str> {
    explanation.obstacles.iter().map(|obstacle| obstacle.code).collect()
}

#[test]
fn a_paused_queue_comes_first() {
    let paused = QueueSettings { paused: true, ..QueueSettings::default() };
    let told = explained(&task(&[]), &[], &paused);
    assert_eq!(codes(&told), ["queue_paused", "no_workers"]);
    assert!(told.summary.contains("is paused"));
}

#[test]
fn the_capability_that_is_missing_is_named() {
    let workers = [worker(1, &["eu"]), worker(2, &["eu", "ssd"])];
    let told = explained(&task(&["eu", "gpu", "ssd"]), &workers, &QueueSettings::default());
    assert_eq!(codes(&told), ["missing_capability"]);
    assert!(told.summary.ends_with("lacks gpu"), "{}", told.summary);
    assert_eq!(told.obstacles[0].worker, Some(workers[1].0.id));
}

#[test]
fn workers_that_take_other_types_do_not_count() {
    let mut other = worker(1, &[]);
    other.0.spec.selection.types = Names::only(["email.send"]).unwrap();
    let told = explained(&task(&[]), &[other], &QueueSettings::default());
    assert_eq!(codes(&told), ["no_worker_takes_it"]);
}

#[test]
fn workers_that_could_but_do_not_are_counted_by_why() {
    let with = |number, state, leases| {
        let (mut worker, breaker) = worker(number, &[]);
        (worker.state, worker.leases) = (state, leases);
        (worker, breaker)
    };
    let workers = [
        with(1, WorkerState::Paused, 0),
        with(2, WorkerState::Active, 2),
        with(3, WorkerState::Active, 2),
        with(4, WorkerState::Draining, 0),
        (worker(5, &[]).0, Breaker::Open { until: at(60) }),
        with(6, WorkerState::Dead, 0),
    ];
    let told = explained(&task(&[]), &workers, &QueueSettings::default());
    let expected = ["workers_full", "workers_paused", "workers_draining", "workers_unhealthy"];
    assert_eq!(codes(&told), expected);
    assert_eq!(told.obstacles[0].count, Some(2));
    let free = [with(1, WorkerState::Paused, 0), worker(7, &[])];
    assert_eq!(codes(&explained(&task(&[]), &free, &QueueSettings::default())).len(), 0);
}

#[test]
fn silence_and_withholding_are_told() {
    let mut silent = worker(1, &[]);
    silent.0.seen_at = at(-60);
    let told = explained(&task(&[]), &[silent], &QueueSettings::default());
    assert_eq!(codes(&told), ["workers_silent"]);
    let mut released = task(&[]);
    let withheld = Withheld { worker: WorkerId::from_bytes([1; 16]), until: at(11) };
    released.state = State::Pending { withheld: Some(withheld) };
    let told = explained(&released, &[worker(1, &[])], &QueueSettings::default());
    assert_eq!((codes(&told), told.obstacles[0].until), (vec!["withheld"], Some(at(11))));
}

#[test]
fn waiting_for_a_time_or_a_key_is_told() {
    let mut waiting = task(&[]);
    waiting.state = State::Retrying { due_at: at(25) };
    let told = explained(&waiting, &[], &QueueSettings::default());
    assert_eq!((codes(&told), told.obstacles[0].until), (vec!["backoff"], Some(at(25))));
    assert!(told.summary.contains("15.0 s"), "{}", told.summary);
    waiting.state = State::Scheduled { due_at: at(11) };
    let told = explained(&waiting, &[], &QueueSettings::default());
    assert_eq!((codes(&told), told.obstacles[0].until), (vec!["scheduled"], Some(at(11))));
    waiting.state = State::Blocked;
    let told = explained(&waiting, &[], &QueueSettings::default());
    assert_eq!(codes(&told), ["ordering_key"]);
}

#[test]
fn those_before_it_and_an_end_that_has_passed_are_told() {
    let mut late = task(&[]);
    late.expires_at = Some(at(9));
    let (workers, queue) = ([worker(1, &[])], QueueSettings::default());
    let estimate = Estimate { position: Some(4), wait: None };
    let told = decide(&Facts { estimate, ..facts(&late, &workers, &queue) });
    assert_eq!(codes(&told), ["expired", "tasks_ahead"]);
    assert_eq!((told.obstacles[0].until, told.obstacles[1].count), (Some(at(9)), Some(3)));
}

fn claimed(started: bool) -> Entry {
    let event = Event::Claimed {
        worker: WorkerId::from_bytes([1; 16]),
        token: LeaseToken::from_bytes([0; 16]),
        fence: Fence::default(),
        started,
    };
    Entry { stamp: stamp(4), event }
}

#[test]
fn a_claim_that_was_not_started_is_told() {
    let mut assigned = task(&[]);
    assigned.apply(&claimed(false)).unwrap();
    let told = explained(&assigned, &[worker(1, &[])], &QueueSettings::default());
    assert_eq!(codes(&told), ["not_started"]);
    assert!(told.summary.contains("claimed it 6.0 s ago"), "{}", told.summary);
}

#[test]
fn a_running_task_tells_who_has_it_and_when_it_times_out() {
    let mut running = task(&[]);
    running.apply(&claimed(true)).unwrap();
    let told = explained(&running, &[worker(1, &[])], &QueueSettings::default());
    assert!(told.obstacles.is_empty() && told.bound.is_none());
    assert!(told.summary.contains("for 6.0 s; it times out in 9 min"), "{}", told.summary);
    running.apply(&Entry { stamp: stamp(6), event: Event::CancelRequested }).unwrap();
    let told = explained(&running, &[], &QueueSettings::default());
    assert_eq!(codes(&told), ["worker_gone", "cancel_requested"]);
    assert_eq!(told.obstacles[0].worker, Some(WorkerId::from_bytes([1; 16])));
    assert!(told.obstacles[0].detail.ends_with("when the lease ends, the task is cancelled"));
}

#[test]
fn a_silent_worker_may_still_hold_its_lease() {
    let mut running = task(&[]);
    running.apply(&claimed(true)).unwrap();
    let mut silent = worker(1, &[]);
    silent.0.seen_at = at(-21);
    let told = held_until(14, &running, &[silent]);
    assert_eq!((codes(&told), told.obstacles[0].until), (vec!["worker_silent"], Some(at(14))));
    let detail = "its worker has given no sign of life for 31.0 s: \
        when the lease ends, in 4.0 s, the task is offered again";
    assert_eq!(told.obstacles[0].detail, detail);
    assert!(told.summary.contains("it times out in 9 min"), "{}", told.summary);
    running.counts.lease_losses = 1;
    let told = held_until(14, &running, &[]);
    assert!(told.obstacles[0].detail.contains("or a dead letter"), "{:?}", told.obstacles);
    assert!(codes(&held_until(14, &running, &[worker(1, &[])])).is_empty(), "it is heard of");
}

#[test]
fn a_lease_that_has_ended_is_told_first() {
    let mut running = task(&[]);
    running.apply(&claimed(true)).unwrap();
    let mut silent = worker(1, &[]);
    silent.0.seen_at = at(-21);
    let told = held_until(9, &running, &[silent]);
    assert_eq!(codes(&told), ["lease_expired", "worker_silent"]);
    let (first, second) = (&told.obstacles[0], &told.obstacles[1]);
    let detail = "its lease ended 1.0 s ago and is being reclaimed: the task is offered again";
    assert_eq!((&first.detail[..], first.until), (detail, Some(at(9))));
    assert_eq!(first.worker, Some(WorkerId::from_bytes([1; 16])));
    assert_eq!(second.detail, "its worker has given no sign of life for 31.0 s");
    assert!(told.summary.ends_with(&format!(" for 6.0 s; {detail}")), "{}", told.summary);
    running.apply(&Entry { stamp: stamp(6), event: Event::CancelRequested }).unwrap();
    let told = held_until(10, &running, &[worker(1, &[])]);
    assert_eq!(codes(&told), ["lease_expired", "cancel_requested"]);
    assert!(told.obstacles[0].detail.ends_with("the task is cancelled"), "{:?}", told.obstacles);
    let mut assigned = task(&[]);
    assigned.apply(&claimed(false)).unwrap();
    let told = held_until(9, &assigned, &[worker(1, &[])]);
    assert_eq!(codes(&told), ["lease_expired", "not_started"]);
    assert!(told.summary.ends_with(&format!(" 6.0 s ago; {detail}")), "{}", told.summary);
}

#[test]
fn the_bound_is_the_time_left_to_the_critical_level() {
    let queue = QueueSettings::default();
    let mut waiting = task(&[]);
    assert_eq!(explained(&waiting, &[], &queue).bound, Some(Duration::from_secs(3_590)));
    waiting.spec.priority = Priority::Critical;
    assert_eq!(explained(&waiting, &[], &queue).bound, Some(Duration::ZERO));
    let weighted = QueueSettings { order: Order::Weighted(Default::default()), ..queue };
    waiting.spec.priority = Priority::Low;
    assert_eq!(explained(&waiting, &[], &weighted).bound, None);
}
