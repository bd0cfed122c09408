//! What operators call.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tasklane_core::{NewTask, QueueSettings, Refusal, Retention, StateName, When};
use tasklane_sqlite::queue::{QueueError, TaskError};
use tasklane_sqlite::{Options, Queue, restore};
use tasklane_store::StoreError;
use tasklane_store::conformance::{ManualClock, block_on};

use super::{LONG, field, new_task, state, submit, unknown_id};

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_clean_up_removes_what_retention_says_and_reports_it() {
    let clock = Arc::new(ManualClock::default());
    let retention = Retention { cancelled: Some(HOUR), ..Retention::default() };
    let builder = Queue::builder().clock(clock.clone()).retention(retention);
    let queue = builder.in_memory().unwrap();
    let (old, live) = (submit(&queue, new_task("a")), submit(&queue, new_task("a")));
    queue.cancel(old).unwrap();
    assert_eq!(queue.clean_up().unwrap().tasks_total(), 0);
    clock.advance(2 * HOUR);
    let report = queue.clean_up().unwrap();
    assert_eq!(report.tasks[StateName::Cancelled.index()], 1);
    assert_eq!((report.tasks_total(), report.more), (1, false));
    assert_eq!(queue.get(old), Err(QueueError::NotFound(old)));
    clock.advance(48 * HOUR);
    assert!(queue.clean_up().unwrap().events > 0);
    assert_eq!(state(&queue, live), StateName::Pending);
}

#[test]
fn old_idempotency_records_are_counted_in_the_report() {
    let clock = Arc::new(ManualClock::default());
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let key = Some(tasklane_core::IdempotencyKey::new("k").unwrap());
    let id = submit(&queue, NewTask { idempotency_key: key, ..new_task("a") });
    queue.cancel(id).unwrap();
    clock.advance(48 * HOUR);
    assert_eq!(queue.clean_up().unwrap().idempotency_records, 1);
}

#[test]
fn the_queue_cleans_up_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Queue::builder().retention(Retention::NOTHING);
    let queue = builder.clean_up_every(Duration::from_millis(1)).open(folder.path()).unwrap();
    let id = submit(&queue, new_task("a"));
    queue.cancel(id).unwrap();
    // Whether the end is seen before or after the removal is a race; that it is removed is not.
    let refused = loop {
        if let Err(refused) = queue.get(id) {
            break refused;
        }
        std::thread::yield_now();
    };
    assert_eq!(refused, QueueError::NotFound(id));
}

#[test]
fn an_emergency_clean_up_removes_all_that_has_ended_and_nothing_that_lives() {
    let queue = Queue::in_memory().unwrap();
    let forever = Retention { cancelled: None, ..Retention::default() };
    let settings = QueueSettings { retention: Some(forever), ..QueueSettings::default() };
    queue.configure("default", settings).unwrap();
    let ended = queue.submit_all(vec![new_task("a"); 2_500]).unwrap();
    for submitted in &ended {
        queue.cancel(submitted.id).unwrap();
    }
    let live = submit(&queue, new_task("a"));
    assert_eq!(queue.clean_up().unwrap().tasks_total(), 0);
    let report = queue.emergency_clean_up().unwrap();
    assert_eq!(report.tasks[StateName::Cancelled.index()], 2_500);
    assert_eq!((report.tasks_total(), report.more), (2_500, false));
    assert_eq!(state(&queue, live), StateName::Pending);
    assert_eq!(queue.emergency_clean_up().unwrap().tasks_total(), 0);
}

#[test]
fn what_is_stuck_is_listed_and_requeued_and_its_late_result_is_dropped() {
    let clock = Arc::new(ManualClock::default());
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let (started, is_started) = mpsc::sync_channel(2);
    let worker = queue.worker().capacity(2).handle("a", move |context, _| {
        started.send(context.fence()).unwrap();
        let lost = context.task().counts.deliveries == 1 && context.wait_cancelled(LONG);
        Ok(if lost { b"late".to_vec() } else { b"good".to_vec() })
    });
    let worker = worker.start().unwrap();
    let id = submit(&queue, new_task("a"));
    let first = is_started.recv_timeout(LONG).unwrap();
    assert!(queue.stuck(Duration::from_secs(5)).unwrap().is_empty());
    clock.advance(Duration::from_secs(10));
    let stuck = queue.stuck(Duration::from_secs(5)).unwrap();
    assert_eq!(stuck.iter().map(|task| task.id).collect::<Vec<_>>(), [id]);
    assert!(queue.stuck(Duration::from_secs(60)).unwrap().is_empty());
    let report = queue.requeue(vec![id]).unwrap();
    assert_eq!((report.requeued, report.refused), (vec![id], vec![]));
    assert!(is_started.recv_timeout(LONG).unwrap() > first);
    let ended = queue.wait(id, LONG).unwrap();
    assert_eq!(ended.result.as_deref(), Some(&b"good"[..]));
    assert_eq!(worker.stop(LONG).released, 0);
    assert_eq!(queue.get(id).unwrap().result.as_deref(), Some(&b"good"[..]));
}

