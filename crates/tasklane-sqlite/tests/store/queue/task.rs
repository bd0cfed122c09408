//! What producers call.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{
    DepthLimits, EventKind, IdempotencyKey, Priority, QueueName, QueueSettings, Refusal, Update,
    When, limits,
};
use tasklane_core::{NewTask, StateName};
use tasklane_sqlite::Queue;
use tasklane_sqlite::queue::{Cancellation, QueueError};
use tasklane_store::conformance::ManualClock;
use tasklane_store::{Cursor, Filter, Query};

use super::{LONG, field, new_task, state, submit, unknown_id};

fn in_queue(name: &str) -> NewTask {
    NewTask { queue: QueueName::new(name).unwrap(), ..new_task("a") }
}

#[test]
fn a_task_submitted_is_found_as_it_was_sent() {
    let queue = Queue::in_memory().unwrap();
    let task = NewTask { priority: Some(Priority::High), ..new_task("a") };
    let submitted = queue.submit(task).unwrap();
    assert!(!submitted.replayed);
    let found = queue.get(submitted.id).unwrap();
    assert_eq!(found.task.spec.priority, Priority::High);
    assert_eq!(&found.payload[..], b"payload");
    assert_eq!(queue.get(unknown_id()), Err(QueueError::NotFound(unknown_id())));
}

#[test]
fn the_same_key_gives_the_same_task_and_another_body_is_refused() {
    let queue = Queue::in_memory().unwrap();
    let key = Some(IdempotencyKey::new("k").unwrap());
    let task = NewTask { idempotency_key: key, ..new_task("a") };
    let first = queue.submit(task.clone()).unwrap();
    let second = queue.submit(task.clone()).unwrap();
    assert_eq!((second.id, second.replayed), (first.id, true));
    let other = NewTask { payload: "other".into(), ..task };
    assert_eq!(queue.submit(other), Err(QueueError::Mismatch { index: 0 }));
}

#[test]
fn a_batch_is_taken_whole_or_refused_whole() {
    let queue = Queue::in_memory().unwrap();
    let submitted = queue.submit_all(vec![new_task("a"), new_task("b")]).unwrap();
    assert_eq!(submitted.len(), 2);
    assert!(queue.submit_all(Vec::new()).unwrap().is_empty());
    let unacceptable = NewTask { max_retries: Some(101), ..new_task("a") };
    let refused = queue.submit_all(vec![new_task("a"), unacceptable]).unwrap_err();
    assert!(matches!(refused, QueueError::InvalidTask { index: 1, .. }), "{refused}");
    let far = When::After(Duration::from_secs(6 * 366 * 86_400));
    let far = NewTask { schedule: Some(far), ..new_task("a") };
    let refused = queue.submit_all(vec![new_task("a"), new_task("a"), far.clone()]).unwrap_err();
    assert!(matches!(refused, QueueError::InvalidTask { index: 2, .. }), "{refused}");
    assert_eq!(field(queue.submit(far)), "scheduled_at");
    let many = vec![new_task("a"); limits::BATCH_TASKS_MAX + 1];
    assert_eq!(field(queue.submit_all(many)), "tasks");
    assert_eq!(queue.stats().unwrap().total(StateName::Pending), 2);
}

#[test]
fn a_bounded_queue_refuses_what_is_too_much_and_takes_it_later() {
    let queue = Queue::builder().depth_limit(2).in_memory().unwrap();
    let full = QueueError::Full { queue: QueueName::default_queue(), for_all: true };
    let three = vec![new_task("a"), new_task("a"), new_task("a")];
    assert_eq!(queue.submit_all(three).unwrap_err(), full);
    let first = submit(&queue, new_task("a"));
    submit(&queue, new_task("a"));
    let critical = NewTask { priority: Some(Priority::Critical), ..new_task("a") };
    assert_eq!(queue.submit(critical.clone()).unwrap_err(), full);
    assert_eq!(queue.stats().unwrap().total(StateName::Pending), 2);
    submit(&queue, in_queue("other"));
    queue.cancel(first).unwrap();
    queue.submit(critical).unwrap();
}

#[test]
fn a_depth_limit_applies_to_what_is_stored_until_a_queue_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(folder.path()).unwrap();
    submit(&queue, new_task("a"));
    drop(queue);
    let queue = Queue::builder().depth_limit(1).open(folder.path()).unwrap();
    assert!(matches!(queue.submit(new_task("a")), Err(QueueError::Full { .. })));
    let depth = DepthLimits::flat(2);
    queue.configure("default", QueueSettings { depth, ..QueueSettings::default() }).unwrap();
    submit(&queue, new_task("a"));
    assert!(matches!(queue.submit(new_task("a")), Err(QueueError::Full { .. })));
}

#[test]
fn many_threads_can_use_one_queue_and_its_limit_holds() {
    let queue = Queue::builder().depth_limit(50).in_memory().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                (0..25).filter(|_| queue.submit(new_task("a")).is_ok()).count()
            })
        })
        .collect();
    let taken: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(taken, 50);
    assert_eq!(queue.queues().unwrap()[0].depth, 50);
}

