//! Settings of queues: one process holds the store, so what it last sent is what is stored.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasklane_core::{DepthLimits, Pinned, QueueName, QueueSettings, limits};
use tasklane_store::{QueueState, Store};

use super::Queue;
use super::block::block_on;
use super::error::QueueError;
use crate::store::SqliteStore;

impl Queue {
    /// Claims nothing more from a queue; what is running goes on.
    pub fn pause(&self, queue: &str) -> Result<(), QueueError> {
        self.change(queue, |settings| settings.paused = true)
    }

    /// Claims from a queue again.
    pub fn resume(&self, queue: &str) -> Result<(), QueueError> {
        self.change(queue, |settings| settings.paused = false)
    }

    /// Sets all settings of a queue; makes the queue known.
    pub fn configure(&self, queue: &str, settings: QueueSettings) -> Result<(), QueueError> {
        let DepthLimits { normal, high, all } = settings.depth;
        DepthLimits::new(normal, high, all)?;
        self.change(queue, |stored| *stored = QueueSettings { pinned: Pinned::ALL, ..settings })
    }

    /// All queues known, with their settings and depths.
    pub fn queues(&self) -> Result<Vec<QueueState>, QueueError> {
        Ok(block_on(self.core.store.queues())?)
    }

    fn change(
        &self,
        queue: &str,
        change: impl FnOnce(&mut QueueSettings),
    ) -> Result<(), QueueError> {
        self.core.settings.change(&self.core.store, QueueName::new(queue)?, change)
    }
}

/// What is known of queues.
#[derive(Debug)]
pub(super) struct Settings {
    /// What a queue has that nobody has configured.
    fresh: QueueSettings,
    known: Mutex<HashMap<QueueName, QueueSettings>>,
}

impl Settings {
    /// Reads what is stored and applies a depth limit to it.
    pub(super) fn load(
        store: &SqliteStore,
        depth: Option<DepthLimits>,
    ) -> Result<Self, QueueError> {
        let mut fresh = QueueSettings::default();
        fresh.depth = depth.unwrap_or(fresh.depth);
        fresh.pinned.depth = depth.is_some();
        let mut known = HashMap::new();
        for QueueState { queue, mut settings, .. } in block_on(store.queues())? {
            if let Some(depth) = depth.filter(|depth| *depth != settings.depth) {
                (settings.depth, settings.pinned.depth) = (depth, true);
                block_on(store.configure(queue.clone(), settings))?;
            }
            known.insert(queue, settings);
        }
        Ok(Self { fresh, known: Mutex::new(known) })
    }

    /// Makes sure that queues have their settings before tasks go there.
    pub(super) fn prepare<'a>(
        &self,
        store: &SqliteStore,
        queues: impl Iterator<Item = &'a QueueName>,
    ) -> Result<(), QueueError> {
        // What the store gives a new queue by itself needs no call.
        if self.fresh == QueueSettings::default() {
            return Ok(());
        }
        for queue in queues {
            if !self.lock().contains_key(queue) {
                self.change(store, queue.clone(), |_| {})?;
            }
        }
        Ok(())
    }

    /// Changes the settings of one queue. The call is queued under the lock, so that calls reach
    /// the store in the order of their changes, and awaited outside it.
    fn change(
        &self,
        store: &SqliteStore,
        queue: QueueName,
        change: impl FnOnce(&mut QueueSettings),
    ) -> Result<(), QueueError> {
        let mut known = self.lock();
        let before = known.get(&queue).copied();
        if before.is_none() && known.len() >= limits::LANES_MAX {
            return Err(QueueError::TooManyLanes);
        }
        let mut after = before.unwrap_or(self.fresh);
        change(&mut after);
        known.insert(queue.clone(), after);
        let call = store.configure(queue.clone(), after);
        drop(known);
        let answer = block_on(call);
        if answer.is_err() {
            let mut known = self.lock();
            if known.get(&queue) == Some(&after) {
                match before {
                    Some(before) => known.insert(queue, before),
                    None => known.remove(&queue),
                };
            }
        }
        Ok(answer?)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueueName, QueueSettings>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
