//! Ordering keys: one task of a key at a time (S8).

use bytes::Bytes;
use tasklane_core::{Entry, StateName, Task, lifecycle};

use super::{DEPTH, Session};
use crate::fault::{Fault, corrupt};
use crate::keys::Key;
use crate::sorted::First;
use crate::stored::task_id;
use crate::value;

impl Session<'_> {
    /// Keeps the line of an ordering key: joins it when revived, frees the next when ended.
    pub(super) fn pass_key(
        &mut self,
        task: &Task,
        was: StateName,
        entry: &Entry,
    ) -> Result<(), Fault> {
        let Some(line) = self.line(task)? else { return Ok(()) };
        match (!was.is_terminal(), !task.state.name().is_terminal()) {
            (false, true) => self.join_line(line, task, entry.stamp.sequence.0),
            (true, false) => {
                self.leave_line(&line, task)?;
                // Only the one that held the key frees it.
                if was != StateName::Blocked {
                    self.free_next(&line)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the live tasks of its ordering key stand.
    pub(super) fn line(&self, task: &Task) -> Result<Option<Key>, Fault> {
        let Some(ordering) = &task.spec.ordering_key else { return Ok(None) };
        let queue = self.catalog.queue_number(&task.spec.lane.queue);
        let queue = queue.ok_or_else(|| corrupt(task.id, "in a queue that is not known"))?;
        Ok(Some(Key::Line(queue, ordering.as_str().into())))
    }

    pub(super) fn join_line(&mut self, line: Key, task: &Task, number: u64) {
        let id = Bytes::copy_from_slice(task.id.as_bytes());
        self.put(line, number as i64, id);
    }

    fn leave_line(&mut self, line: &Key, task: &Task) -> Result<(), Fault> {
        let id = task.id.as_bytes();
        let changed = self.writes.scores(line).and_then(|changes| changes.get(&id[..]).copied());
        let joined = match changed {
            Some(joined) => joined,
            None => {
                let score = crate::read::Read::Plain("ZSCORE", line.clone(), vec![id.to_vec()]);
                let score = value::bytes(self.plain(score))?;
                score.map(|score| value::number(&score)).transpose()?
            }
        };
        self.take(line.clone(), joined.unwrap_or_default(), Bytes::copy_from_slice(id));
        Ok(())
    }

    /// Whether no live task has this ordering key.
    pub(super) fn is_line_empty(&mut self, line: &Key) -> bool {
        self.first(line, DEPTH, false) == First::None
    }

    fn free_next(&mut self, line: &Key) -> Result<(), Fault> {
        let First::Is(_, member) = self.first(line, DEPTH, false) else { return Ok(()) };
        let id = task_id(&member)?;
        let Some(next) = self.task(id)? else { return Ok(()) };
        if let Ok(lifecycle::Decision::Change(event)) = lifecycle::unblock(&next.task) {
            self.change(id, event, None)?;
        }
        Ok(())
    }
}
