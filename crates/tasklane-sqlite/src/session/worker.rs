//! Workers come, are directed, and go.

use rusqlite::params;
use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    Intent, Invalid, Problem, State, Worker, WorkerId, WorkerSpec, WorkerState, limits,
};
use tasklane_store::{Direction, StoreError, Subject, WorkerChange, WorkerRefusal, codec};

use super::Session;
use crate::board::WorkerSlot;
use crate::fault::Fault;

impl Session<'_> {
    pub(crate) fn register(
        &mut self,
        spec: WorkerSpec,
    ) -> Result<Result<WorkerId, StoreError>, Fault> {
        if self.board.workers.len() >= limits::WORKERS_MAX {
            let max = limits::WORKERS_MAX;
            return Ok(Err(Invalid::new("workers", Problem::TooMany { max }).into()));
        }
        let id = WorkerId::generate(self.now, &mut self.random);
        let slot = WorkerSlot::new(spec, WorkerState::Active, self.now, self.now, self.tick);
        self.put_worker(id, &slot)?;
        self.board.workers.insert(id, slot);
        self.announce(&Subject::Worker(id, WorkerChange::Joined));
        Ok(Ok(id))
    }

    pub(crate) fn direct(
        &mut self,
        id: WorkerId,
        direction: Direction,
    ) -> Result<Result<(), WorkerRefusal>, Fault> {
        let Some(slot) = self.board.workers.get(&id) else { return Ok(Err(WorkerRefusal::Gone)) };
        if slot.state == WorkerState::Dead {
            return Ok(Err(WorkerRefusal::Gone));
        }
        let (state, change) = match direction {
            Direction::MarkUnhealthy if slot.state != WorkerState::Active => return Ok(Ok(())),
            Direction::Recover if slot.state != WorkerState::Unhealthy => return Ok(Ok(())),
            Direction::Pause => (WorkerState::Paused, WorkerChange::Paused),
            Direction::Resume | Direction::Recover => (WorkerState::Active, WorkerChange::Resumed),
            Direction::Drain => (WorkerState::Draining, WorkerChange::Draining),
            Direction::MarkUnhealthy => (WorkerState::Unhealthy, WorkerChange::Unhealthy),
            Direction::DeclareDead => {
                if self.tick < slot.seen.saturating_add(self.rules.silence) {
                    return Ok(Err(WorkerRefusal::Alive));
                }
                (WorkerState::Dead, WorkerChange::Dead)
            }
            Direction::Leave => return self.depart(id).map(Ok),
        };
        if slot.state != state {
            self.set_worker(id, state)?;
            self.announce(&Subject::Worker(id, change));
        }
        Ok(Ok(()))
    }

    pub(crate) fn workers(&self) -> Vec<Worker> {
        let mut workers: Vec<_> =
            self.board.workers.iter().map(|(id, slot)| slot.show(*id)).collect();
        workers.sort_unstable_by_key(|worker| worker.id);
        workers
    }

    fn set_worker(&mut self, id: WorkerId, state: WorkerState) -> Result<(), Fault> {
        let Some(mut slot) = self.board.workers.remove(&id) else { return Ok(()) };
        slot.state = state;
        slot.changed_at = self.now;
        self.put_worker(id, &slot)?;
        self.board.workers.insert(id, slot);
        Ok(())
    }

    /// What it has not started goes back; what it runs keeps its lease until that ends (S6).
    fn depart(&mut self, id: WorkerId) -> Result<(), Fault> {
        let Some(slot) = self.board.workers.get(&id) else { return Ok(()) };
        let mut keys: Vec<i64> = slot.leases.iter().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let leased = self.board.leases.get(key).map(|leased| &leased.task.state);
            if let Some(State::Assigned(lease)) = leased {
                let unassign = Intent::Unassign(lease.token);
                let gone = Elapsed { assignment: true, ..Elapsed::default() };
                // Core can only refuse what is no longer assigned, and this is.
                let _ = self.execute_leased(key, Some(gone), &unassign)?;
            }
        }
        self.remove_leases()?;
        self.remove_worker(id)?;
        self.announce(&Subject::Worker(id, WorkerChange::Left));
        Ok(())
    }

    pub(super) fn remove_worker(&mut self, id: WorkerId) -> Result<(), Fault> {
        let mut statement =
            self.connection.prepare_cached("DELETE FROM worker WHERE worker = ?")?;
        statement.execute([id.as_bytes()])?;
        self.board.workers.remove(&id);
        Ok(())
    }

    fn put_worker(&self, id: WorkerId, slot: &WorkerSlot) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO worker(worker, record, registered_at, changed_at)
                   VALUES (?, ?, ?, ?)";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![
            id.as_bytes(),
            codec::encode_worker(&slot.spec, slot.state),
            slot.registered_at.as_micros(),
            slot.changed_at.as_micros(),
        ])?;
        Ok(())
    }
}
