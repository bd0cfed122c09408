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

impl Session<'_> {
    /// Leases and timers share the room evenly, so that neither waits for the other's end.
    pub(crate) fn overdue(&mut self, limit: usize) -> Result<Overdue, Fault> {
        let limit = limit.clamp(1, limits::SLICE_TASKS);
        let mut overdue = Overdue::default();
        let mut next = Vec::new();
        self.memory.leases_first = !self.memory.leases_first;
        let leases_after = self.memory.leases_after.clone();
        let leases = self.page(Key::Leases, leases_after.clone(), limit)?;
        let timers = self.page(Key::Timers, self.memory.timers_after.clone(), limit)?;
        let half = if self.memory.leases_first { limit.div_ceil(2) } else { limit / 2 };
        let half = half.max(limit.saturating_sub(timers.len()));
        let mut lease_items = leases.iter();
        while overdue.commands.len() < half
            && let Some(item) = lease_items.next()
        {
            self.memory.leases_after = Some((item.0, item.1.to_vec()));
            self.look_at_lease(item, &mut overdue, &mut next)?;
        }
        let mut timer_items = timers.iter();
        while overdue.commands.len() < limit
            && let Some(item) = timer_items.next()
        {
            self.memory.timers_after = Some((item.0, item.1.to_vec()));
            self.look_at_timer(item, &mut overdue)?;
        }
        let leases_done = lease_items.len() == 0 && leases.len() < limit;
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
        next.extend(self.next_deadlines()?);
        overdue.next_in = next.into_iter().min();
        Ok(overdue)
    }

    fn page(
        &mut self,
        key: Key,
        after: Option<(i64, Vec<u8>)>,
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
        (_, member): &(i64, Bytes),
        overdue: &mut Overdue,
        next: &mut Vec<Duration>,
    ) -> Result<(), Fault> {
        let id = task_id(member)?;
        let Some(stored) = self.task(id)?.cloned() else { return Ok(()) };
        let Some(lease) = stored.task.state.lease() else { return Ok(()) };
        match self.lapsed(id, lease.token)? {
            Some(intent) => overdue.commands.push(Command { task: id, intent }),
            None => {
                let renewed_at = self.renewed(lease.worker)?.max(stored.renewed).at;
                let deadline = self.next_deadline(&stored, lease, renewed_at);
                self.writes.score(Key::Leases, *id.as_bytes(), Some(deadline.as_micros()));
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
            let bytes: [u8; 16] = member
                .as_ref()
                .try_into()
                .map_err(|_| Fault::Corrupt("a worker's id is not one".into()))?;
            silent.push(WorkerId::from_bytes(bytes));
        }
        silent.sort_unstable();
        Ok(silent)
    }

    fn next_deadlines(&mut self) -> Result<Vec<Duration>, Fault> {
        if self.is_dry() {
            return Ok(Vec::new());
        }
        let now = self.now;
        let silence = self.rules.silence;
        let sets =
            [(Key::Leases, Duration::ZERO), (Key::Timers, Duration::ZERO), (Key::Alive, silence)];
        let mut next = Vec::new();
        for (key, later) in sets {
            let from = format!("({}", now.minus(later).as_micros());
            let with = [&from, "+inf", "WITHSCORES", "LIMIT", "0", "1"];
            let first = value::scored(self.plain(Read::plain("ZRANGEBYSCORE", key, with)))?;
            let at = first.first().map(|(at, _)| Timestamp::from_micros(*at).plus(later));
            next.extend(at.map(|at| at.since(now)));
        }
        Ok(next)
    }
}
