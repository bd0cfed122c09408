//! What time has done.

use std::time::Duration;

use rusqlite::params;
use tasklane_core::{Command, Intent, TaskId, Timestamp, WorkerState};
use tasklane_store::Overdue;

use super::Session;
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    /// Leases and timers share the room evenly, so that neither waits for the other's end.
    pub(crate) fn overdue(&mut self, limit: usize) -> Result<Overdue, Fault> {
        let mut overdue = Overdue::default();
        self.leases_first = !self.leases_first;
        let room = if self.leases_first { limit.div_ceil(2) } else { limit / 2 };
        let (lapsed, mut leases_done) = self.board.leases.overdue(self.tick, &self.rules, room);
        self.propose(lapsed, &mut overdue);
        let timers_done = self.overdue_timers(&mut overdue, limit)?;
        let room = limit.saturating_sub(overdue.commands.len());
        if !leases_done && room > 0 {
            let (lapsed, done) = self.board.leases.overdue(self.tick, &self.rules, room);
            self.propose(lapsed, &mut overdue);
            leases_done = done;
        }
        overdue.more = !(leases_done && timers_done);
        for (id, worker) in &self.board.workers {
            let silent = worker.seen.saturating_add(self.rules.silence) <= self.tick;
            if silent && worker.state != WorkerState::Dead {
                overdue.silent.push(*id);
            }
        }
        overdue.silent.sort_unstable();
        overdue.next_in = self.next_deadline()?;
        Ok(overdue)
    }

    fn propose(&self, lapsed: Vec<(i64, Intent)>, overdue: &mut Overdue) {
        for (key, intent) in lapsed {
            if let Some(leased) = self.board.leases.get(key) {
                overdue.commands.push(Command { task: leased.task.id, intent });
            }
        }
    }

    /// Scheduled times, backoffs and expiries, from where the last look ended; and whether that
    /// was all there is.
    fn overdue_timers(&mut self, overdue: &mut Overdue, limit: usize) -> Result<bool, Fault> {
        let room = limit.saturating_sub(overdue.commands.len());
        let sql =
            "SELECT r.at, r.task, r.kind, t.id FROM timer r LEFT JOIN task t ON t.task = r.task
                   WHERE r.at <= ? AND (r.at, r.task, r.kind) > (?, ?, ?)
                   ORDER BY r.at, r.task, r.kind LIMIT ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let (at, task, kind) = self.timers_after.unwrap_or((i64::MIN, 0, 0));
        let mut found = statement.query(params![self.now.as_micros(), at, task, kind, room])?;
        let mut seen = 0;
        while let Some(row) = found.next()? {
            seen += 1;
            let (at, key, kind): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.timers_after = Some((at, key, kind));
            let id: Option<[u8; 16]> = row.get(3)?;
            let id = id.and_then(|id| TaskId::from_bytes(id).ok());
            let task = id.ok_or_else(|| rows::corrupt(key, "missing, though it has a timer"))?;
            let intent = if kind == 0 { Intent::ComeDue } else { Intent::Expire };
            // Expiry goes before coming due; a task that has both is proposed once.
            let earlier = overdue.commands.iter_mut().find(|command| command.task == task);
            match earlier {
                Some(command) if intent == Intent::Expire => command.intent = intent,
                Some(_) => {}
                None => overdue.commands.push(Command { task, intent }),
            }
        }
        let done = seen < room;
        if done {
            self.timers_after = None;
        }
        Ok(done)
    }

    fn next_deadline(&self) -> Result<Option<Duration>, Fault> {
        let sql = "SELECT min(at) FROM timer WHERE at > ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let timer: Option<i64> = statement.query_row([self.now.as_micros()], |row| row.get(0))?;
        let timer = timer.map(|at| Timestamp::from_micros(at).since(self.now));
        let lease = self.board.leases.next_check().map(|at| at.saturating_sub(self.tick));
        let live = self.board.workers.values().filter(|w| w.state != WorkerState::Dead);
        let silence = live.map(|worker| worker.seen).min();
        let silence =
            silence.map(|seen| seen.saturating_add(self.rules.silence).saturating_sub(self.tick));
        Ok([timer, lease, silence].into_iter().flatten().min())
    }
}
