//! Signs of life: memory only, no row is written.

use tasklane_core::{Health, TaskId, Timestamp};
use tasklane_store::{LeaseRef, Leases, Renewal, Renewed, WorkerRefusal};

use super::Session;
use crate::board::Leased;
use crate::fault::Fault;

impl Session<'_> {
    pub(crate) fn renew(
        &mut self,
        renewals: &[Renewal],
    ) -> Result<Vec<Result<Renewed, WorkerRefusal>>, Fault> {
        renewals.iter().map(|renewal| self.renew_one(renewal)).collect()
    }

    fn renew_one(&mut self, renewal: &Renewal) -> Result<Result<Renewed, WorkerRefusal>, Fault> {
        let Some(worker) = self.hear(renewal.worker) else { return Ok(Err(WorkerRefusal::Gone)) };
        if let Some(health) = &renewal.health {
            worker.health = Health { ..*health };
        }
        let state = worker.state;
        let mut renewed = Renewed { state, held: 0, cancel: Vec::new(), lost: Vec::new() };
        match &renewal.leases {
            Leases::All => {
                let mut keys: Vec<i64> = worker.leases.iter().copied().collect();
                keys.sort_unstable();
                for key in keys {
                    self.renew_key(key, &mut renewed);
                }
            }
            Leases::These(leases) => {
                for lease in leases {
                    match self.key_of_lease(lease)? {
                        Some(key) => self.renew_key(key, &mut renewed),
                        None => renewed.lost.push(lease.task),
                    }
                }
            }
        }
        Ok(Ok(renewed))
    }

    fn renew_key(&mut self, key: i64, renewed: &mut Renewed) {
        self.board.leases.renew(key, self.tick, &self.rules);
        let Some(leased) = self.board.leases.get(key) else { return };
        renewed.held += 1;
        if leased.task.state.lease().is_some_and(|lease| lease.cancel_requested.is_some()) {
            renewed.cancel.push(leased.task.id);
        }
    }

    /// When the lease of a task ends: from the clock that leases have to the wall clock as it stands.
    pub(crate) fn lease_ends(&self, id: TaskId) -> Result<Option<Timestamp>, Fault> {
        let Some((_, leased)) = self.leased(id)? else { return Ok(None) };
        let (ends, tick) = (leased.ends(), self.tick);
        let (left, over) = (ends.saturating_sub(tick), tick.saturating_sub(ends));
        Ok(Some(self.now.plus(left).minus(over)))
    }

    /// The key of a lease that is current.
    fn key_of_lease(&self, lease: &LeaseRef) -> Result<Option<i64>, Fault> {
        let leased = self.leased(lease.task)?;
        let current = leased.filter(|(_, leased)| leased.is_held_by(&lease.token));
        Ok(current.map(|(key, _)| key))
    }

    /// A task that somebody holds, and its key.
    fn leased(&self, id: TaskId) -> Result<Option<(i64, &Leased)>, Fault> {
        let of_key = |key: i64| {
            let leased = self.board.leases.get(key).filter(|leased| leased.task.id == id);
            leased.map(|leased| (key, leased))
        };
        let own = of_key(id.row_key());
        if own.is_some() || self.aliases == 0 {
            return Ok(own);
        }
        Ok(crate::rows::find(self.connection, id)?.and_then(of_key))
    }
}
