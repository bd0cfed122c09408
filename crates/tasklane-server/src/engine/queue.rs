//! Queues and their settings.

use tasklane_core::{QueueName, QueueSettings};
use tasklane_store::QueueState;

use super::Engine;
use super::error::EngineError;

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
        self.store.configure(name.clone(), settings).await?;
        drop(turn);
        tracing::info!(queue = %name, paused = settings.paused, "a queue was set");
        // Estimates and effective priorities follow at once.
        self.refresh_snapshot().await?;
        self.queue(name).await
    }
}
