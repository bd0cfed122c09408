//! Handlers: what they get, what they may say, and how they are stopped.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use tasklane_core::lifecycle::Rules;
use tasklane_core::{
    Capability, CapabilitySet, ClassifyBy, ClassifyRule, DeadReason, ErrorKind, NewTask,
    OrderingKey, QueueName, State, StateName, Task,
};
use tasklane_sqlite::Queue;
use tasklane_sqlite::queue::{Cancellation, TaskError, Worker};

use super::{LONG, field, new_task, state, submit};

/// A worker for type `a` that answers with one error.
fn failing(queue: &Queue, error: fn() -> TaskError) -> Worker {
    queue.worker().handle("a", move |_, _| Err(error())).start().unwrap()
}

/// Runs one task of type `a` to its end.
fn ended(queue: &Queue) -> Task {
    let id = submit(queue, new_task("a"));
    queue.wait(id, LONG).unwrap().task
}

fn kind(task: &Task) -> ErrorKind {
    task.error.as_ref().unwrap().kind
}

/// A worker whose handler reports its start, waits for a reason to stop, and answers.
fn waiting(queue: &Queue, answer: fn() -> Result<Vec<u8>, TaskError>) -> (Worker, Receiver<bool>) {
    let (sender, receiver): (SyncSender<bool>, _) = mpsc::sync_channel(16);
    let worker = queue.worker().handle("a", move |context, _| {
        sender.send(context.is_cancelled()).unwrap();
        sender.send(context.wait_cancelled(LONG)).unwrap();
        answer()
    });
    (worker.start().unwrap(), receiver)
}

#[test]
fn a_parked_worker_picks_a_task_up_at_once() {
    let queue = Queue::in_memory().unwrap();
    let (sender, receiver) = mpsc::sync_channel(1);
    let worker = queue.worker().handle("a", move |_, payload| {
        sender.send(Instant::now()).unwrap();
        Ok(payload.to_vec())
    });
    let worker = worker.start().unwrap();
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        let submitted = Instant::now();
        let id = submit(&queue, new_task("a"));
        let picked_up = receiver.recv_timeout(LONG).unwrap();
        fastest = fastest.min(picked_up.duration_since(submitted));
        assert_eq!(queue.wait(id, LONG).unwrap().result.as_deref(), Some(&b"payload"[..]));
    }
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
    worker.stop(LONG);
}

#[test]
fn as_many_handlers_run_at_once_as_there_is_capacity() {
    let queue = Queue::in_memory().unwrap();
    let meeting = Arc::new(Barrier::new(4));
    let worker = queue.worker().capacity(4).handle("a", move |_, _| {
        meeting.wait();
        Ok(Vec::new())
    });
    let worker = worker.start().unwrap();
    for submitted in queue.submit_all(vec![new_task("a"); 8]).unwrap() {
        queue.wait(submitted.id, LONG).unwrap();
    }
    worker.stop(LONG);
}

#[test]
fn a_failure_is_retried_and_counted() {
    let queue = Queue::in_memory().unwrap();
    let worker = queue.worker().handle("a", |context, _| match context.attempt() {
        3 => Ok(b"third".to_vec()),
        _ => Err(TaskError::transient("not yet").retry_after(Duration::from_millis(1))),
    });
    let worker = worker.start().unwrap();
    let id = submit(&queue, new_task("a"));
    let ended = queue.wait(id, LONG).unwrap();
    assert_eq!(ended.task.counts.attempts, 3);
    assert_eq!(ended.result.as_deref(), Some(&b"third"[..]));
    worker.stop(LONG);
}

#[test]
fn a_release_costs_no_attempt() {
    let queue = Queue::in_memory().unwrap();
    let worker = queue.worker().handle("a", |context, _| match context.task().counts.deliveries {
        1 => Err(TaskError::release_after(Duration::from_millis(1))),
        _ => Ok(Vec::new()),
    });
    let worker = worker.start().unwrap();
    let task = ended(&queue);
    assert_eq!((task.counts.attempts, task.counts.deliveries), (1, 2));
    worker.stop(LONG);
}

