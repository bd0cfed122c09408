//! Operators' calls on the server and its store.

use super::client::Client;
use super::error::Error;
use super::request::Call;
use crate::limits::BACKUP_WITHIN;
use crate::wire::{BackedUp, Backup, Health, Maintenance, Reloaded, Removed};

impl Client {
    /// How the server is doing.
    pub async fn get_health(&self) -> Result<Health, Error> {
        self.ask(Call::get("/admin/health")).await
    }

    /// Whether the server takes work: its store writes, and it is not about to end.
    pub async fn is_ready(&self) -> Result<bool, Error> {
        match self.get_readiness().await {
            Ok(()) => Ok(true),
            Err(error) if error.problem().is_some_and(|problem| problem.status == 503) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The same, with the reason as an error. Asks once.
    pub async fn get_readiness(&self) -> Result<(), Error> {
        let asked = self.try_once(&Call::get("/readyz")).await;
        asked.map(|_| ()).map_err(|failed| self.named(failed.error))
    }

    /// The server's metrics in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, Error> {
        let answer = self.send(&Call::get("/metrics")).await?;
        let broken = |error: std::str::Utf8Error| Error::Unexpected(error.to_string());
        std::str::from_utf8(&answer.body).map(ToOwned::to_owned).map_err(broken)
    }

    /// Removes what has been kept long enough; with `emergency` everything that has ended.
    pub async fn clean_up(&self, maintenance: &Maintenance) -> Result<Removed, Error> {
        self.ask(Call::post("/admin/maintenance").json(maintenance)?).await
    }

    /// Copies the store to a new file on the server's machine.
    pub async fn back_up(&self, to: &str) -> Result<BackedUp, Error> {
        let call = Call::post("/admin/backup").json(&Backup { to: to.into() })?;
        self.ask(call.waits(BACKUP_WITHIN)).await
    }

    /// Has the server read its configuration anew.
    pub async fn reload(&self) -> Result<Reloaded, Error> {
        self.ask(Call::post("/admin/reload").safe()).await
    }
}
