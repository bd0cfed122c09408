//! Heartbeats: leases renewed, health noted.

use std::sync::Arc;

use tasklane_store::{Direction, Leases, Renewal, Renewed, Store, WorkerRefusal};

use super::Engine;
use super::batcher::{Verb, Verdicts};
use super::error::EngineError;

/// Renewals as one call on the store.
pub(super) struct Renew {
    pub(super) store: Arc<dyn Store>,
}

impl Verb for Renew {
    type Unit = Renewal;
    type Verdict = Result<Renewed, WorkerRefusal>;

    fn weight(&self, unit: &Renewal) -> usize {
        match &unit.leases {
            Leases::All => 1,
            Leases::These(leases) => leases.len(),
        }
    }

    fn call(self: Arc<Self>, units: Vec<Renewal>) -> Verdicts<Self::Verdict> {
        Box::pin(async move { self.store.renew(units).await })
    }
}

impl Engine {
    /// Takes a sign of life. `draining`: the worker says that it wants no more tasks.
    pub async fn renew(&self, renewal: Renewal, draining: bool) -> Result<Renewed, EngineError> {
        let (worker, health) = (renewal.worker, renewal.health);
        let mut renewed = self.renewals.call(renewal).await??;
        let wish = if draining {
            Some(Direction::Drain)
        } else {
            self.roster.reported(worker, renewed.state, health)
        };
        if let Some(direction) = wish {
            self.direct(worker, direction).await?;
            renewed.state = self.roster.state(worker).unwrap_or(renewed.state);
        }
        Ok(renewed)
    }
}