#[test]
fn a_panic_is_a_bug_and_the_thread_goes_on() {
    let queue = Queue::in_memory().unwrap();
    let worker = queue.worker().handle("a", |_, _| panic!("oh no")).handle("b", |_, _| Ok(vec![]));
    let worker = worker.start().unwrap();
    let task = ended(&queue);
    assert_eq!(task.error.as_ref().unwrap().message.as_ref(), "the handler panicked: oh no");
    assert_eq!(kind(&task), ErrorKind::Bug);
    let reason = DeadReason::NotRetryable;
    assert!(matches!(task.state, State::DeadLetter { reason: found, .. } if found == reason));
    let next = submit(&queue, new_task("b"));
    assert_eq!(queue.wait(next, LONG).unwrap().task.state.name(), StateName::Completed);
    worker.stop(LONG);
}

#[test]
fn an_answer_that_cannot_be_stored_is_a_bug() {
    let queue = Queue::in_memory().unwrap();
    let worker = queue.worker().handle("a", |_, _| Ok(vec![0; 16 * 1024 * 1024 + 1]));
    let worker = worker.start().unwrap();
    assert_eq!(kind(&ended(&queue)), ErrorKind::Bug);
    worker.stop(LONG);
    let worker = failing(&queue, || TaskError::transient("x").retry_after(Duration::MAX));
    assert_eq!(kind(&ended(&queue)), ErrorKind::Bug);
    worker.stop(LONG);
}

#[test]
fn errors_keep_their_kind_and_code() {
    let kinds: [(fn() -> TaskError, ErrorKind); 8] = [
        (|| TaskError::transient("x"), ErrorKind::Transient),
        (|| TaskError::rate_limited("x", Duration::from_secs(1)), ErrorKind::RateLimited),
        (|| TaskError::timeout("x"), ErrorKind::Timeout),
        (|| TaskError::resource("x"), ErrorKind::Resource),
        (|| TaskError::unknown("x"), ErrorKind::Unknown),
        (|| TaskError::permanent("x"), ErrorKind::Permanent),
        (|| TaskError::bug("x"), ErrorKind::Bug),
        (|| std::io::Error::other("disk 7 is gone").into(), ErrorKind::Resource),
    ];
    let queue = Queue::in_memory().unwrap();
    for (index, (error, expected)) in kinds.into_iter().enumerate() {
        let when = ClassifyBy::MessageContains("disk".into());
        let rules = vec![ClassifyRule { when, kind: ErrorKind::Resource }];
        let worker = queue.worker().classify(rules).handle("a", move |_, _| {
            Err(error().with_code("E7").with_details("{}").not_retryable())
        });
        let worker = worker.start().unwrap();
        let task = ended(&queue);
        let code = task.error.as_ref().unwrap().code.as_deref();
        assert_eq!((kind(&task), code), (expected, Some("E7")), "{index}");
        worker.stop(LONG);
    }
}

#[test]
fn a_running_handler_learns_that_it_is_cancelled() {
    let queue = Queue::in_memory().unwrap();
    let (worker, told) = waiting(&queue, || Err(TaskError::cancelled()));
    let id = submit(&queue, new_task("a"));
    assert!(!told.recv_timeout(LONG).unwrap());
    assert_eq!(queue.cancel(id), Ok(Cancellation::Requested));
    assert!(told.recv_timeout(LONG).unwrap());
    assert_eq!(queue.wait(id, LONG).unwrap().task.state.name(), StateName::Cancelled);
    worker.stop(LONG);
}

#[test]
fn a_completion_that_comes_first_wins_over_a_cancellation() {
    let queue = Queue::in_memory().unwrap();
    let (worker, told) = waiting(&queue, || Ok(b"done".to_vec()));
    let id = submit(&queue, new_task("a"));
    told.recv_timeout(LONG).unwrap();
    queue.cancel(id).unwrap();
    assert_eq!(queue.wait(id, LONG).unwrap().task.state.name(), StateName::Completed);
    worker.stop(LONG);
}

