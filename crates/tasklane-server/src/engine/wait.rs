//! Looks that wait for a task to end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_core::{EventKind, TaskId};
use tasklane_store::{StoreError, StoredTask, TaskNotice};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Engine;
use super::error::EngineError;
use crate::limits::{WAIT_MAX, WAITER_LOOK_EVERY, WAITERS_MAX};

/// Those who wait for one task.
#[derive(Debug, Default)]
struct Group {
    count: usize,
    notify: Arc<Notify>,
}

/// Who waits for which task.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    tasks: Mutex<HashMap<TaskId, Group>>,
    /// How many wait: nought is told without the mutex, for every event asks.
    count: AtomicUsize,
}

impl Waiters {
    /// Wakes those who wait for one of these that has ended.
    pub(super) fn ended<'a>(&self, notices: impl Iterator<Item = &'a TaskNotice>) {
        if self.is_empty() {
            return;
        }
        let tasks = self.tasks();
        for notice in notices.filter(|notice| ends(notice.kind)) {
            if let Some(group) = tasks.get(&notice.id) {
                group.notify.notify_waiters();
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn join(&self, id: TaskId) -> Result<Waiter<'_>, StoreError> {
        let mut tasks = self.tasks();
        if self.count.load(Ordering::Acquire) >= WAITERS_MAX {
            return Err(StoreError::Overloaded("too many looks are waiting".into()));
        }
        let group = tasks.entry(id).or_default();
        group.count += 1;
        let notify = Arc::clone(&group.notify);
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(Waiter { waiters: self, id, notify })
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<TaskId, Group>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits; leaves when it is dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    id: TaskId,
    notify: Arc<Notify>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut tasks = self.waiters.tasks();
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
        if let Entry::Occupied(mut group) = tasks.entry(self.id) {
            group.get_mut().count -= 1;
            if group.get().count == 0 {
                group.remove();
            }
        }
    }
}

fn ends(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::Completed
            | EventKind::Failed
            | EventKind::DeadLettered
            | EventKind::Cancelled
            | EventKind::Discarded
    )
}

impl Engine {
    /// The task with this id, as soon as it has ended or `wait` is over.
    pub async fn wait_terminal(
        &self,
        id: TaskId,
        wait: Duration,
    ) -> Result<StoredTask, EngineError> {
        let until = Instant::now() + wait.min(WAIT_MAX);
        let waiter = self.waiters.join(id)?;
        loop {
            // Listens before it looks, so that an end in between is heard.
            let notified = waiter.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let stored = self.get(id).await?;
            let over = Instant::now() >= until || self.is_draining();
            if over || stored.task.state.name().is_terminal() {
                return Ok(stored);
            }
            let look_again = until.min(Instant::now() + WAITER_LOOK_EVERY);
            tokio::select! {
                () = notified => {}
                () = tokio::time::sleep_until(look_again) => {}
                () = self.draining.cancelled() => {}
            }
        }
    }
}
