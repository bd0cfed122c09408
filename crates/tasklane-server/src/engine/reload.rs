//! Reading the configuration anew. Whoever reads it, outside of the engine, takes requests here, and
//! puts what came of it in force with [`Engine::change_settings`].

use tokio::sync::{mpsc, oneshot};

use super::Engine;
use super::error::EngineError;

/// Requests that may wait; beyond it callers wait too.
const REQUESTS_MAX: usize = 8;

/// What has become of the settings that differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// In force now.
    pub applied: Vec<String>,
    /// Read only at the start.
    pub needs_restart: Vec<String>,
}

/// A request, to be answered with what came of it, or with all that is wrong.
pub type ReloadRequest = oneshot::Sender<Result<Reloaded, Vec<String>>>;

impl Engine {
    /// Requests to read the configuration anew, from now on; for one reader.
    pub fn reloads(&self) -> mpsc::Receiver<ReloadRequest> {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        // A second reader would never hear of anything.
        let _ = self.reload.set(sender);
        receiver
    }

    /// Has the configuration read anew.
    pub async fn reload(&self) -> Result<Reloaded, EngineError> {
        let reader = self.reload.get().ok_or(EngineError::NoConfiguration)?;
        let (request, answer) = oneshot::channel();
        reader.send(request).await.map_err(|_| EngineError::NoConfiguration)?;
        let outcome = answer.await.map_err(|_| EngineError::NoConfiguration)?;
        outcome.map_err(EngineError::Configuration)
    }
}
