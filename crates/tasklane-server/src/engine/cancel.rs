//! Tasks that their workers were asked to stop, as the feed tells of them: for the answers to results
//! (S10). A memory and no truth: before a worker is told, the store is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasklane_core::{EventKind, StateName, TaskId, WorkerId};
use tasklane_store::{StoredTask, TaskNotice};

use super::Engine;
use crate::limits::{CANCELS_REMEMBERED_MAX, CANCELS_TOLD_AT_ONCE};

/// What workers are to be told. A heartbeat tells what was forgotten here, or was in an answer that got
/// lost.
#[derive(Debug, Default)]
pub(super) struct Cancels {
    /// How many. Nearly always none, and then an answer costs no more than to look here.
    count: AtomicUsize,
    asked: Mutex<HashMap<WorkerId, Vec<TaskId>>>,
}

impl Cancels {
    /// Notes what happened to tasks.
    pub(super) fn heard<'a>(&self, notices: impl Iterator<Item = &'a TaskNotice>) {
        for notice in notices {
            let Some(worker) = notice.worker else { continue };
            if notice.kind == EventKind::CancelRequested {
                self.note(worker, notice.id);
            } else if notice.from.is_some_and(is_held) && !is_held(notice.to) {
                self.strike(worker, notice.id);
            }
        }
    }

    /// Some of what a worker is to be told, once.
    fn take(&self, worker: WorkerId) -> Vec<TaskId> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut asked = self.lock();
        let Some(own) = asked.get_mut(&worker) else { return Vec::new() };
        let rest = own.split_off(own.len().min(CANCELS_TOLD_AT_ONCE));
        let taken = std::mem::replace(own, rest);
        self.count.fetch_sub(taken.len(), Ordering::Relaxed);
        if own.is_empty() {
            asked.remove(&worker);
        }
        taken
    }

    /// The feed has a gap: nobody knows what became of these.
    pub(super) fn forget(&self) {
        let mut asked = self.lock();
        asked.clear();
        self.count.store(0, Ordering::Relaxed);
    }

    fn note(&self, worker: WorkerId, task: TaskId) {
        let mut asked = self.lock();
        if self.count.load(Ordering::Relaxed) < CANCELS_REMEMBERED_MAX {
            asked.entry(worker).or_default().push(task);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn strike(&self, worker: WorkerId, task: TaskId) {
        if self.is_empty() {
            return;
        }
        let mut asked = self.lock();
        let Some(own) = asked.get_mut(&worker) else { return };
        let before = own.len();
        own.retain(|other| *other != task);
        self.count.fetch_sub(before - own.len(), Ordering::Relaxed);
        if own.is_empty() {
            asked.remove(&worker);
        }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Vec<TaskId>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_held(state: StateName) -> bool {
    matches!(state, StateName::Assigned | StateName::Running)
}

impl Engine {
    /// Tasks that a worker holds and should stop, as far as it was not told before.
    pub async fn asked_to_stop(&self, worker: WorkerId) -> Vec<TaskId> {
        let asked = self.cancels.take(worker);
        if asked.is_empty() {
            return asked;
        }
        // What was settled or taken away since is not held any more, and another attempt goes on.
        match self.store.get(asked).await {
            Ok(found) => {
                let still = found.into_iter().flatten().filter(|stored| stops(stored, worker));
                still.map(|stored| stored.task.id).collect()
            }
            Err(error) => {
                tracing::warn!(%error, %worker, "what to stop is left to its next heartbeat");
                Vec::new()
            }
        }
    }
}

fn stops(stored: &StoredTask, worker: WorkerId) -> bool {
    let lease = stored.task.state.lease();
    lease.is_some_and(|lease| lease.worker == worker && lease.cancel_requested.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::notice;

    fn task(number: u16) -> TaskId {
        let mut bytes = [0; 16];
        (bytes[6], bytes[8]) = (0x70, 0x80);
        bytes[14..].copy_from_slice(&number.to_be_bytes());
        TaskId::from_bytes(bytes).unwrap()
    }

    fn happened(cancels: &Cancels, kind: EventKind, worker: WorkerId, number: u16, to: StateName) {
        let (id, from) = (task(number), Some(StateName::Running));
        let notice = TaskNotice { id, from, to, worker: Some(worker), ..notice(kind) };
        cancels.heard([&notice].into_iter());
    }

    fn asked(cancels: &Cancels, worker: WorkerId, number: u16) {
        happened(cancels, EventKind::CancelRequested, worker, number, StateName::Running);
    }

    #[test]
    fn each_worker_is_told_its_own_once() {
        let [one, other] = [1, 2].map(|byte| WorkerId::from_bytes([byte; 16]));
        let cancels = Cancels::default();
        asked(&cancels, one, 1);
        asked(&cancels, other, 2);
        assert_eq!(cancels.take(one), [task(1)]);
        assert!(cancels.take(one).is_empty());
        assert_eq!(cancels.take(other), [task(2)]);
        assert!(cancels.is_empty() && cancels.lock().is_empty());
    }

    #[test]
    fn what_is_held_no_more_is_not_told() {
        let worker = WorkerId::from_bytes([1; 16]);
        let cancels = Cancels::default();
        for number in 1..=3 {
            asked(&cancels, worker, number);
        }
        happened(&cancels, EventKind::LeaseLost, worker, 1, StateName::Pending);
        happened(&cancels, EventKind::Progressed, worker, 2, StateName::Running);
        happened(&cancels, EventKind::Cancelled, worker, 3, StateName::Cancelled);
        assert_eq!(cancels.take(worker), [task(2)]);
        asked(&cancels, worker, 4);
        cancels.forget();
        assert!(cancels.take(worker).is_empty() && cancels.is_empty());
    }

    #[test]
    fn what_is_remembered_and_told_at_once_is_bounded() {
        let worker = WorkerId::from_bytes([1; 16]);
        let cancels = Cancels::default();
        for number in 0..=CANCELS_REMEMBERED_MAX {
            asked(&cancels, worker, u16::try_from(number).unwrap());
        }
        assert_eq!(cancels.count.load(Ordering::Relaxed), CANCELS_REMEMBERED_MAX);
        let first: Vec<_> = (0..).take(CANCELS_TOLD_AT_ONCE).map(task).collect();
        assert_eq!(cancels.take(worker), first);
        assert_eq!(cancels.take(worker).len(), CANCELS_TOLD_AT_ONCE);
    }
}
