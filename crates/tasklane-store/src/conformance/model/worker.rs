//! Workers and their leases.

use tasklane_core::lifecycle::{self, Decision};
use tasklane_core::{
    Intent, Invalid, Problem, State, Worker, WorkerId, WorkerSpec, WorkerState, limits,
};

use super::memory::{Known, Memory, Now, Record};
use crate::error::{StoreError, WorkerRefusal};
use crate::feed::{Subject, WorkerChange};
use crate::request::{Direction, LeaseRef, Leases, Renewal, Renewed};

impl Memory {
    pub(super) fn register(&mut self, spec: WorkerSpec, now: Now) -> Result<WorkerId, StoreError> {
        let max = limits::WORKERS_MAX;
        if self.workers.len() >= max {
            return Err(Invalid::new("workers", Problem::TooMany { max }).into());
        }
        let id = WorkerId::generate(now.wall, &mut self.random);
        let worker = Worker {
            id,
            spec,
            state: WorkerState::Active,
            registered_at: now.wall,
            seen_at: now.wall,
            leases: 0,
            health: Default::default(),
        };
        self.workers.insert(id, Known { worker, heard: now.monotonic, died_at: None });
        self.tell(id, WorkerChange::Joined, now);
        Ok(id)
    }

    pub(super) fn direct(
        &mut self,
        id: WorkerId,
        direction: Direction,
        now: Now,
    ) -> Result<(), WorkerRefusal> {
        let silence = self.rules.silence;
        let known = self.alive(id)?;
        let now_is = known.worker.state;
        let (state, change) = match direction {
            Direction::MarkUnhealthy if now_is != WorkerState::Active => return Ok(()),
            Direction::Recover if now_is != WorkerState::Unhealthy => return Ok(()),
            Direction::Pause => (WorkerState::Paused, WorkerChange::Paused),
            Direction::Resume | Direction::Recover => (WorkerState::Active, WorkerChange::Resumed),
            Direction::Drain => (WorkerState::Draining, WorkerChange::Draining),
            Direction::MarkUnhealthy => (WorkerState::Unhealthy, WorkerChange::Unhealthy),
            Direction::DeclareDead if now.monotonic.saturating_sub(known.heard) < silence => {
                return Err(WorkerRefusal::Alive);
            }
            Direction::DeclareDead => (WorkerState::Dead, WorkerChange::Dead),
            Direction::Leave => {
                self.leave(id, now);
                return Ok(());
            }
        };
        if known.worker.state != state {
            known.worker.state = state;
            known.died_at = (state == WorkerState::Dead).then_some(now.wall);
            self.tell(id, change, now);
        }
        Ok(())
    }

    fn leave(&mut self, id: WorkerId, now: Now) {
        let assigned = |state: &State| matches!(state, State::Assigned(_));
        let unstarted: Vec<_> = self
            .held_by(id)
            .filter(|record| assigned(&record.task.state))
            .filter_map(lease_of)
            .collect();
        for lease in unstarted {
            self.give_back(lease, now);
        }
        self.workers.remove(&id);
        self.tell(id, WorkerChange::Left, now);
    }

    /// As if the time for starting had passed.
    fn give_back(&mut self, lease: LeaseRef, now: Now) {
        let record = &self.tasks[&lease.task];
        let mut moment = self.moment(record, now);
        moment.elapsed.assignment = true;
        let mut random = self.random.clone();
        let intent = Intent::Unassign(lease.token);
        let decision = lifecycle::decide(&record.task, &intent, &moment, &mut random);
        let Ok(Decision::Change(event)) = decision else { unreachable!("it is assigned") };
        self.happen(lease.task, event, now);
    }

    pub(super) fn renew(&mut self, renewal: &Renewal, now: Now) -> Result<Renewed, WorkerRefusal> {
        let worker = self.hear(renewal.worker, now)?;
        worker.health = renewal.health.unwrap_or(worker.health);
        let state = worker.state;
        let mut renewed = Renewed { state, held: 0, cancel: Vec::new(), lost: Vec::new() };
        let wanted: Vec<LeaseRef> = match &renewal.leases {
            Leases::All => self.held_by(renewal.worker).filter_map(lease_of).collect(),
            Leases::These(these) => these.clone(),
        };
        for wanted in wanted {
            let record = self.tasks.get_mut(&wanted.task);
            let Some(record) = record.filter(|record| lease_of(record) == Some(wanted)) else {
                renewed.lost.push(wanted.task);
                continue;
            };
            record.clocks.renewed = now.monotonic;
            renewed.held += 1;
            if record.task.state.lease().is_some_and(|lease| lease.cancel_requested.is_some()) {
                renewed.cancel.push(wanted.task);
            }
        }
        Ok(renewed)
    }

    pub(super) fn workers(&self) -> Vec<Worker> {
        let shown = |worker: &Worker| {
            let leases = self.held_by(worker.id).count() as u32;
            Worker { leases, ..worker.clone() }
        };
        self.workers.values().map(|known| shown(&known.worker)).collect()
    }

    /// Notes a sign of life.
    pub(super) fn hear(&mut self, id: WorkerId, now: Now) -> Result<&mut Worker, WorkerRefusal> {
        let known = self.alive(id)?;
        known.heard = now.monotonic;
        known.worker.seen_at = now.wall;
        Ok(&mut known.worker)
    }

    fn alive(&mut self, id: WorkerId) -> Result<&mut Known, WorkerRefusal> {
        let known = self.workers.get_mut(&id);
        known.filter(|known| known.worker.state != WorkerState::Dead).ok_or(WorkerRefusal::Gone)
    }

    fn tell(&mut self, id: WorkerId, change: WorkerChange, now: Now) {
        let stamp = self.stamp(now);
        self.publish(stamp, Subject::Worker(id, change));
    }
}

fn lease_of(record: &Record) -> Option<LeaseRef> {
    let token = record.task.state.lease()?.token;
    Some(LeaseRef { task: record.task.id, token })
}
