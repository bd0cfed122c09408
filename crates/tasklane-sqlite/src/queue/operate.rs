//! What operators call: clean up, find what is stuck, copy, check.

use std::path::Path;
use std::time::Duration;

use tasklane_core::{Command, Intent, Invalid, Problem, StateName, Task, TaskId, limits};
use tasklane_store::{Durability, Filter, Finding, Prune, Pruned, Query, Store, StoreError};

use super::Queue;
use super::block::block_on;
use super::error::QueueError;

/// Slices in a row that may remove nothing before a clean-up gives up: enough to step over a
/// million records that are still needed.
const EMPTY_SLICES_MAX: usize = 1_000;

/// How the queue is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStatus {
    /// What the success of a write means.
    pub durability: Durability,
    /// Why the store takes no writes; `None` when it does.
    pub trouble: Option<String>,
    /// Why the last round of maintenance failed; `None` once one goes well again.
    pub maintenance_error: Option<StoreError>,
    /// Why the last clean-up of the queue's own failed.
    pub clean_up_error: Option<StoreError>,
    /// Why a worker's last call failed.
    pub worker_error: Option<StoreError>,
}

/// What came of requeueing tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requeued {
    /// These wait for a worker again.
    pub requeued: Vec<TaskId>,
    /// These had been asked to stop, and are cancelled instead.
    pub cancelled: Vec<TaskId>,
    /// These are as they were, and why.
    pub refused: Vec<(TaskId, QueueError)>,
}

impl Queue {
    /// Removes what has been kept long enough, without waiting for the next clean-up. The report
    /// says what was removed; `more` only if it had to give up before the end.
    pub fn clean_up(&self) -> Result<Pruned, QueueError> {
        self.prune(self.core.prune)
    }

    /// Removes every task that has ended, whatever retention says.
    pub fn emergency_clean_up(&self) -> Result<Pruned, QueueError> {
        self.prune(Prune::emergency())
    }

    /// Tasks that a worker has had in one state for longer than this.
    pub fn stuck(&self, older_than: Duration) -> Result<Vec<Task>, QueueError> {
        let filter = Filter {
            states: vec![StateName::Assigned, StateName::Running],
            in_state_before: Some(self.stats()?.now.minus(older_than)),
            ..Filter::default()
        };
        let mut query = Query::new(filter, limits::PAGE_MAX);
        let mut stuck = Vec::new();
        loop {
            let page = self.list(query.clone())?;
            stuck.extend(page.tasks.into_iter().map(|found| found.task));
            query.after = page.next;
            if query.after.is_none() {
                return Ok(stuck);
            }
        }
    }

    /// All workers known, the dead ones included until they are cleaned up.
    pub fn workers(&self) -> Result<Vec<tasklane_core::Worker>, QueueError> {
        Ok(block_on(self.core.store.workers())?)
    }

    /// Makes a new store in `folder` from a backup; open it afterwards. Every lease is void in it.
    pub fn restore(copy: impl AsRef<Path>, folder: impl AsRef<Path>) -> Result<(), QueueError> {
        let options = crate::Options::default();
        Ok(block_on(crate::restore(copy.as_ref(), folder.as_ref(), &options))?)
    }

    /// Takes tasks from their workers, or ends their backoff: they wait for a worker again.
    pub fn requeue(&self, ids: Vec<TaskId>) -> Result<Requeued, QueueError> {
        if ids.len() > limits::BATCH_TASKS_MAX {
            let max = limits::BATCH_TASKS_MAX;
            return Err(Invalid::new("ids", Problem::TooMany { max }).into());
        }
        let mut report = Requeued::default();
        let command = |task: &TaskId| Command { task: *task, intent: Intent::Requeue };
        for slice in ids.chunks(limits::SLICE_TASKS) {
            let commands = slice.iter().map(command).collect();
            let verdicts = block_on(self.core.store.execute(commands))?;
            for (id, verdict) in slice.iter().copied().zip(verdicts) {
                match verdict {
                    Ok(changed) if changed.state == StateName::Cancelled => {
                        report.cancelled.push(id);
                    }
                    Ok(_) => report.requeued.push(id),
                    Err(refusal) => {
                        report.refused.push((id, QueueError::of_command(id, refusal)));
                    }
                }
            }
        }
        // Their handlers learn at once that the lease is gone.
        self.core.notes.leases_changed();
        Ok(report)
    }

    /// Writes a consistent copy to a new file while the queue serves (S19). A store is made from
    /// it with [`restore`](crate::restore). A queue in memory is not copied.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<(), QueueError> {
        let path = path.as_ref();
        if path.file_name().is_none() {
            return Err(QueueError::malformed("path", "a file"));
        }
        if path.exists() {
            return Err(QueueError::malformed("path", "a file that is not there yet"));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(QueueError::malformed("path", "a file in a folder that is there"));
        }
        Ok(block_on(self.core.store.backup(path))?)
    }

    /// Looks for contradictions in what is stored (S18); reads everything.
    pub fn check(&self) -> Result<Vec<Finding>, QueueError> {
        Ok(block_on(self.core.store.check())?)
    }

    /// How the queue is doing, from memory.
    pub fn status(&self) -> QueueStatus {
        let (store, troubles) = (self.core.store.status(), self.core.notes.troubles());
        QueueStatus {
            durability: store.durability,
            trouble: store.trouble,
            maintenance_error: troubles.maintenance,
            clean_up_error: troubles.clean_up,
            worker_error: troubles.worker,
        }
    }

    fn prune(&self, prune: Prune) -> Result<Pruned, QueueError> {
        let (mut report, mut empty) = (Pruned::default(), 0);
        loop {
            let slice = block_on(self.core.store.prune(prune))?;
            empty = if removed_nothing(&slice) { empty + 1 } else { 0 };
            report.add(&slice);
            if !slice.more || empty >= EMPTY_SLICES_MAX {
                return Ok(report);
            }
        }
    }
}

/// A slice may only have stepped over what has to stay.
pub(super) fn removed_nothing(slice: &Pruned) -> bool {
    *slice == Pruned { more: slice.more, ..Pruned::default() }
}
