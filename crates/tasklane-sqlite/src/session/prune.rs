//! Removing what has been kept long enough, a slice at a time.

use std::time::Instant;

use rusqlite::params;
use tasklane_core::{Priority, StateName, WorkerState, limits};
use tasklane_store::{Prune, Pruned};

use super::Session;
use super::change::EndedRow;
use crate::fault::Fault;
use crate::rows;

/// Feed rows, idempotency records removed in one slice.
const ROWS_MAX: usize = 1_000;

impl Session<'_> {
    pub(crate) fn prune(&mut self, prune: &Prune) -> Result<Pruned, Fault> {
        let started = Instant::now();
        let mut pruned = Pruned::default();
        self.prune_tasks(prune, started, &mut pruned)?;
        self.prune_events(prune, &mut pruned)?;
        self.prune_idempotency(prune, &mut pruned)?;
        self.prune_workers(prune, &mut pruned)?;
        Ok(pruned)
    }

    fn prune_tasks(
        &mut self,
        prune: &Prune,
        started: Instant,
        pruned: &mut Pruned,
    ) -> Result<(), Fault> {
        let mut room = prune.limit.min(limits::SLICE_TASKS);
        let terminal = StateName::ALL.into_iter().filter(|state| state.is_terminal());
        for state in terminal {
            let queues: Vec<_> = self
                .board
                .queues()
                .filter(|(_, slot)| slot.counts.get(state.index()).is_some_and(|n| *n > 0))
                .map(|(number, slot)| (number, slot.settings.retention))
                .collect();
            for (queue, own) in queues {
                let retention = own.filter(|_| !prune.override_queues).unwrap_or(prune.retention);
                let Some(kept) = retention.of(state) else { continue };
                let ended_by = self.now.minus(kept).as_micros();
                for row in self.ended_rows(state, queue, ended_by, room + 1)? {
                    if room == 0 || started.elapsed() >= limits::SLICE_TIME {
                        pruned.more = true;
                        return Ok(());
                    }
                    self.remove(&row)?;
                    if let Some(count) = pruned.tasks.get_mut(state.index()) {
                        *count += 1;
                    }
                    room -= 1;
                }
            }
        }
        Ok(())
    }

    fn ended_rows(
        &self,
        state: StateName,
        queue: u32,
        ended_by: i64,
        limit: usize,
    ) -> Result<Vec<EndedRow>, Fault> {
        let sql = "SELECT at, task, lane, priority, flags FROM ended
                   WHERE state = ? AND queue = ? AND at <= ? ORDER BY at, task LIMIT ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![state.index(), queue, ended_by, limit])?;
        let mut ended = Vec::new();
        while let Some(row) = found.next()? {
            let key = row.get(1)?;
            ended.push(EndedRow {
                key,
                state,
                queue,
                at: row.get(0)?,
                lane: row.get(2)?,
                priority: Priority::from_number(row.get(3)?)
                    .map_err(|_| rows::corrupt(key, "ended with an unknown priority"))?,
                flags: row.get(4)?,
            });
        }
        Ok(ended)
    }

    /// From the old end on, as long as each row is too old or too many: a clock that stepped back
    /// must not make this look through the whole feed. The newest row always stays: it remembers
    /// the last number given.
    fn prune_events(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let old = self.now.minus(prune.events_for).as_micros();
        let surplus =
            i64::try_from(self.last.0.saturating_sub(prune.events_max)).unwrap_or(i64::MAX);
        let sql = "SELECT first, count, at <= ?1 OR first <= ?2 FROM feed
                   WHERE first < (SELECT max(first) FROM feed) ORDER BY first LIMIT ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![old, surplus, ROWS_MAX + 1])?;
        let (mut last, mut seen) = (None, 0);
        while let Some(row) = found.next()? {
            if !row.get::<_, bool>(2)? {
                break;
            }
            seen += 1;
            if seen > ROWS_MAX {
                pruned.more = true;
                break;
            }
            last = Some(row.get::<_, i64>(0)?);
            pruned.events += row.get::<_, u64>(1)?;
        }
        if let Some(last) = last {
            let sql = "DELETE FROM feed WHERE first <= ?";
            self.connection.prepare_cached(sql)?.execute([last])?;
        }
        Ok(())
    }

    /// Records stay as long as their task lives, so each look goes on where the last one ended.
    fn prune_idempotency(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let before = self.now.minus(prune.idempotency_for).as_micros();
        let (at, queue, key) =
            self.idempotency_after.take().unwrap_or((i64::MIN, 0, String::new()));
        let sql = "SELECT created_at, queue, key, id, ended FROM idempotency
                   WHERE created_at <= ? AND (created_at, queue, key) > (?, ?, ?)
                   ORDER BY created_at, queue, key LIMIT ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![before, at, queue, key, ROWS_MAX])?;
        let (mut seen, mut over) = (0, Vec::new());
        while let Some(row) = found.next()? {
            seen += 1;
            let (queue, key): (i64, String) = (row.get(1)?, row.get(2)?);
            self.idempotency_after = Some((row.get(0)?, queue, key.clone()));
            let id = tasklane_core::TaskId::from_bytes(row.get(3)?)
                .map_err(|e| Fault::Corrupt(format!("idempotency record {key}: {e}")))?;
            let removed = row.get::<_, Option<i64>>(4)?.is_some();
            if removed || self.has_ended(id)? {
                over.push((queue, key));
            }
        }
        if seen < ROWS_MAX {
            self.idempotency_after = None;
        } else {
            pruned.more = true;
        }
        let sql = "DELETE FROM idempotency WHERE queue = ? AND key = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        for (queue, key) in over {
            pruned.idempotency_records += statement.execute(params![queue, key])? as u64;
        }
        Ok(())
    }

    fn has_ended(&self, id: tasklane_core::TaskId) -> Result<bool, Fault> {
        let loaded = rows::load(self.connection, &self.lanes, id)?;
        Ok(loaded.is_none_or(|loaded| loaded.task.state.name().is_terminal()))
    }

    fn prune_workers(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let before = self.now.minus(prune.workers_for);
        let over: Vec<_> = self
            .board
            .workers
            .iter()
            .filter(|(_, slot)| slot.state == WorkerState::Dead && slot.changed_at <= before)
            .map(|(id, _)| *id)
            .take(ROWS_MAX)
            .collect();
        for id in over {
            self.remove_worker(id)?;
            pruned.workers += 1;
        }
        Ok(())
    }
}
