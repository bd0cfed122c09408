//! Making a change: rows, trail, event, board, all in the running transaction.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tasklane_core::{Entry, Event, Priority, State, Task, Timestamp, lifecycle, limits, trail};
use tasklane_store::codec;

use super::Session;
use crate::board::{Carry, Head, Leased, line_number};
use crate::fault::Fault;
use crate::rows;

/// Kinds of timers.
const DUE: i64 = 0;
const EXPIRES: i64 = 1;
/// Flags of ended tasks, so that removing them needs no look at their rows.
pub(super) const HAS_TRAIL: i64 = 1;
pub(super) const HAS_KEY: i64 = 2;
pub(super) const HAS_ALIAS: i64 = 4;

/// A task as it is before a change.
pub(super) struct Subject {
    pub(super) key: i64,
    pub(super) lane: u32,
    pub(super) task: Task,
    /// It has no row but its first.
    pub(super) fresh: bool,
    /// It has no row in `trail`.
    pub(super) plain: bool,
    /// Its row in `pending` is removed by the claim that is running.
    pub(super) claimed: bool,
}

impl Subject {
    pub(super) fn new(key: i64, lane: u32, task: Task, fresh: bool) -> Self {
        Self { key, lane, task, fresh, plain: fresh, claimed: false }
    }
}

