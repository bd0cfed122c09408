//! The queue inside a program: every call, what it gives and what it refuses.

mod operate;
mod task;
mod worker;

use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{NewTask, Policies, StateName, TaskId, TaskType};
use tasklane_sqlite::queue::QueueError;
use tasklane_sqlite::{Durability, Queue};
use tasklane_store::StoreError;

#[expect(dead_code, reason = "its main reads arguments, which here are those of the tests")]
#[path = "../../examples/embedded.rs"]
mod embedded;
#[expect(dead_code, reason = "its main is not run here")]
#[path = "../../examples/first_queue.rs"]
mod first_queue;

/// How long to wait for what must come.
const LONG: Duration = Duration::from_secs(30);

fn new_task(task_type: &str) -> NewTask {
    NewTask::new(TaskType::new(task_type).unwrap(), "payload")
}

fn submit(queue: &Queue, task: NewTask) -> TaskId {
    queue.submit(task).unwrap().id
}

fn state(queue: &Queue, id: TaskId) -> StateName {
    queue.get(id).unwrap().task.state.name()
}

/// The member that a call found wrong.
#[expect(clippy::panic, reason = "a test that cannot go on should stop")]
fn field<T: std::fmt::Debug>(outcome: Result<T, QueueError>) -> &'static str {
    match outcome {
        Err(QueueError::Invalid(invalid)) => invalid.field,
        other => panic!("expected an invalid value, got {other:?}"),
    }
}

fn unknown_id() -> TaskId {
    "01890000-0000-7000-8000-000000000000".parse().unwrap()
}

#[test]
fn what_was_submitted_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(folder.path()).unwrap();
    let id = submit(&queue, new_task("a"));
    drop(queue);
    let queue = Queue::open(folder.path()).unwrap();
    let found = queue.get(id).unwrap();
    assert_eq!(
        (found.task.state.name(), &found.payload[..]),
        (StateName::Pending, &b"payload"[..])
    );
}

#[test]
fn a_folder_that_is_open_cannot_be_opened_again_until_the_last_handle_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(folder.path()).unwrap();
    let other = queue.clone();
    drop(queue);
    let refused = Queue::open(folder.path()).unwrap_err();
    assert!(matches!(refused, QueueError::Store(StoreError::Locked(_))), "{refused}");
    drop(other);
    Queue::open(folder.path()).unwrap();
}

#[test]
fn a_worker_keeps_the_queue_open_and_stops_with_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(folder.path()).unwrap();
    let worker = queue.worker().handle("a", |_, _| Ok(Vec::new())).start().unwrap();
    drop(queue);
    assert!(Queue::open(folder.path()).is_err());
    drop(worker);
    Queue::open(folder.path()).unwrap();
}

#[test]
fn a_path_that_cannot_be_a_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(field(Queue::open("")), "path");
    assert_eq!(field(Queue::open(&file)), "path");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let below = Queue::open(file.join("below")).unwrap_err();
    assert!(matches!(below, QueueError::Store(StoreError::Unavailable(_))), "{below}");
}

#[test]
fn options_out_of_range_are_refused() {
    let rules = Rules::default();
    let of_rules = |rules| field(Queue::builder().rules(rules).in_memory());
    assert_eq!(of_rules(Rules { lease: Duration::ZERO, ..rules }), "rules.lease");
    assert_eq!(of_rules(Rules { silence: Duration::ZERO, ..rules }), "rules.silence");
    assert_eq!(of_rules(Rules { assignment: Duration::ZERO, ..rules }), "rules.assignment");
    assert_eq!(of_rules(Rules { lease_losses_max: 0, ..rules }), "rules.lease_losses_max");
    assert_eq!(of_rules(Rules { timeout_growth: f64::NAN, ..rules }), "rules.timeout_growth");
    assert_eq!(field(Queue::builder().depth_limit(0).in_memory()), "depth_limit");
    assert_eq!(
        field(Queue::builder().clean_up_every(Duration::ZERO).in_memory()),
        "clean_up_every"
    );
    let policies = Policies { payload_bytes_max: usize::MAX, ..Policies::default() };
    let refused = field(Queue::builder().policies(policies).in_memory());
    assert_eq!(refused, "policies.payload_bytes_max");
}

#[test]
fn options_reach_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let durability = |durability, name: &str| {
        let queue = Queue::builder().durability(durability).open(folder.path().join(name)).unwrap();
        queue.status().durability.as_str()
    };
    assert_eq!(durability(Durability::Fsync, "a"), "fsync");
    assert_eq!(durability(Durability::Interval(LONG), "b"), "interval");
    assert_eq!(durability(Durability::None, "c"), "memory");
    let policies = Policies { payload_bytes_max: 3, ..Policies::default() };
    let queue = Queue::builder().policies(policies).in_memory().unwrap();
    assert_eq!(field(queue.submit(new_task("a"))), "payload");
}

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    embedded::run(folder.path()).unwrap();
    let queue = Queue::open(folder.path()).unwrap();
    let stats = queue.stats().unwrap();
    assert_eq!((stats.total(StateName::Completed), stats.total(StateName::Cancelled)), (5, 2));
}

#[test]
fn the_first_queue_is_the_one_that_the_docs_show() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(first_queue::send(folder.path()).unwrap(), "completed after 2 attempts");
    let (page, code) = (
        include_str!("../../../../docs/embedded.md"),
        include_str!("../../examples/first_queue.rs"),
    );
    assert!(page.contains(&format!("```rust\n{code}```")), "docs/embedded.md differs");
}