#[test]
fn waiting_ends_with_the_task() {
    let queue = Queue::in_memory().unwrap();
    let id = submit(&queue, new_task("a"));
    let waiter = {
        let queue = queue.clone();
        std::thread::spawn(move || queue.wait(id, LONG))
    };
    queue.cancel(id).unwrap();
    assert_eq!(waiter.join().unwrap().unwrap().task.state.name(), StateName::Cancelled);
    assert_eq!(queue.wait(id, Duration::MAX).unwrap().task.id, id);
}

#[test]
fn waiting_in_vain_says_so() {
    let queue = Queue::in_memory().unwrap();
    let id = submit(&queue, new_task("a"));
    let current = StateName::Pending;
    for timeout in [Duration::ZERO, Duration::from_millis(1)] {
        assert_eq!(queue.wait(id, timeout), Err(QueueError::NotEnded { id, current }));
    }
    assert_eq!(queue.wait(unknown_id(), LONG), Err(QueueError::NotFound(unknown_id())));
}

#[test]
fn cancel_and_retry_follow_the_state() {
    let queue = Queue::in_memory().unwrap();
    let id = submit(&queue, new_task("a"));
    let refusal = Refusal::InvalidState { current: StateName::Pending };
    assert_eq!(queue.retry(id), Err(QueueError::Refused { id, refusal }));
    assert_eq!(queue.cancel(id), Ok(Cancellation::Done));
    let refusal = Refusal::InvalidState { current: StateName::Cancelled };
    assert_eq!(queue.cancel(id), Err(QueueError::Refused { id, refusal }));
    assert_eq!(queue.retry(id), Ok(StateName::Pending));
    assert_eq!(queue.cancel(unknown_id()), Err(QueueError::NotFound(unknown_id())));
    assert_eq!(queue.retry(unknown_id()), Err(QueueError::NotFound(unknown_id())));
}

#[test]
fn lists_come_in_pages_of_a_checked_size() {
    let queue = Queue::in_memory().unwrap();
    queue.submit_all(vec![new_task("a"); 3]).unwrap();
    let first = queue.list(Query::new(Filter::default(), 2)).unwrap();
    assert_eq!(first.tasks.len(), 2);
    let rest = Query { after: first.next, ..Query::new(Filter::default(), 2) };
    assert_eq!(queue.list(rest).unwrap().tasks.len(), 1);
    for limit in [0, 1_001] {
        assert_eq!(field(queue.list(Query::new(Filter::default(), limit))), "limit");
    }
}

#[test]
fn a_paused_queue_gives_no_tasks_until_it_is_resumed() {
    let queue = Queue::in_memory().unwrap();
    queue.pause("slow").unwrap();
    let worker = queue.worker().handle("a", |_, _| Ok(Vec::new())).start().unwrap();
    let paused = submit(&queue, in_queue("slow"));
    let open = submit(&queue, in_queue("fast"));
    queue.wait(open, LONG).unwrap();
    assert_eq!(state(&queue, paused), StateName::Pending);
    assert!(queue.queues().unwrap().iter().any(|known| known.settings.paused));
    queue.resume("slow").unwrap();
    queue.wait(paused, LONG).unwrap();
    worker.stop(LONG);
}

#[test]
fn settings_that_cannot_be_are_refused_and_change_nothing() {
    let queue = Queue::in_memory().unwrap();
    assert_eq!(field(queue.pause("")), "queue");
    assert_eq!(field(queue.resume("a:b")), "queue");
    assert_eq!(field(queue.configure("a{b", QueueSettings::default())), "queue");
    let depth = DepthLimits { normal: 3, high: 2, all: 1 };
    let settings = QueueSettings { depth, ..QueueSettings::default() };
    assert_eq!(field(queue.configure("a", settings)), "depth");
    assert!(queue.queues().unwrap().is_empty());
}

#[test]
fn a_scheduled_task_runs_when_the_clock_says_so() {
    let clock = Arc::new(ManualClock::default());
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let worker = queue.worker().handle("a", |_, _| Ok(Vec::new())).start().unwrap();
    let schedule = Some(When::After(Duration::from_secs(60)));
    let id = submit(&queue, NewTask { schedule, ..new_task("a") });
    assert_eq!(state(&queue, id), StateName::Scheduled);
    clock.advance(Duration::from_secs(60));
    assert_eq!(queue.wait(id, LONG).unwrap().task.state.name(), StateName::Completed);
    worker.stop(LONG);
}

#[test]
fn a_task_is_updated_traced_and_discarded() {
    let queue = Queue::in_memory().unwrap();
    let id = queue.submit(new_task("a")).unwrap().id;
    let update = Update { priority: Some(Priority::Critical), ..Update::default() };
    assert_eq!(queue.update(id, update).unwrap(), StateName::Pending);
    assert!(matches!(queue.discard(id), Err(QueueError::Refused { .. })), "discarded while live");
    queue.cancel(id).unwrap();
    let kinds: Vec<_> =
        queue.trail(id).unwrap().entries.iter().map(|entry| entry.event.kind()).collect();
    assert_eq!(kinds, [EventKind::Submitted, EventKind::Updated, EventKind::Cancelled]);
    queue.discard(id).unwrap();
    assert_eq!(queue.trail(id), Err(QueueError::NotFound(id)));
    let page = queue.events_after(Cursor::OLDEST, 100).unwrap();
    assert_eq!((page.events.len(), page.gap), (4, false));
}
