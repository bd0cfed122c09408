//! Tasks that have ended: noted together at the end of a transaction, removed one by one.

use rusqlite::params;
use tasklane_core::{StateName, Timestamp};

use super::Session;
use super::change::Subject;
use crate::ended::{self, Ended, HAS_ALIAS, HAS_KEY, HAS_TRAIL, PART_TASKS_MAX};
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    /// Notes the end of a task, to be written with the others of this transaction.
    pub(super) fn note_end(&mut self, subject: &Subject) -> Result<(), Fault> {
        let Subject { key, lane, task, .. } = subject;
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let flags = flag(!subject.plain, HAS_TRAIL)
            | flag(task.spec.idempotency_key.is_some(), HAS_KEY)
            | flag(*key != task.id.row_key(), HAS_ALIAS);
        let ended = Ended { key: *key, lane: *lane, priority: task.spec.priority, flags };
        let queue = self.board.lane(*lane)?.queue;
        self.ended.push((task.state.name(), queue, ended));
        Ok(())
    }

    /// Writes what was noted, a row for those that ended alike.
    pub(super) fn write_ends(&mut self) -> Result<(), Fault> {
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_unstable_by_key(|(state, queue, ended)| (*state, *queue, ended.key));
        // Numbers of this transaction's events, of which there are more than parts.
        let mut part = self.feed.first.0;
        for alike in ended.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            for tasks in alike.chunks(PART_TASKS_MAX) {
                let Some((state, queue, _)) = tasks.first() else { continue };
                let tasks: Vec<Ended> = tasks.iter().map(|(_, _, ended)| *ended).collect();
                let (state, at) = (state.index(), self.now.as_micros());
                let row = params![state, queue, at, part, ended::pack(&tasks)];
                self.sql.insert_ended.execute(row)?;
                part += 1;
            }
        }
        ended.clear();
        self.ended = ended;
        Ok(())
    }

    /// Takes the end of a task back: it was revived, or is removed.
    pub(super) fn forget_end(
        &mut self,
        key: i64,
        lane: u32,
        state: StateName,
        at: Timestamp,
    ) -> Result<(), Fault> {
        let noted = self.ended.iter().position(|(_, _, ended)| ended.key == key);
        if let Some(position) = noted {
            self.ended.swap_remove(position);
            return Ok(());
        }
        let (queue, at) = (self.board.lane(lane)?.queue, at.as_micros());
        let sql = "SELECT part, tasks FROM ended WHERE state = ? AND queue = ? AND at = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![state.index(), queue, at])?;
        while let Some(row) = found.next()? {
            let mut tasks = ended::unpack(rows::blob(row, 1)?)?;
            if let Some(position) = tasks.iter().position(|ended| ended.key == key) {
                tasks.remove(position);
                let part = row.get(0)?;
                return self.rewrite_part(state, queue, at, part, &tasks);
            }
        }
        Err(rows::corrupt(key, "not listed among the ended"))
    }

    /// Leaves only these tasks in a row.
    pub(super) fn rewrite_part(
        &self,
        state: StateName,
        queue: u32,
        at: i64,
        part: i64,
        tasks: &[Ended],
    ) -> Result<(), Fault> {
        if tasks.is_empty() {
            let sql = "DELETE FROM ended WHERE state = ? AND queue = ? AND at = ? AND part = ?";
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.execute(params![state.index(), queue, at, part])?;
        } else {
            let sql =
                "UPDATE ended SET tasks = ? WHERE state = ? AND queue = ? AND at = ? AND part = ?";
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.execute(params![ended::pack(tasks), state.index(), queue, at, part])?;
        }
        Ok(())
    }

    /// Removes every other row of ended tasks whose keys follow one another: see [`ended::runs`]. Their
    /// idempotency records learn how they ended.
    pub(super) fn remove(&mut self, state: StateName, run: &[Ended]) -> Result<(), Fault> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let has = |flags: u8| move |ended: &&Ended| ended.flags & flags != 0;
        for ended in run.iter().filter(has(HAS_KEY | HAS_ALIAS)) {
            self.remember_end(state, ended)?;
        }
        let keys = [first.key, last.key];
        self.sql.delete_tasks.execute(keys)?;
        self.sql.delete_standings.execute(keys)?;
        if run.iter().any(|ended| has(HAS_TRAIL)(&ended)) {
            self.sql.delete_trails.execute(keys)?;
        }
        for Ended { lane, priority, .. } in run {
            self.count(*lane, *priority, state, -1)?;
        }
        Ok(())
    }

    /// Removes the lease rows of tasks that are leased no more: those with neighbouring keys together,
    /// which takes 1,750 instructions for each instead of 3,800.
    pub(super) fn remove_leases(&mut self) -> Result<(), Fault> {
        let mut keys = std::mem::take(&mut self.unleased);
        keys.sort_unstable();
        for run in keys.chunk_by(|one, next| ended::follows(*one, *next)) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                self.sql.delete_leases.execute([first, last])?;
            }
        }
        keys.clear();
        self.unleased = keys;
        Ok(())
    }

    fn remember_end(&mut self, state: StateName, ended: &Ended) -> Result<(), Fault> {
        let Some(loaded) = rows::load_key(self.connection, &self.lanes, ended.key)? else {
            return Err(rows::corrupt(ended.key, "missing, though it is listed as ended"));
        };
        let queue = self.board.lane(ended.lane)?.queue;
        let id = loaded.task.id.as_bytes();
        if let Some(key) = &loaded.task.spec.idempotency_key {
            let sql = "UPDATE idempotency SET ended = ? WHERE queue = ? AND key = ? AND id = ?";
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.execute(params![state.index(), queue, key.as_str(), id])?;
        }
        if ended.flags & HAS_ALIAS != 0 {
            let mut statement = self.connection.prepare_cached("DELETE FROM alias WHERE id = ?")?;
            self.aliases -= statement.execute([id])? as u64;
        }
        Ok(())
    }
}
