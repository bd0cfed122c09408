//! Waiting for the end of a task.

use std::time::{Duration, Instant};

use tasklane_core::TaskId;
use tasklane_store::StoredTask;

use super::Engine;
use super::error::EngineError;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Engine {
    /// The task once it has ended, or as it is when `wait` is over. A stand-in that looks every so
    /// often, until the feed tells of ends.
    pub async fn wait_terminal(
        &self,
        id: TaskId,
        wait: Duration,
    ) -> Result<StoredTask, EngineError> {
        let until = Instant::now() + wait;
        loop {
            let stored = self.get(id).await?;
            let left = until.saturating_duration_since(Instant::now());
            if stored.task.state.name().is_terminal() || left.is_zero() {
                return Ok(stored);
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK_EVERY)) => {}
                () = self.draining.cancelled() => return Ok(stored),
            }
        }
    }
}
