//! Removing what has been kept long enough, a slice at a time.

use std::time::Instant;

use rusqlite::params;
use tasklane_core::{StateName, WorkerState, limits};
use tasklane_store::{Prune, Pruned};

use super::Session;
use crate::ended::{self, Ended};
use crate::fault::Fault;
use crate::rows;

/// Feed rows, idempotency records removed in one slice.
const ROWS_MAX: usize = 1_000;
/// Tasks removed by one statement, between two looks at the clock: of the largest payloads so many
/// are some thousand pages.
const RUN_TASKS_MAX: usize = 16;

impl Session<'_> {
    pub(crate) fn prune(&mut self, prune: &Prune) -> Result<Pruned, Fault> {
        let started = Instant::now();
        // Events must not go before what they tell of is in the index.
        self.index_arrivals()?;
        let mut pruned = Pruned::default();
        self.prune_tasks(prune, started, &mut pruned)?;
        self.prune_events(prune, &mut pruned)?;
        self.prune_idempotency(prune, &mut pruned)?;
        self.prune_workers(prune, &mut pruned)?;
        self.prune_api_keys(prune, &mut pruned)?;
        self.prune_audit(prune, &mut pruned)?;
        Ok(pruned)
    }

    /// Line by line of what has ended, from where the last slice stopped: however many lines there
    /// are, each slice gets further.
    fn prune_tasks(
        &mut self,
        prune: &Prune,
        started: Instant,
        pruned: &mut Pruned,
    ) -> Result<(), Fault> {
        let mut room = prune.limit.min(limits::SLICE_TASKS);
        let from = self.pruned_to.take();
        let terminal = StateName::ALL.into_iter().filter(|state| state.is_terminal());
        let lines = terminal.flat_map(|state| {
            let has_some = move |counts: &[u64]| counts.get(state.index()).is_some_and(|n| *n > 0);
            let queues = self.board.queues().filter(move |(_, slot)| has_some(&slot.counts));
            queues.map(move |(number, slot)| (state, number, slot.settings.retention))
        });
        let lines: Vec<_> = lines
            .filter(|(state, queue, _)| from.is_none_or(|from| (*state, *queue) >= from))
            .collect();
        for (state, queue, own) in lines {
            let retention = own.filter(|_| !prune.override_queues).unwrap_or(prune.retention);
            let Some(kept) = retention.of(state) else { continue };
            let over = self.now.minus(kept).as_micros();
            if !self.prune_line(state, queue, over, started, &mut room, pruned)? {
                self.pruned_to = Some((state, queue));
                pruned.more = true;
                return Ok(());
            }
        }
        // This slice began in the middle: the beginning is still to be looked at.
        pruned.more |= from.is_some();
        Ok(())
    }

    /// Removes what ended in one state and queue by `over`. Says whether that was all.
    fn prune_line(
        &mut self,
        state: StateName,
        queue: u32,
        over: i64,
        started: Instant,
        room: &mut usize,
        pruned: &mut Pruned,
    ) -> Result<bool, Fault> {
        for (at, part, tasks) in self.parts(state, queue, over, *room)? {
            let mut removed = 0;
            for run in ended::runs(&tasks, RUN_TASKS_MAX) {
                let some = removed > 0 || pruned.tasks_total() > 0;
                let late = some && started.elapsed() >= limits::SLICE_TIME;
                if *room == 0 || late {
                    break;
                }
                let run = run.get(..run.len().min(*room)).unwrap_or(run);
                self.remove(state, run)?;
                removed += run.len();
                *room -= run.len();
            }
            if let Some(count) = pruned.tasks.get_mut(state.index()) {
                *count += removed as u64;
            }
            let left = tasks.get(removed..).unwrap_or_default();
            self.rewrite_part(state, queue, at, part, left)?;
            if !left.is_empty() {
                return Ok(false);
            }
        }
        Ok(self.parts(state, queue, over, 1)?.is_empty())
    }

    /// The oldest rows of ended tasks, with at least `limit` tasks if there are so many.
    fn parts(
        &self,
        state: StateName,
        queue: u32,
        over: i64,
        limit: usize,
    ) -> Result<Vec<(i64, i64, Vec<Ended>)>, Fault> {
        let sql = "SELECT at, part, tasks FROM ended
                   WHERE state = ? AND queue = ? AND at <= ? ORDER BY at, part";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![state.index(), queue, over])?;
        let (mut parts, mut tasks) = (Vec::new(), 0);
        while tasks < limit.max(1) {
            let Some(row) = found.next()? else { break };
            let part = ended::unpack(rows::blob(row, 2)?)?;
            tasks += part.len();
            parts.push((row.get(0)?, row.get(1)?, part));
        }
        Ok(parts)
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
