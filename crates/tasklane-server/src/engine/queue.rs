//! Queues and their settings: what operators set, and what is configured.

use std::collections::HashSet;
use std::sync::PoisonError;

use tasklane_core::{QueueName, QueueSettings};
use tasklane_store::QueueState;

use super::Engine;
use super::error::EngineError;
use crate::settings::Settings;

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
        self.settings.replace(settings);
        self.configure_queues_anew(true).await
    }

    /// Gives queues what is configured for them, where no operator has set it: those that are
    /// configured by name, and those that are new. Each only once, so that servers that are
    /// configured differently do not undo each other's settings in a loop.
    pub async fn configure_queues(&self) -> Result<(), EngineError> {
        self.configure_queues_anew(false).await
    }

    async fn configure_queues_anew(&self, anew: bool) -> Result<(), EngineError> {
        let _turn = self.adjusting.acquire().await;
        // Read and forgotten in this turn: who had its turn before may have seen older settings.
        let settings = self.settings();
        let done = match anew {
            true => HashSet::new(),
            false => self.configured.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        let known = self.store.queues().await?;
        let named = settings.queues.keys().filter(|name| !done.contains(*name));
        let missing = named.filter(|name| !known.iter().any(|state| state.queue == **name));
        let missing = missing.map(|name| (name.clone(), None));
        let stored = known.iter().filter(|state| !done.contains(&state.queue));
        let stored = stored.map(|state| (state.queue.clone(), Some(state.settings)));
        let mut fresh = HashSet::new();
        for (name, stored) in stored.chain(missing) {
            let wanted = settings.resolve_queue(&name, stored.unwrap_or_default());
            if stored != Some(wanted) {
                self.store.configure(name.clone(), wanted).await?;
                tracing::info!(queue = %name, "a queue was set as configured");
            }
            fresh.insert(name);
        }
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        if anew {
            configured.clear();
        }
        configured.extend(fresh);
        Ok(())
    }
}