impl Session<'_> {
    /// Makes `event` happen to a task.
    pub(super) fn change(
        &mut self,
        mut subject: Subject,
        event: Event,
        result: Option<&Bytes>,
    ) -> Result<Subject, Fault> {
        let entry = Entry { stamp: self.stamp(), event };
        let mut after = subject.task.clone();
        after.apply(&entry)?;
        let lane = subject.lane;
        codec::encode_feed(&mut self.feed.events, lane.into(), &subject.task, &after, &entry);
        for kept in trail::to_store(&subject.task, &entry) {
            subject.plain = false;
            self.add_to_trail(subject.key, &kept)?;
        }
        // A promotion is told, but the claim that follows it writes the task.
        if !matches!(entry.event, Event::Promoted { .. }) {
            let carry = self.leave(lane, &subject)?;
            self.enter(
                lane,
                &subject,
                &after,
                result,
                carry.map(|carry| self.carry(carry, &entry)),
            )?;
            self.pass_key(&subject, &after, &entry)?;
            subject.fresh = false;
        }
        subject.task = after;
        Ok(subject)
    }

    fn carry(&self, carry: Carry, entry: &Entry) -> Carry {
        match entry.event {
            Event::Started => carry.started(self.tick),
            Event::Progressed(_) => carry.renewed(self.tick, &self.rules),
            _ => carry,
        }
    }

    /// Takes a task out of every index it is in.
    fn leave(&mut self, lane: u32, subject: &Subject) -> Result<Option<Carry>, Fault> {
        let Subject { key, task, .. } = subject;
        let priority = task.spec.priority;
        self.count(lane, priority, task.state.name(), -1)?;
        self.timers(*key, task, false)?;
        match &task.state {
            State::Pending { .. } if !subject.claimed => self.leave_line(lane, task)?,
            State::Assigned(lease) | State::Running(lease) => {
                if let Some(worker) = self.board.workers.get_mut(&lease.worker) {
                    worker.leases.remove(key);
                }
                return Ok(self.board.leases.end(*key));
            }
            state => {
                if let Some(ended) = state.ended() {
                    let queue = self.board.lane(lane)?.queue;
                    let row = params![state.name().index(), queue, ended.at.as_micros(), key];
                    self.sql.delete_ended.execute(row)?;
                }
            }
        }
        Ok(None)
    }

    /// Writes a task where it now belongs.
    fn enter(
        &mut self,
        lane: u32,
        subject: &Subject,
        after: &Task,
        result: Option<&Bytes>,
        carry: Option<Carry>,
    ) -> Result<(), Fault> {
        let key = subject.key;
        let was_leased = subject.task.state.lease().is_some();
        self.count(lane, after.spec.priority, after.state.name(), 1)?;
        self.timers(key, after, true)?;
        let mut record = codec::encode_record(std::mem::take(&mut self.buffer), after);
        if let Some(lease) = after.state.lease() {
            if !was_leased && !subject.fresh {
                self.sql.delete_standing.execute([key])?;
            }
            let statement =
                if was_leased { &mut self.sql.update_lease } else { &mut self.sql.insert_lease };
            statement.execute(params![key, record])?;
            if let Some(worker) = self.board.workers.get_mut(&lease.worker) {
                worker.leases.insert(key);
            }
            let leased = Leased::new(lane, after.clone(), subject.plain);
            match carry {
                Some(carry) => self.board.leases.resume(key, leased, carry, &self.rules),
                None => self.board.leases.begin(key, leased, self.tick, &self.rules),
            }
        } else {
            if was_leased {
                self.sql.delete_lease.execute([key])?;
            }
            let is_new = was_leased || subject.fresh;
            let statement =
                if is_new { &mut self.sql.insert_standing } else { &mut self.sql.update_standing };
            statement.execute(params![key, record, result.map(|bytes| &bytes[..])])?;
            if matches!(after.state, State::Pending { .. }) {
                self.enter_line(lane, key, after, false)?;
            }
            if let Some(ended) = after.state.ended() {
                let flags = (if subject.plain { 0 } else { HAS_TRAIL })
                    | (if after.spec.idempotency_key.is_some() { HAS_KEY } else { 0 })
                    | (if key != after.id.row_key() { HAS_ALIAS } else { 0 });
                self.sql.insert_ended.execute(params![
                    after.state.name().index(),
                    self.board.lane(lane)?.queue,
                    ended.at.as_micros(),
                    key,
                    lane,
                    after.spec.priority.number(),
                    flags,
                ])?;
            }
        }
        record.clear();
        self.buffer = record;
        Ok(())
    }

    /// Adds a pending task to its line.
    pub(super) fn enter_line(
        &mut self,
        lane: u32,
        key: i64,
        task: &Task,
        fresh: bool,
    ) -> Result<(), Fault> {
        let (priority, place) = (task.spec.priority, task.place);
        self.sql.insert_pending.execute(params![
            line_number(lane, priority),
            place.ready_at.as_micros(),
            place.sequence.0,
            key,
            fresh,
        ])?;
        let head = Head { place, key, fresh };
        let ((), starved) = self.board.with_line(lane, priority, |line| line.enter(head))?;
        self.claimable += 1;
        if starved { self.refill(lane, priority) } else { Ok(()) }
    }

    /// Takes a pending task out of its line.
    fn leave_line(&mut self, lane: u32, task: &Task) -> Result<(), Fault> {
        let (priority, place) = (task.spec.priority, task.place);
        self.delete_pending(lane, priority, place)?;
        let ((), starved) = self.board.with_line(lane, priority, |line| line.leave(place))?;
        if starved { self.refill(lane, priority) } else { Ok(()) }
    }

    pub(super) fn delete_pending(
        &mut self,
        lane: u32,
        priority: Priority,
        place: tasklane_core::Place,
    ) -> Result<(), Fault> {
        let (line, at) = (line_number(lane, priority), place.ready_at.as_micros());
        let row = params![line, at, place.sequence.0];
        self.sql.delete_pending.execute(row)?;
        Ok(())
    }

    /// Sets or removes the timers of a task.
    pub(super) fn timers(&mut self, key: i64, task: &Task, set: bool) -> Result<(), Fault> {
        let expires_at = task.expires_at.filter(|_| task.state.name().is_waiting());
        for (at, kind) in [(task.state.due_at(), DUE), (expires_at, EXPIRES)] {
            let Some(at) = at.map(Timestamp::as_micros) else { continue };
            let statement =
                if set { &mut self.sql.insert_timer } else { &mut self.sql.delete_timer };
            statement.execute(params![at, key, kind])?;
        }
        Ok(())
    }

    /// Keeps the line of an ordering key: joins it when revived, frees the next when ended.
    fn pass_key(&mut self, subject: &Subject, after: &Task, entry: &Entry) -> Result<(), Fault> {
        let Some(ordering) = &after.spec.ordering_key else { return Ok(()) };
        let queue = self.board.lane(subject.lane)?.queue;
        let was_live = !subject.task.state.name().is_terminal();
        let is_live = !after.state.name().is_terminal();
        match (was_live, is_live) {
            (false, true) => {
                self.join_key(queue, ordering.as_str(), entry.stamp.sequence.0, subject.key)
            }
            (true, false) => {
                self.leave_key(queue, ordering.as_str(), subject.key)?;
                // Only the one that held the key frees it.
                match subject.task.state {
                    State::Blocked => Ok(()),
                    _ => self.free_next(queue, ordering.as_str()),
                }
            }
            _ => Ok(()),
        }
    }

    pub(super) fn join_key(
        &mut self,
        queue: u32,
        ordering: &str,
        sequence: u64,
        key: i64,
    ) -> Result<(), Fault> {
        let sql = "INSERT INTO ordered(queue, key, sequence, task) VALUES (?, ?, ?, ?)";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![queue, ordering, sequence, key])?;
        Ok(())
    }

    fn leave_key(&mut self, queue: u32, ordering: &str, key: i64) -> Result<(), Fault> {
        // The one that leaves is nearly always the first.
        let sql = "SELECT sequence FROM ordered WHERE queue = ? AND key = ? AND task = ?
                   ORDER BY sequence LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let sequence: i64 = statement
            .query_row(params![queue, ordering, key], |row| row.get(0))
            .optional()?
            .ok_or_else(|| rows::corrupt(key, "not among the tasks of its ordering key"))?;
        let sql = "DELETE FROM ordered WHERE queue = ? AND key = ? AND sequence = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![queue, ordering, sequence])?;
        Ok(())
    }

    /// Whether no live task has this ordering key.
    pub(super) fn key_is_free(&self, queue: u32, ordering: &str) -> Result<bool, Fault> {
        Ok(self.key_holder(queue, ordering)?.is_none())
    }

    fn key_holder(&self, queue: u32, ordering: &str) -> Result<Option<i64>, Fault> {
        let sql = "SELECT task FROM ordered WHERE queue = ? AND key = ? ORDER BY sequence LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row(params![queue, ordering], |row| row.get(0)).optional()?)
    }

    fn free_next(&mut self, queue: u32, ordering: &str) -> Result<(), Fault> {
        let Some(key) = self.key_holder(queue, ordering)? else { return Ok(()) };
        let loaded = rows::load_key(self.connection, &self.lanes, key)?
            .ok_or_else(|| rows::corrupt(key, "missing, though it waits for an ordering key"))?;
        if let Ok(lifecycle::Decision::Change(event)) = lifecycle::unblock(&loaded.task) {
            let subject = Subject::new(key, loaded.lane, loaded.task, loaded.fresh);
            self.change(subject, event, None)?;
        }
        Ok(())
    }

    fn add_to_trail(&mut self, key: i64, entry: &Entry) -> Result<(), Fault> {
        let sequence = entry.stamp.sequence.0;
        self.sql.insert_trail.execute(params![key, sequence, codec::encode_entry(entry)])?;
        // Looking now and then is enough to keep a bound.
        if sequence.is_multiple_of(64) { self.cut_trail(key) } else { Ok(()) }
    }

    /// Drops the older half of a trail that has grown too long, and leaves a mark.
    fn cut_trail(&mut self, key: i64) -> Result<(), Fault> {
        let sql =
            "SELECT sequence FROM trail WHERE task = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?";
        let mut at = self.connection.prepare_cached(sql)?;
        let mut nth = |offset: usize| -> Result<Option<i64>, Fault> {
            Ok(at.query_row(params![key, offset], |row| row.get(0)).optional()?)
        };
        if nth(limits::TRAIL_ENTRIES_MAX)?.is_none() {
            return Ok(());
        }
        let keep_from = nth(limits::TRAIL_ENTRIES_MAX / 2)?;
        let sql = "DELETE FROM trail WHERE task = ? AND sequence < ?";
        self.connection.prepare_cached(sql)?.execute(params![key, keep_from])?;
        let sql = "INSERT OR IGNORE INTO trail(task, sequence, entry) VALUES (?, 0, x'')";
        self.connection.prepare_cached(sql)?.execute([key])?;
        Ok(())
    }

    /// Removes every row of an ended task. Its idempotency record learns how it ended.
    pub(super) fn remove(&mut self, row: &EndedRow) -> Result<(), Fault> {
        let EndedRow { key, state, queue, at, lane, priority, flags } = *row;
        if flags & (HAS_KEY | HAS_ALIAS) != 0 {
            self.remember_end(row)?;
        }
        self.sql.delete_task.execute([key])?;
        self.sql.delete_standing.execute([key])?;
        if flags & HAS_TRAIL != 0 {
            self.sql.delete_trail.execute([key])?;
        }
        self.sql.delete_ended.execute(params![state.index(), queue, at, key])?;
        self.count(lane, priority, state, -1)
    }

    fn remember_end(&mut self, row: &EndedRow) -> Result<(), Fault> {
        let Some(loaded) = rows::load_key(self.connection, &self.lanes, row.key)? else {
            return Err(rows::corrupt(row.key, "missing, though it is listed as ended"));
        };
        if let Some(key) = &loaded.task.spec.idempotency_key {
            let sql = "UPDATE idempotency SET ended = ? WHERE queue = ? AND key = ? AND id = ?";
            let id = loaded.task.id.as_bytes();
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.execute(params![row.state.index(), row.queue, key.as_str(), id])?;
        }
        if row.flags & HAS_ALIAS != 0 {
            let mut statement = self.connection.prepare_cached("DELETE FROM alias WHERE id = ?")?;
            self.aliases -= statement.execute([loaded.task.id.as_bytes()])? as u64;
        }
        Ok(())
    }
}

/// A row of `ended`.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedRow {
    pub(super) key: i64,
    pub(super) state: tasklane_core::StateName,
    pub(super) queue: u32,
    pub(super) at: i64,
    pub(super) lane: u32,
    pub(super) priority: Priority,
    pub(super) flags: i64,
}
