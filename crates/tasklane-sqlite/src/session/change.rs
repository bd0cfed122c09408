//! Making a change: rows, trail, event, board, all in the running transaction.

use bytes::Bytes;
use rusqlite::{OptionalExtension, params};
use tasklane_core::{
    Entry, Event, Priority, Random, State, StateName, Task, Timestamp, limits, trail,
};
use tasklane_store::codec::{self, Before};

use super::Session;
use crate::board::{Carry, Head, Leased, line_number};
use crate::fault::Fault;

/// Kinds of timers.
const DUE: i64 = 0;
const EXPIRES: i64 = 1;

/// A task as it is before a change.
pub(super) struct Subject {
    pub(super) key: i64,
    pub(super) lane: u32,
    /// Boxed: it is some 700 bytes and goes through many hands.
    pub(super) task: Box<Task>,
    /// It has no row but its first.
    pub(super) fresh: bool,
    /// It has no row in `trail`.
    pub(super) plain: bool,
    /// Its row in `pending` is removed by the claim that is running.
    pub(super) claimed: bool,
    /// The deadlines of its lease, if it has one and is off the board for this change.
    pub(super) carry: Option<Carry>,
}

impl Subject {
    pub(super) fn new(key: i64, lane: u32, task: Box<Task>, fresh: bool) -> Self {
        Self { key, lane, task, fresh, plain: fresh, claimed: false, carry: None }
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
        let before = Before::of(&subject.task);
        let was = subject.task.state.name();
        // A promotion is told, but the claim that follows it writes the task.
        let moves = !matches!(entry.event, Event::Promoted { .. });
        if moves {
            self.leave(&subject)?;
        }
        subject.task.apply(&entry)?;
        let (lane, task) = (subject.lane.into(), &subject.task);
        codec::encode_feed(&mut self.feed.events, lane, &before, task, &entry);
        for kept in trail::to_store(before.held.as_ref(), &entry) {
            subject.plain = false;
            self.add_to_trail(subject.key, &kept)?;
        }
        if moves {
            subject.carry = subject.carry.map(|carry| self.carry(carry, &entry));
            self.enter(&subject, was, result)?;
            self.pass_key(&subject, was, &entry)?;
            subject.fresh = false;
        }
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
    fn leave(&mut self, subject: &Subject) -> Result<(), Fault> {
        let Subject { key, lane, task, .. } = subject;
        self.count(*lane, task.spec.priority, task.state.name(), -1)?;
        self.timers(*key, task, false)?;
        match &task.state {
            State::Pending { .. } if !subject.claimed => self.leave_line(*lane, *key, task),
            State::Assigned(lease) | State::Running(lease) => {
                if let Some(worker) = self.board.workers.get_mut(&lease.worker) {
                    worker.leases.remove(key);
                }
                Ok(())
            }
            state => match state.ended() {
                Some(ended) => self.forget_end(*key, *lane, state.name(), ended.at),
                None => Ok(()),
            },
        }
    }

    /// Writes a task where it now belongs.
    fn enter(
        &mut self,
        subject: &Subject,
        was: StateName,
        result: Option<&Bytes>,
    ) -> Result<(), Fault> {
        let Subject { key, lane, task, .. } = subject;
        self.count(*lane, task.spec.priority, task.state.name(), 1)?;
        self.timers(*key, task, true)?;
        let mut record = codec::encode_record(std::mem::take(&mut self.buffer), task);
        if let Some(lease) = task.state.lease() {
            if !was.is_leased() && !subject.fresh {
                self.sql.delete_standing.execute([key])?;
            }
            let is_new = !was.is_leased();
            let statement =
                if is_new { &mut self.sql.insert_lease } else { &mut self.sql.update_lease };
            statement.execute(params![key, record])?;
            if let Some(worker) = self.board.workers.get_mut(&lease.worker) {
                worker.leases.insert(*key);
            }
            let leased = Leased::new(*lane, task.clone(), subject.plain);
            match subject.carry {
                Some(carry) => self.board.leases.resume(*key, leased, carry, &self.rules),
                None => self.board.leases.begin(*key, leased, self.tick, &self.rules),
            }
        } else {
            if was.is_leased() {
                self.unleased.push(*key);
            }
            let is_new = was.is_leased() || subject.fresh;
            let statement =
                if is_new { &mut self.sql.insert_standing } else { &mut self.sql.update_standing };
            statement.execute(params![key, record, result.map(|bytes| &bytes[..])])?;
            if matches!(task.state, State::Pending { .. }) {
                self.enter_line(*lane, *key, task)?;
            } else if task.state.ended().is_some() {
                self.note_end(subject)?;
            }
        }
        record.clear();
        self.buffer = record;
        Ok(())
    }

    /// Adds a task that is pending again to its line.
    fn enter_line(&mut self, lane: u32, key: i64, task: &Task) -> Result<(), Fault> {
        let (priority, place) = (task.spec.priority, task.place);
        self.sql.insert_pending.execute(params![
            line_number(lane, priority),
            place.ready_at.as_micros(),
            place.sequence.0,
            key,
            false,
        ])?;
        self.enter_board(lane, priority, Head { place, key, fresh: false })
    }

    /// Takes a pending task out of its line.
    fn leave_line(&mut self, lane: u32, key: i64, task: &Task) -> Result<(), Fault> {
        let (priority, place) = (task.spec.priority, task.place);
        if !self.arrivals.remove(key) {
            self.delete_pending(lane, priority, place)?;
        }
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

    fn add_to_trail(&mut self, key: i64, entry: &Entry) -> Result<(), Fault> {
        let sequence = entry.stamp.sequence.0;
        self.sql.insert_trail.execute(params![key, sequence, codec::encode_entry(entry)])?;
        // Looking now and then is enough to keep a bound: by number for a task that everything
        // happens to, by chance for one among many.
        let look = sequence.is_multiple_of(64) || self.random.next_u64().is_multiple_of(64);
        if look { self.cut_trail(key) } else { Ok(()) }
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
}
