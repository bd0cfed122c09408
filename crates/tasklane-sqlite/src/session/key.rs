//! Ordering keys: one task of a key at a time (S8).

use rusqlite::{OptionalExtension, params};
use tasklane_core::{Entry, StateName, lifecycle};

use super::Session;
use super::change::Subject;
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    /// Keeps the line of an ordering key: joins it when revived, frees the next when ended.
    pub(super) fn pass_key(
        &mut self,
        subject: &Subject,
        was: StateName,
        entry: &Entry,
    ) -> Result<(), Fault> {
        let Some(ordering) = &subject.task.spec.ordering_key else { return Ok(()) };
        let queue = self.board.lane(subject.lane)?.queue;
        let was_live = !was.is_terminal();
        let is_live = !subject.task.state.name().is_terminal();
        match (was_live, is_live) {
            (false, true) => {
                self.join_key(queue, ordering.as_str(), entry.stamp.sequence.0, subject.key)
            }
            (true, false) => {
                self.leave_key(queue, ordering.as_str(), subject.key)?;
                // Only the one that held the key frees it.
                match was {
                    StateName::Blocked => Ok(()),
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
        self.remove_leases()?;
        let loaded = rows::load_key(self.connection, &self.lanes, key)?
            .ok_or_else(|| rows::corrupt(key, "missing, though it waits for an ordering key"))?;
        if let Ok(lifecycle::Decision::Change(event)) = lifecycle::unblock(&loaded.task) {
            let subject = Subject::new(key, loaded.lane, Box::new(loaded.task), loaded.fresh);
            self.change(subject, event, None)?;
        }
        Ok(())
    }
}
