//! Making the board from what is stored: at open, and after a transaction that failed.

use rusqlite::OptionalExtension;
use tasklane_core::{
    Place, Priority, QueueName, Random, Sequence, State, StateName, Timestamp, WorkerId,
};
use tasklane_store::codec;

use super::Session;
use crate::board::{Board, Head, Leased, WorkerSlot, line_number};
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    /// Gives a new file its first life.
    pub(super) fn found(&mut self) -> Result<(), Fault> {
        let epoch = self.random.next_u64() >> 1;
        self.connection.execute(
            "INSERT OR IGNORE INTO meta(name, value) VALUES ('epoch', ?)",
            [epoch.max(1)],
        )?;
        let sql = "INSERT OR IGNORE INTO meta(name, value) VALUES ('indexed', 0)";
        self.connection.execute(sql, [])?;
        Ok(())
    }

    /// Begins a new life if the last one ended without a close and without syncs: events that a
    /// reader has seen may be gone, and their numbers are given again.
    pub(crate) fn mark_open(&mut self, synced: bool) -> Result<(), Fault> {
        let sql = "SELECT value FROM meta WHERE name = 'open'";
        let open: Option<i64> = self.connection.query_row(sql, [], |row| row.get(0)).optional()?;
        if open == Some(1) && !synced {
            self.epoch = (self.random.next_u64() >> 1).max(1);
            let sql = "UPDATE meta SET value = ? WHERE name = 'epoch'";
            self.connection.execute(sql, [self.epoch])?;
        }
        self.set_open(!synced)
    }

    /// Notes whether the store is in use in a way that could lose what it answered.
    pub(crate) fn set_open(&self, open: bool) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO meta(name, value) VALUES ('open', ?)";
        self.connection.execute(sql, [open])?;
        Ok(())
    }

    pub(super) fn load(&mut self) -> Result<(), Fault> {
        let before = std::mem::take(&mut self.board);
        self.dirty.clear();
        self.ended.clear();
        self.unleased.clear();
        self.feed.events.clear();
        self.timers_after = None;
        self.idempotency_after = None;
        self.pruned_to = None;
        let one = |sql: &str| self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        self.epoch = one("SELECT value FROM meta WHERE name = 'epoch'")? as u64;
        self.aliases = one("SELECT count(*) FROM alias")? as u64;
        self.max_key = one("SELECT coalesce(max(task), 0) FROM task")?;
        let last =
            one("SELECT first + count - 1 FROM feed ORDER BY first DESC LIMIT 1").optional()?;
        self.last = Sequence(last.unwrap_or(0) as u64);
        self.load_queues()?;
        self.load_lanes()?;
        self.load_arrivals()?;
        self.load_counts()?;
        self.load_workers(&before)?;
        self.load_leases(before)
    }

    fn load_queues(&mut self) -> Result<(), Fault> {
        let mut statement =
            self.connection.prepare_cached("SELECT queue, name, settings FROM queue")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(1)?;
            let name = QueueName::new(&name).map_err(|e| Fault::Corrupt(format!("queue: {e}")))?;
            let settings = codec::decode_queue(rows::blob(row, 2)?)?;
            self.board.add_queue(row.get(0)?, name, settings);
        }
        Ok(())
    }

    fn load_lanes(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare_cached("SELECT lane, name FROM lane")?;
        let mut rows = statement.query([])?;
        let mut lanes = hashbrown::HashMap::new();
        while let Some(row) = rows.next()? {
            let number: u32 = row.get(0)?;
            let lane = codec::decode_lane(rows::blob(row, 1)?)?;
            let queue = self.board.queue_number(&lane.queue);
            let queue = queue.ok_or_else(|| {
                Fault::Corrupt(format!(
                    "lane {number} is of queue {}, which is not known",
                    lane.queue
                ))
            })?;
            self.board.add_lane(number, lane.clone(), queue);
            lanes.insert(number.into(), lane);
        }
        self.lanes.replace(lanes);
        Ok(())
    }

    fn load_counts(&mut self) -> Result<(), Fault> {
        let mut statement = self.connection.prepare_cached("SELECT lane, counts FROM tally")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let lane: u32 = row.get(0)?;
            let counts = codec::decode_counts(rows::blob(row, 1)?)?;
            for priority in Priority::DESCENDING {
                for state in StateName::ALL {
                    let counted = counts.get(priority.index()).and_then(|c| c.get(state.index()));
                    let counted = counted.copied().unwrap_or_default();
                    if counted == 0 {
                        continue;
                    }
                    self.board.count(lane, priority, state, counted as i64)?;
                    if state == StateName::Pending {
                        self.board.with_line(lane, priority, crate::board::Line::mark_unknown)?;
                        self.refill(lane, priority)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fetches the next heads of a line that ran dry.
    pub(super) fn refill(&mut self, lane: u32, priority: Priority) -> Result<(), Fault> {
        let slot = self.board.lane(lane)?;
        let after = slot.lines.get(priority.index()).and_then(crate::board::Line::refill_after);
        let most = self.board.room().refill;
        let mut heads = self.heads(lane, priority, after, most)?;
        let last = heads.last().filter(|_| heads.len() == most).map(|head| head.place);
        let arrived = self.arrivals.of_line(line_number(lane, priority), after);
        heads.extend(arrived.into_iter().filter(|head| last.is_none_or(|last| head.place < last)));
        heads.sort_unstable_by_key(|head| head.place);
        self.board.with_line(lane, priority, |line| line.refill(heads, last.is_none()))?;
        Ok(())
    }

    /// Pending tasks of a lane and priority behind a place, from the index.
    pub(super) fn heads(
        &mut self,
        lane: u32,
        priority: Priority,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Head>, Fault> {
        let (at, sequence) = match after {
            Some(place) => (place.ready_at.as_micros(), place.sequence.0 as i64),
            None => (i64::MIN, 0),
        };
        let wanted = rusqlite::params![line_number(lane, priority), at, sequence, limit];
        let mut rows = self.sql.select_pending.query(wanted)?;
        let mut heads = Vec::new();
        while let Some(row) = rows.next()? {
            heads.push(Head {
                place: Place {
                    ready_at: Timestamp::from_micros(row.get(0)?),
                    sequence: Sequence(row.get(1)?),
                },
                key: row.get(2)?,
                fresh: row.get(3)?,
            });
        }
        Ok(heads)
    }

    fn load_workers(&mut self, before: &Board) -> Result<(), Fault> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT worker, record, registered_at, changed_at FROM worker")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (spec, state) = codec::decode_worker(rows::blob(row, 1)?)?;
            let time = |column| row.get(column).map(Timestamp::from_micros);
            let mut slot = WorkerSlot::new(spec, state, time(2)?, time(3)?, self.tick);
            let id = WorkerId::from_bytes(row.get(0)?);
            slot.seen_at = self.now;
            if let Some(known) = before.workers.get(&id) {
                (slot.seen, slot.seen_at, slot.health) = (known.seen, known.seen_at, known.health);
            }
            self.board.workers.insert(id, slot);
        }
        Ok(())
    }

    /// At open every lease begins anew at its full length (S7); after a transaction that failed,
    /// those that stand go on as they were.
    fn load_leases(&mut self, mut before: Board) -> Result<(), Fault> {
        let sql = format!(
            "SELECT {} FROM lease l JOIN task t ON t.task = l.task LEFT JOIN standing s ON s.task = t.task",
            rows::COLUMNS_LEAN
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let loaded = rows::from_row(row, &self.lanes)?;
            let (State::Assigned(lease) | State::Running(lease)) = loaded.task.state else {
                return Err(rows::corrupt(loaded.key, "a lease row of a task that is not leased"));
            };
            if let Some(worker) = self.board.workers.get_mut(&lease.worker) {
                worker.leases.insert(loaded.key);
            }
            let leased = Leased::new(loaded.lane, Box::new(loaded.task), false);
            let same = before.leases.get(loaded.key).is_some_and(|l| l.is_held_by(&lease.token));
            match before.leases.end(loaded.key).filter(|_| same) {
                Some((_, carry)) => {
                    self.board.leases.resume(loaded.key, leased, carry, &self.rules)
                }
                None => self.board.leases.begin(loaded.key, leased, self.tick, &self.rules),
            }
        }
        Ok(())
    }
}