#[test]
fn an_attempt_that_runs_too_long_is_told_and_fails_as_a_timeout() {
    let queue = Queue::in_memory().unwrap();
    let (worker, told) = waiting(&queue, || Ok(b"too late".to_vec()));
    let timeout = Some(Duration::from_millis(500));
    let task = NewTask { timeout, max_retries: Some(0), ..new_task("a") };
    let ended = queue.wait(submit(&queue, task), LONG).unwrap();
    assert_eq!((kind(&ended.task), ended.result), (ErrorKind::Timeout, None));
    assert!(!told.recv_timeout(LONG).unwrap() && told.recv_timeout(LONG).unwrap());
    assert_eq!(worker.stop(LONG).released, 0);
}

#[test]
fn leases_are_renewed_as_long_as_a_handler_runs() {
    let lease = Duration::from_secs(3);
    let rules = Rules { lease, silence: lease * 100, ..Rules::default() };
    let queue = Queue::builder().rules(rules).in_memory().unwrap();
    let worker = queue.worker().handle("a", move |context, _| {
        assert!(!context.wait_cancelled(lease * 3 / 2));
        Ok(Vec::new())
    });
    let worker = worker.start().unwrap();
    let task = ended(&queue);
    assert_eq!((task.state.name(), task.counts.deliveries), (StateName::Completed, 1));
    worker.stop(LONG);
}

#[test]
fn progress_is_shown_and_checked() {
    let queue = Queue::in_memory().unwrap();
    let worker = queue.worker().handle("a", |context, _| {
        context.progress(40.0, "almost").map_err(|error| TaskError::bug(error.to_string()))?;
        let refused = context.progress(101.0, "").unwrap_err();
        Ok(refused.to_string().into_bytes())
    });
    let worker = worker.start().unwrap();
    let ended = queue.wait(submit(&queue, new_task("a")), LONG).unwrap();
    let progress = ended.task.progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_deref()), (Some(40.0), Some("almost")));
    assert_eq!(ended.result.as_deref(), Some(&b"percent: must be 0 to 100"[..]));
    worker.stop(LONG);
}

#[test]
fn only_what_fits_types_queues_and_capabilities_is_claimed() {
    let queue = Queue::in_memory().unwrap();
    let gpu = CapabilitySet::new([Capability::new("gpu").unwrap()]).unwrap();
    let tpu = CapabilitySet::new([Capability::new("tpu").unwrap()]).unwrap();
    let other = QueueName::new("other").unwrap();
    let not_taken = [
        new_task("b"),
        NewTask { queue: other, ..new_task("a") },
        NewTask { capabilities: tpu, ..new_task("a") },
    ];
    let not_taken: Vec<_> = not_taken.map(|task| submit(&queue, task)).into();
    let taken = submit(&queue, NewTask { capabilities: gpu, ..new_task("a") });
    let worker = queue.worker().queues(["default"]).capabilities(["gpu", "eu"]).name("picky");
    let worker = worker.handle("a", |_, _| Ok(Vec::new())).start().unwrap();
    queue.wait(taken, LONG).unwrap();
    worker.stop(LONG);
    for id in not_taken {
        assert_eq!(state(&queue, id), StateName::Pending);
    }
}

#[test]
fn a_task_that_frees_its_ordering_key_is_followed_by_the_next() {
    let queue = Queue::in_memory().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = queue.worker().capacity(4).handle("a", {
        let seen = seen.clone();
        move |context, _| {
            seen.lock().unwrap().push(context.task().id);
            Ok(Vec::new())
        }
    });
    let worker = worker.start().unwrap();
    let ordering_key = Some(OrderingKey::new("k").unwrap());
    let task = NewTask { ordering_key, ..new_task("a") };
    let ids: Vec<_> =
        queue.submit_all(vec![task; 5]).unwrap().iter().map(|submitted| submitted.id).collect();
    queue.wait(ids[4], LONG).unwrap();
    assert_eq!(*seen.lock().unwrap(), ids);
    worker.stop(LONG);
}

