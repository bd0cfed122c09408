//! What a handler sees of its task, and how it is told to stop.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_core::{Command, Fence, Intent, Lease, Progress, Refusal, Task};
use tasklane_store::{Store, StoreError};

use super::Core;
use super::block::block_on;
use super::error::QueueError;

/// The attempt that a handler is running.
#[derive(Debug)]
pub struct Context {
    core: Arc<Core>,
    task: Task,
    lease: Lease,
    flag: Arc<Flag>,
}

impl Context {
    pub(super) fn new(core: Arc<Core>, task: Task, lease: Lease, flag: Arc<Flag>) -> Self {
        Self { core, task, lease, flag }
    }

    /// The task as it was claimed.
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// Which attempt this is, from 1.
    pub const fn attempt(&self) -> u32 {
        self.task.attempt()
    }

    /// A number that only rises from claim to claim of this task: outside systems that keep the
    /// highest one can refuse an attempt that was overtaken (S5).
    pub const fn fence(&self) -> Fence {
        self.lease.fence
    }

    /// Whether to stop: the task was cancelled, the lease is lost, or the worker's time to stop is
    /// over. A result is still taken unless the lease is lost.
    pub fn is_cancelled(&self) -> bool {
        self.flag.is_raised()
    }

    /// Waits up to this long, and ends at once when there is a reason to stop. Says whether there
    /// is one: what a handler uses instead of a sleep.
    pub fn wait_cancelled(&self, timeout: Duration) -> bool {
        self.flag.wait(timeout)
    }

    /// Reports how far the attempt is, from 0 to 100, and renews the lease.
    pub fn progress(&self, percent: f64, message: &str) -> Result<(), QueueError> {
        let message = Some(message).filter(|text| !text.is_empty());
        let progress = Progress::new(Some(percent), None, None, message, None)?;
        let intent = Intent::Progress(self.lease.token, progress);
        let command = Command { task: self.task.id, intent };
        let verdicts = block_on(self.core.store.execute(vec![command]))?;
        let missing = || StoreError::OutcomeUnknown("the answer was empty".into());
        let verdict = verdicts.into_iter().next().ok_or_else(missing)?;
        let stop = match &verdict {
            Ok(changed) => changed.cancel_requested,
            Err(refusal) => matches!(refusal, Refusal::LeaseLost | Refusal::NotFound),
        };
        if stop {
            self.flag.raise();
        }
        let refused = |refusal| QueueError::of_command(self.task.id, refusal);
        verdict.map(|_| ()).map_err(refused)
    }
}

/// Raised once, for good.
#[derive(Debug, Default)]
pub(super) struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    pub(super) fn raise(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    fn is_raised(&self) -> bool {
        *self.lock()
    }

    fn wait(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |raised| !*raised);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
