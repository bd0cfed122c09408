//! What time has done.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{Command, Intent, LeaseToken, TaskId, Timestamp, WorkerId, limits};
use tasklane_store::Overdue;

use super::Session;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::stored::task_id;
use crate::value;

/// Workers whose leases are looked at in one go.
const WORKERS_MAX: usize = 64;

/// Members of a sorted set come by score and by their bytes.
type Spot = (i64, Vec<u8>);

/// How far a look at leases came: the worker, and which of its tasks.
#[derive(Debug, Clone)]
pub(super) struct LeasesAfter {
    worker: Spot,
    task: Option<Spot>,
}

/// Held tasks whose next deadline seems to have passed.
struct Lapsing {
    /// Where each stands, and which it is.
    items: Vec<(LeasesAfter, TaskId)>,
    /// Whether there are no others.
    complete: bool,
    workers: Vec<WorkerId>,
}

impl Session<'_> {
    /// Leases and timers share the room evenly, so that neither waits for the other's end.
    pub(crate) fn overdue(&mut self, limit: usize) -> Result<Overdue, Fault> {
        let limit = limit.clamp(1, limits::SLICE_TASKS);
        let mut overdue = Overdue::default();
        let mut next = Vec::new();
        self.memory.leases_first = !self.memory.leases_first;
        let leases_after = self.memory.leases_after.clone();
        let leases = self.lapsing(leases_after.clone(), limit)?;
        let timers = self.page(Key::Timers, self.memory.timers_after.clone(), limit)?;
        let half = if self.memory.leases_first { limit.div_ceil(2) } else { limit / 2 };
        let half = half.max(limit.saturating_sub(timers.len()));
        let mut lease_items = leases.items.into_iter();
        while overdue.commands.len() < half
            && let Some((at, id)) = lease_items.next()
        {
            self.memory.leases_after = Some(at);
            self.look_at_lease(id, &mut overdue, &mut next)?;
        }
        let mut timer_items = timers.iter();
        while overdue.commands.len() < limit
            && let Some(item) = timer_items.next()
        {
            self.memory.timers_after = Some((item.0, item.1.to_vec()));
            self.look_at_timer(item, &mut overdue)?;
        }
        let leases_done = lease_items.len() == 0 && leases.complete;
        let timers_done = timer_items.len() == 0 && timers.len() < limit;
        if leases_done {
            self.memory.leases_after = None;
        }
        if timers_done {
            self.memory.timers_after = None;
        }
        // What was passed before may have been renewed since: look from the beginning once more.
        overdue.more = !(leases_done && timers_done) || leases_after.is_some();
        overdue.silent = self.silent()?;
        next.extend(self.next_deadlines(&leases.workers)?);
        overdue.next_in = next.into_iter().min();
        Ok(overdue)
    }

    /// What workers hold whose first deadline has passed, worker by worker.
    fn lapsing(&mut self, after: Option<LeasesAfter>, limit: usize) -> Result<Lapsing, Fault> {
        let last_worker = after.as_ref().map(|after| after.worker.clone());
        let found = self.page(Key::Leases, last_worker, WORKERS_MAX)?;
        let mut complete = found.len() < WORKERS_MAX;
        let found = found.into_iter().map(|(at, worker)| (at, worker.to_vec()));
        let found = found.map(|worker| LeasesAfter { worker, task: None });
        let (mut items, mut workers) = (Vec::new(), Vec::new());
        // The last look may have ended in the middle of what a worker holds.
        for LeasesAfter { worker, task } in after.into_iter().chain(found) {
            let id = worker_id(&worker.1)?;
            workers.push(id);
            // Read together with what it holds.
            self.renewed(id)?;
            let held = self.page(Key::Held(id), task, limit)?;
            complete &= held.len() < limit;
            for (at, member) in held {
                let task = task_id(&member)?;
                let at = (at, member.to_vec());
                items.push((LeasesAfter { worker: worker.clone(), task: Some(at) }, task));
            }
            if items.len() >= limit {
                complete = false;
                break;
            }
        }
        Ok(Lapsing { items, complete, workers })
    }

    fn page(
        &mut self,
        key: Key,
        after: Option<Spot>,
        limit: usize,
    ) -> Result<Vec<(i64, Bytes)>, Fault> {
        let max = self.now.as_micros();
        // The time of a first look is not known, and what it asks for would be of no use.
        if self.is_dry() {
            return Ok(Vec::new());
        }
        value::scored(self.plain(Read::Next { key, max, after, limit }))
    }

    /// A held task whose next deadline seems to have passed. If its worker has renewed it since,
    /// that is noted now, once for many heartbeats.
    fn look_at_lease(
        &mut self,
        id: TaskId,
        overdue: &mut Overdue,
        next: &mut Vec<Duration>,
    ) -> Result<(), Fault> {
        let Some(stored) = self.task(id)?.cloned() else { return Ok(()) };
        let Some(lease) = stored.task.state.lease() else { return Ok(()) };
        match self.lapsed(id, lease.token)? {
            Some(intent) => overdue.commands.push(Command { task: id, intent }),
            None => {
                let renewed_at = self.renewed(lease.worker)?.max(stored.renewed).at;
                let deadline = self.next_deadline(&stored, lease, renewed_at);
                self.writes.hold(lease.worker, id, Some(deadline));
                next.push(deadline.since(self.now));
            }
        }
        Ok(())
    }

    fn lapsed(&mut self, id: TaskId, token: LeaseToken) -> Result<Option<Intent>, Fault> {
        let elapsed = self.elapsed(id, &Intent::LoseLease(token))?;
        Ok(match (elapsed.lease, elapsed.execution, elapsed.assignment) {
            (true, _, _) => Some(Intent::LoseLease(token)),
            (_, true, _) => Some(Intent::TimeOut(token)),
            (_, _, true) => Some(Intent::Unassign(token)),
            _ => None,
        })
    }

    /// Expiry goes before coming due; a task that has both is proposed once.
    fn look_at_timer(
        &mut self,
        (_, member): &(i64, Bytes),
        overdue: &mut Overdue,
    ) -> Result<(), Fault> {
        let task = task_id(member.get(1..).unwrap_or_default())?;
        let now = self.now;
        let Some(stored) = self.task(task)? else { return Ok(()) };
        let intent = match &stored.task {
            task if !task.state.name().is_waiting() => return Ok(()),
            task if task.is_expired(now) => Intent::Expire,
            task if task.state.due_at().is_some_and(|due_at| due_at <= now) => Intent::ComeDue,
            _ => return Ok(()),
        };
        if !overdue.commands.iter().any(|command| command.task == task) {
            overdue.commands.push(Command { task, intent });
        }
        Ok(())
    }

    fn silent(&mut self) -> Result<Vec<WorkerId>, Fault> {
        if self.is_dry() {
            return Ok(Vec::new());
        }
        let max = self.now.minus(self.rules.silence).as_micros();
        let read = Read::Next { key: Key::Alive, max, after: None, limit: limits::SLICE_TASKS };
        let mut silent = Vec::new();
        for (_, member) in value::scored(self.plain(read))? {
            silent.push(worker_id(&member)?);
        }
        silent.sort_unstable();
        Ok(silent)
    }

    /// When to look again: at leases, timers and workers; and at what else those hold that were looked
    /// at, whose first deadline is not the next.
    fn next_deadlines(&mut self, workers: &[WorkerId]) -> Result<Vec<Duration>, Fault> {
        if self.is_dry() {
            return Ok(Vec::new());
        }
        let now = self.now;
        let silence = self.rules.silence;
        let sets =
            [(Key::Leases, Duration::ZERO), (Key::Timers, Duration::ZERO), (Key::Alive, silence)];
        let held = workers.iter().map(|worker| (Key::Held(*worker), Duration::ZERO));
        let mut next = Vec::new();
        for (key, later) in sets.into_iter().chain(held) {
            let from = format!("({}", now.minus(later).as_micros());
            let with = [&from, "+inf", "WITHSCORES", "LIMIT", "0", "1"];
            let first = value::scored(self.plain(Read::plain("ZRANGEBYSCORE", key, with)))?;
            let at = first.first().map(|(at, _)| Timestamp::from_micros(*at).plus(later));
            next.extend(at.map(|at| at.since(now)));
        }
        Ok(next)
    }
}

fn worker_id(member: &[u8]) -> Result<WorkerId, Fault> {
    let bytes = member.try_into().map_err(|_| Fault::Corrupt("a worker's id is not one".into()))?;
    Ok(WorkerId::from_bytes(bytes))
}