#[test]
fn stopping_lets_running_handlers_finish_and_claims_nothing_more() {
    let queue = Queue::in_memory().unwrap();
    let (sender, started) = mpsc::sync_channel(100);
    let worker = queue.worker().handle("a", move |context, _| {
        sender.send(context.task().id).unwrap();
        assert!(!context.wait_cancelled(Duration::from_millis(50)));
        Ok(Vec::new())
    });
    let worker = worker.start().unwrap();
    queue.submit_all(vec![new_task("a"); 100]).unwrap();
    let first = started.recv_timeout(LONG).unwrap();
    // What was claimed and not begun when the stop came is given back.
    assert!(worker.stop(LONG).released <= 1);
    assert_eq!(state(&queue, first), StateName::Completed);
    let stats = queue.stats().unwrap();
    let begun = 1 + started.iter().count() as u64;
    assert_eq!(stats.total(StateName::Completed), begun);
    assert_eq!(stats.total(StateName::Pending), 100 - begun);
}

#[test]
fn what_does_not_finish_in_time_is_given_back_and_costs_no_attempt() {
    let queue = Queue::in_memory().unwrap();
    let (worker, told) = waiting(&queue, || Ok(b"too late".to_vec()));
    let id = submit(&queue, new_task("a"));
    told.recv_timeout(LONG).unwrap();
    assert_eq!(worker.stop(Duration::from_millis(1)).released, 1);
    let found = queue.get(id).unwrap();
    assert_eq!((found.task.state.name(), found.result), (StateName::Pending, None));
    assert_eq!((found.task.counts.attempts, found.task.counts.lease_losses), (0, 0));
    let worker = queue.worker().handle("a", |_, _| Ok(Vec::new())).start().unwrap();
    assert_eq!(queue.wait(id, LONG).unwrap().task.state.name(), StateName::Completed);
    worker.stop(LONG);
}

#[test]
fn dropping_a_worker_stops_it() {
    let queue = Queue::in_memory().unwrap();
    let (worker, told) = waiting(&queue, || Ok(Vec::new()));
    let id = submit(&queue, new_task("a"));
    told.recv_timeout(LONG).unwrap();
    drop(worker);
    assert!(told.recv().unwrap() && told.recv().is_err());
    assert_eq!(state(&queue, id), StateName::Pending);
}

#[test]
fn a_handler_can_submit_and_a_worker_is_refused_what_makes_no_sense() {
    let queue = Queue::in_memory().unwrap();
    let inner = queue.clone();
    let worker = queue.worker().handle("a", move |_, _| {
        let id = inner.submit(new_task("b"))?.id;
        Ok(id.to_string().into_bytes())
    });
    let worker = worker.start().unwrap();
    let parent = queue.wait(submit(&queue, new_task("a")), LONG).unwrap();
    let child = String::from_utf8(parent.result.unwrap().to_vec()).unwrap().parse().unwrap();
    assert_eq!(state(&queue, child), StateName::Pending);
    worker.stop(LONG);

    let done = |_: &_, _: &[u8]| Ok(Vec::new());
    assert_eq!(field(queue.worker().start()), "handle");
    assert_eq!(field(queue.worker().handle("a", done).handle("a", done).start()), "handle");
    assert_eq!(field(queue.worker().handle("a:b", done).start()), "type");
    assert_eq!(field(queue.worker().capacity(0).handle("a", done).start()), "capacity");
    assert_eq!(field(queue.worker().capacity(1_025).handle("a", done).start()), "capacity");
    assert_eq!(field(queue.worker().queues([""]).handle("a", done).start()), "queue");
    assert_eq!(field(queue.worker().queues([""; 0]).handle("a", done).start()), "queues");
    assert_eq!(field(queue.worker().capabilities(["\0"]).handle("a", done).start()), "capability");
    assert_eq!(field(queue.worker().name("x".repeat(129)).handle("a", done).start()), "name");
}
