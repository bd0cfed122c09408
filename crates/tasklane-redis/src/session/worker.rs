//! Workers come, are directed, and go.

use bytes::{Buf, BufMut, Bytes};
use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    Intent, Invalid, Problem, State, TaskId, Timestamp, WorkerId, WorkerSpec, WorkerState, limits,
};
use tasklane_store::{Direction, StoreError, Subject, WorkerChange, WorkerRefusal, codec};

use super::Session;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::stored::{Renewed, task_id};
use crate::value;

/// A worker as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct WorkerSlot {
    pub(crate) spec: WorkerSpec,
    pub(crate) state: WorkerState,
    pub(crate) registered_at: Timestamp,
    /// When it was last heard of, as of the last change of its state.
    pub(crate) seen_at: Timestamp,
}

impl WorkerSlot {
    fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(128);
        packed.put_i64(self.registered_at.as_micros());
        packed.put_i64(self.seen_at.as_micros());
        packed.extend(codec::encode_worker(&self.spec, self.state));
        packed
    }

    pub(crate) fn unpack(mut packed: Bytes) -> Result<Self, Fault> {
        if packed.len() < 16 {
            return Err(Fault::Corrupt("a worker is not one".into()));
        }
        let registered_at = Timestamp::from_micros(packed.get_i64());
        let seen_at = Timestamp::from_micros(packed.get_i64());
        let (spec, state) = codec::decode_worker(&packed)?;
        Ok(Self { spec, state, registered_at, seen_at })
    }
}