#[test]
fn requeueing_says_why_not() {
    let queue = Queue::in_memory().unwrap();
    let waiting = submit(&queue, new_task("a"));
    let report = queue.requeue(vec![waiting, unknown_id()]).unwrap();
    let refusal = Refusal::InvalidState { current: StateName::Pending };
    let expected = vec![
        (waiting, QueueError::Refused { id: waiting, refusal }),
        (unknown_id(), QueueError::NotFound(unknown_id())),
    ];
    assert_eq!((report.requeued, report.refused), (vec![], expected));
    assert_eq!(queue.requeue(Vec::new()), Ok(Default::default()));
    assert_eq!(field(queue.requeue(vec![waiting; 10_001])), "ids");
}

#[test]
fn requeueing_what_was_asked_to_stop_cancels_it() {
    let queue = Queue::in_memory().unwrap();
    let (started, is_started) = mpsc::sync_channel(1);
    let (go, may_go) = mpsc::sync_channel::<()>(1);
    let may_go = std::sync::Mutex::new(may_go);
    let worker = queue.worker().handle("a", move |_, _| {
        started.send(()).unwrap();
        let _ = may_go.lock().unwrap().recv();
        Err(TaskError::transient("too late"))
    });
    let worker = worker.start().unwrap();
    let id = submit(&queue, new_task("a"));
    is_started.recv_timeout(LONG).unwrap();
    queue.cancel(id).unwrap();
    assert_eq!(queue.requeue(vec![id]).unwrap().cancelled, [id]);
    drop(go);
    worker.stop(LONG);
    assert_eq!(state(&queue, id), StateName::Cancelled);
}

#[test]
fn a_backup_restores_to_a_queue_with_the_same_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let (copy, other) = (folder.path().join("copy.db"), folder.path().join("other"));
    let queue = Queue::open(folder.path().join("queue")).unwrap();
    let id = submit(&queue, new_task("a"));
    queue.backup(&copy).unwrap();
    block_on(restore(&copy, &other, &Options::default())).unwrap();
    assert_eq!(state(&Queue::open(&other).unwrap(), id), StateName::Pending);
}

#[test]
fn a_backup_to_a_bad_place_is_refused_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    for queue in [Queue::in_memory(), Queue::open(folder.path().join("queue"))] {
        let queue = queue.unwrap();
        for path in [&taken, folder.path(), "".as_ref(), "/".as_ref()] as [&std::path::Path; 4] {
            assert_eq!(field(queue.backup(path)), "path", "{path:?}");
        }
        assert_eq!(field(queue.backup(folder.path().join("no/where"))), "path");
        assert_eq!(field(queue.backup(taken.join("below"))), "path");
        queue.submit(new_task("a")).unwrap();
    }
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
}

#[test]
fn a_queue_in_memory_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::in_memory().unwrap();
    let refused = queue.backup(folder.path().join("copy.db")).unwrap_err();
    assert!(matches!(refused, QueueError::Store(StoreError::Unsupported(_))), "{refused}");
    queue.submit(new_task("a")).unwrap();
}

#[test]
fn a_healthy_queue_has_no_findings_and_no_trouble() {
    let queue = Queue::in_memory().unwrap();
    let schedule = Some(When::After(HOUR));
    submit(&queue, NewTask { schedule, ..new_task("a") });
    assert!(queue.check().unwrap().is_empty());
    let status = queue.status();
    assert_eq!((status.durability.as_str(), status.trouble), ("memory", None));
    assert_eq!((status.maintenance_error, status.clean_up_error), (None, None));
    assert_eq!(status.worker_error, None);
}

#[test]
fn a_backup_is_restored_without_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::open(folder.path().join("live")).unwrap();
    let id = queue.submit(new_task("a")).unwrap().id;
    let (copy, target) = (folder.path().join("copy.db"), folder.path().join("v1.2"));
    queue.backup(&copy).unwrap();
    let bystander = folder.path().join("v1.restoring");
    std::fs::create_dir(&bystander).unwrap();
    Queue::restore(&copy, &target).unwrap();
    assert!(bystander.exists(), "a folder of somebody else was removed");
    assert!(Queue::restore(&copy, &target).is_err(), "a store was overwritten");
    let restored = Queue::open(&target).unwrap();
    assert_eq!(restored.get(id).unwrap().task.id, id);
    assert!(restored.workers().unwrap().is_empty());
}
