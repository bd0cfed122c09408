//! The kinds of events by number, so that a filter is one bit each.

use tasklane_store::Subject;

/// The words, in the order of their numbers: tasks, workers, queues, and what is told besides.
pub(super) const KINDS: [&str; 33] = [
    "task.submitted",
    "task.scheduled",
    "task.due",
    "task.unblocked",
    "task.promoted",
    "task.claimed",
    "task.started",
    "task.progress",
    "task.completed",
    "task.retrying",
    "task.failed",
    "task.dead_lettered",
    "task.cancelled",
    "task.cancel_requested",
    "task.released",
    "task.lease_lost",
    "task.requeued",
    "task.replayed",
    "task.updated",
    "task.discarded",
    "worker.joined",
    "worker.left",
    "worker.paused",
    "worker.resumed",
    "worker.draining",
    "worker.unhealthy",
    "worker.dead",
    "queue.paused",
    "queue.resumed",
    "queue.updated",
    "queue.purged",
    QUEUE_DEPTH,
    SYSTEM_METRICS,
];
const _: () = assert!(KINDS.len() <= u64::BITS as usize);
const FIRST_OF_WORKERS: usize = 20;
const FIRST_OF_QUEUES: usize = 27;

/// What waits in a queue.
pub(super) const QUEUE_DEPTH: &str = "queue.depth";
/// Figures of the whole store.
pub(super) const SYSTEM_METRICS: &str = "system.metrics";
/// Kinds that may come some day: asking for them is no mistake.
pub(super) const TO_COME: [&str; 3] = ["workflow.", "schedule.", "system."];

/// The number of an event's kind.
pub(super) fn number(subject: &Subject) -> usize {
    match subject {
        Subject::Task(notice) => notice.kind as usize,
        Subject::Worker(_, change) => FIRST_OF_WORKERS + *change as usize,
        Subject::Queue(_, change) => FIRST_OF_QUEUES + *change as usize,
    }
}

/// The word with this number.
pub(super) fn word(number: usize) -> &'static str {
    KINDS.get(number).copied().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::EventKind;
    use tasklane_store::{QueueChange, WorkerChange};

    #[test]
    fn words_and_numbers_agree() {
        for kind in EventKind::ALL {
            assert_eq!(KINDS[kind as usize], format!("task.{}", kind.as_str()));
        }
        let worker = |change: WorkerChange| KINDS[FIRST_OF_WORKERS + change as usize];
        for change in WorkerChange::ALL {
            assert_eq!(worker(change), format!("worker.{change:?}").to_lowercase());
        }
        for change in QueueChange::ALL {
            let word = KINDS[FIRST_OF_QUEUES + change as usize];
            assert_eq!(word, format!("queue.{change:?}").to_lowercase());
        }
    }
}