impl Session<'_> {
    pub(crate) fn register(
        &mut self,
        spec: &WorkerSpec,
    ) -> Result<Result<WorkerId, StoreError>, Fault> {
        let count = value::integer(self.plain(Read::plain("HLEN", Key::Workers, [])))?;
        if count + self.writes.set_count(&Key::Workers) >= limits::WORKERS_MAX as i64 {
            let max = limits::WORKERS_MAX;
            return Ok(Err(Invalid::new("workers", Problem::TooMany { max }).into()));
        }
        let id = WorkerId::generate(self.now, self.random);
        let (state, registered_at, seen_at) = (WorkerState::Active, self.now, self.now);
        let slot = WorkerSlot { spec: spec.clone(), state, registered_at, seen_at };
        self.writes.set(Key::Workers, *id.as_bytes(), slot.pack());
        self.writes.score(Key::Alive, *id.as_bytes(), Some(self.now.as_micros()));
        self.announce(&Subject::Worker(id, WorkerChange::Joined));
        Ok(Ok(id))
    }

    pub(crate) fn direct(
        &mut self,
        id: WorkerId,
        direction: Direction,
    ) -> Result<Result<(), WorkerRefusal>, Fault> {
        let seen_at = self.seen_at(id)?;
        let Some(slot) = self.live_worker(id)? else { return Ok(Err(WorkerRefusal::Gone)) };
        let (state, change) = match direction {
            Direction::MarkUnhealthy if slot.state != WorkerState::Active => return Ok(Ok(())),
            Direction::Recover if slot.state != WorkerState::Unhealthy => return Ok(Ok(())),
            Direction::Pause => (WorkerState::Paused, WorkerChange::Paused),
            Direction::Resume | Direction::Recover => (WorkerState::Active, WorkerChange::Resumed),
            Direction::Drain => (WorkerState::Draining, WorkerChange::Draining),
            Direction::MarkUnhealthy => (WorkerState::Unhealthy, WorkerChange::Unhealthy),
            Direction::DeclareDead if seen_at.plus(self.rules.silence) > self.now => {
                return Ok(Err(WorkerRefusal::Alive));
            }
            Direction::DeclareDead => (WorkerState::Dead, WorkerChange::Dead),
            Direction::Leave => return self.depart(id).map(Ok),
        };
        if slot.state != state {
            if state == WorkerState::Dead {
                self.writes.score(Key::Alive, *id.as_bytes(), None);
                self.writes.score(Key::Dead, *id.as_bytes(), Some(self.now.as_micros()));
            }
            let slot = WorkerSlot { state, seen_at, ..slot };
            self.writes.set(Key::Workers, *id.as_bytes(), slot.pack());
            self.announce(&Subject::Worker(id, change));
        }
        Ok(Ok(()))
    }

    /// What it has not started goes back; what it runs keeps its lease until that ends (S6).
    fn depart(&mut self, id: WorkerId) -> Result<(), Fault> {
        for task in self.held_by(id)? {
            let state = self.task(task)?.map(|stored| stored.task.state.clone());
            if let Some(State::Assigned(lease)) = state {
                let gone = Elapsed { assignment: true, ..Elapsed::default() };
                // Core can only refuse what is no longer assigned, and this is.
                let _ = self.execute_one(task, &Intent::Unassign(lease.token), Some(gone))?;
            }
        }
        self.remove_worker(id)?;
        self.announce(&Subject::Worker(id, WorkerChange::Left));
        Ok(())
    }

    /// Forgets a worker. What it still runs keeps its lease as long as it was renewed (S6).
    pub(super) fn remove_worker(&mut self, id: WorkerId) -> Result<(), Fault> {
        let renewed = self.renewed(id)?;
        for task in self.held_by(id)? {
            self.renew_lease(task, renewed)?;
        }
        for key in [Key::Workers, Key::Renewed, Key::Health] {
            self.writes.unset(key, *id.as_bytes());
        }
        for key in [Key::Alive, Key::Dead] {
            self.writes.score(key, *id.as_bytes(), None);
        }
        Ok(())
    }

    /// A worker that is known and not dead.
    fn live_worker(&mut self, id: WorkerId) -> Result<Option<WorkerSlot>, Fault> {
        let packed = self.field(&Key::Workers, id.as_bytes());
        let slot = packed.map(WorkerSlot::unpack).transpose()?;
        Ok(slot.filter(|slot| slot.state != WorkerState::Dead))
    }

    /// Notes a sign of life of a worker that is known and not dead.
    pub(super) fn hear(&mut self, id: WorkerId) -> Result<Option<WorkerSlot>, Fault> {
        let slot = self.live_worker(id)?;
        if slot.is_some() {
            self.writes.score(Key::Alive, *id.as_bytes(), Some(self.now.as_micros()));
        }
        Ok(slot)
    }

    /// When a worker was last heard of.
    fn seen_at(&mut self, id: WorkerId) -> Result<Timestamp, Fault> {
        let changed = self.writes.scores(&Key::Alive);
        if let Some(score) = changed.and_then(|changes| changes.get(&id.as_bytes()[..])) {
            return Ok(Timestamp::from_micros(score.unwrap_or_default()));
        }
        let score = Read::Plain("ZSCORE", Key::Alive, vec![id.as_bytes().to_vec()]);
        Ok(Timestamp::from_micros(value::integer(self.plain(score))?))
    }

    /// When a worker last renewed all its leases.
    pub(super) fn renewed(&mut self, id: WorkerId) -> Result<Renewed, Fault> {
        Renewed::of_worker(self.field(&Key::Renewed, id.as_bytes()))
    }

    /// A renewal by what is decided now.
    pub(super) fn renewed_now(&self) -> Renewed {
        Renewed { version: self.snapshot.meta.version, at: self.now }
    }

    /// How many leases a worker has.
    pub(super) fn held_count(&mut self, id: WorkerId) -> Result<usize, Fault> {
        let stored = match self.snapshot.held(id) {
            Some(count) => count,
            None => value::integer(self.plain(held_count_read(id)))?,
        };
        let changed = self.held.get(&id).copied().unwrap_or_default();
        Ok(usize::try_from(stored + changed).unwrap_or_default())
    }

    /// The tasks that a worker holds, as they are by now, in order.
    pub(super) fn held_by(&mut self, id: WorkerId) -> Result<Vec<TaskId>, Fault> {
        let key = Key::Held(id);
        let read = Read::plain("ZRANGE", key.clone(), ["0", "-1"]);
        let mut members = value::strings(self.plain(read))?;
        if let Some(changes) = self.writes.scores(&key) {
            members.retain(|member| !changes.contains_key(&member[..]));
            let there = changes.iter().filter(|(_, score)| score.is_some());
            members.extend(there.map(|(member, _)| Bytes::from(member.clone())));
        }
        members.sort_unstable();
        members.iter().map(|member| task_id(member)).collect()
    }

    /// Where all that a worker will hold is written now, it need not be taken out one by one.
    pub(super) fn renew_holdings(&mut self) {
        for (worker, by) in &self.held {
            let read = || self.snapshot.plain(&held_count_read(*worker)).cloned();
            let read = || read().and_then(|count| value::integer(count).ok());
            let Some(before) = self.snapshot.held(*worker).or_else(read) else { continue };
            let key = Key::Held(*worker);
            let changes = self.writes.scores(&key).into_iter().flatten();
            let written = changes.filter(|(_, score)| score.is_some()).count();
            if before + by == written as i64 {
                self.writes.make_anew(key);
            }
        }
    }
}

/// How many tasks a worker holds.
pub(crate) fn held_count_read(id: WorkerId) -> Read {
    Read::plain("ZCARD", Key::Held(id), [])
}
