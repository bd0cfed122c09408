//! Queues and their settings: what operators set, and what is configured.

use std::collections::{HashMap, HashSet};
use std::sync::{MutexGuard, PoisonError};

use tasklane_core::{QueueName, QueueSettings};
use tasklane_store::QueueState;

use super::Engine;
use super::error::EngineError;
use crate::settings::{QueueDefaults, Settings};

impl Engine {
    /// All queues, by name.
    pub async fn queues(&self) -> Result<Vec<QueueState>, EngineError> {
        let mut queues = self.store.queues().await?;
        queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        Ok(queues)
    }

    /// One queue.
    pub async fn queue(&self, name: &QueueName) -> Result<QueueState, EngineError> {
        let found = self.store.queues().await?.into_iter().find(|state| state.queue == *name);
        found.ok_or(EngineError::NotFound("queue"))
    }

    /// Changes a queue's settings; makes the queue known. The contract sets settings as a whole, so
    /// changes through this server wait for each other; two servers that change one queue at the
    /// same moment may still undo each other.
    pub async fn adjust(
        &self,
        name: &QueueName,
        change: impl FnOnce(&mut QueueSettings) -> Result<(), EngineError>,
    ) -> Result<QueueState, EngineError> {
        let turn = self.adjusting.acquire().await;
        let mut settings = match self.queue(name).await {
            Ok(state) => state.settings,
            Err(EngineError::NotFound(_)) => QueueSettings::default(),
            Err(error) => return Err(error),
        };
        change(&mut settings)?;
        let settings = self.settings().resolve_queue(name, settings);
        self.store.configure(name.clone(), settings).await?;
        drop(turn);
        tracing::info!(queue = %name, paused = settings.paused, "a queue was set");
        // Estimates and effective priorities follow at once.
        self.refresh_snapshot().await?;
        self.queue(name).await
    }

    /// Puts new settings in force; what is read only at the start stays as it is.
    pub async fn change_settings(&self, settings: Settings) -> Result<(), EngineError> {
        // Whether keys are asked for is settled at the start, by what the store holds.
        let settings = Settings { authentication: self.authentication, ..settings };
        self.rates.adopt(&settings);
        if self.tokens.adopt(&settings) {
            self.access_changed();
        }
        self.settings.replace(settings);
        let _turn = self.adjusting.acquire().await;
        // In this turn: who had its turn before may have seen older settings.
        *self.configured() = None;
        self.configure_all().await
    }

    /// Gives queues what is configured for them, where no operator has set it: those that are
    /// configured by name, and those that are new. Each only once, so that servers that are
    /// configured differently do not undo each other's settings in a loop.
    pub async fn configure_queues(&self) -> Result<(), EngineError> {
        let _turn = self.adjusting.acquire().await;
        self.configure_all().await
    }

    async fn configure_all(&self) -> Result<(), EngineError> {
        let settings = self.settings();
        let nothing_for_new_ones = settings.queue_defaults == QueueDefaults::default();
        if nothing_for_new_ones && self.configured().is_some() {
            return Ok(());
        }
        let mut stored: HashMap<_, _> = settings.queues.keys().map(|name| (name, None)).collect();
        let queues = self.store.queues().await?;
        stored.extend(queues.iter().map(|state| (&state.queue, Some(state.settings))));
        if let Some(done) = &*self.configured() {
            stored.retain(|name, _| !done.contains(*name));
        }
        let mut calls = Vec::new();
        for (name, stored) in &stored {
            let wanted = settings.resolve_queue(name, stored.unwrap_or_default());
            if *stored != Some(wanted) {
                tracing::info!(queue = %name, "a queue is set as configured");
                // Queued before any is awaited, so that they share a write.
                calls.push(self.store.configure((*name).clone(), wanted));
            }
        }
        for call in calls {
            call.await?;
        }
        let done = stored.into_keys().cloned();
        self.configured().get_or_insert_default().extend(done);
        Ok(())
    }

    fn configured(&self) -> MutexGuard<'_, Option<HashSet<QueueName>>> {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
