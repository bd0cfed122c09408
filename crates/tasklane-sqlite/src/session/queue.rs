//! Queues and their settings.

use rusqlite::params;
use tasklane_core::{Invalid, Problem, QueueName, QueueSettings, StateName, limits};
use tasklane_store::{QueueChange, QueueState, StoreError, Subject, codec};

use super::Session;
use super::Woken;
use crate::fault::Fault;

impl Session<'_> {
    pub(crate) fn configure(
        &mut self,
        queue: QueueName,
        settings: QueueSettings,
    ) -> Result<Result<(), StoreError>, Fault> {
        let is_new = self.board.queue_number(&queue).is_none();
        if is_new && self.board.queues().count() >= limits::LANES_MAX {
            let max = limits::LANES_MAX;
            return Ok(Err(Invalid::new("queues", Problem::TooMany { max }).into()));
        }
        let number = self.queue_for(&queue)?;
        let before = std::mem::replace(&mut self.board.queue_mut(number)?.settings, settings);
        let mut statement =
            self.connection.prepare_cached("UPDATE queue SET settings = ? WHERE queue = ?")?;
        statement.execute(params![codec::encode_queue(&settings), number])?;
        let change = match (before.paused, settings.paused) {
            (false, true) => QueueChange::Paused,
            (true, false) => QueueChange::Resumed,
            _ => QueueChange::Updated,
        };
        self.announce(&Subject::Queue(queue, change));
        if !settings.paused {
            let counts = self.board.queue(number)?.counts;
            let pending = counts.get(StateName::Pending.index()).copied().unwrap_or_default();
            self.claimable += if before.paused { pending } else { 1 };
            self.woken = Woken::Anywhere;
        }
        Ok(Ok(()))
    }

    pub(crate) fn announce_purge(&mut self, queues: Vec<QueueName>) {
        for queue in queues {
            if self.board.queue_number(&queue).is_some() {
                self.announce(&Subject::Queue(queue, QueueChange::Purged));
            }
        }
    }

    pub(crate) fn queues(&self) -> Vec<QueueState> {
        let state = |slot: &crate::board::QueueSlot| QueueState {
            queue: slot.name.clone(),
            settings: slot.settings,
            depth: slot.depth(),
        };
        self.board.queues().map(|(_, slot)| state(slot)).collect()
    }

    /// The number of a queue, made if it is new.
    pub(super) fn queue_for(&mut self, queue: &QueueName) -> Result<u32, Fault> {
        if let Some(number) = self.board.queue_number(queue) {
            return Ok(number);
        }
        let settings = QueueSettings::default();
        self.connection
            .prepare_cached("INSERT INTO queue(name, settings) VALUES (?, ?)")?
            .execute(params![queue.as_str(), codec::encode_queue(&settings)])?;
        let number = u32::try_from(self.connection.last_insert_rowid())
            .map_err(|_| Fault::Corrupt("queue numbers are used up".into()))?;
        self.board.add_queue(number, queue.clone(), settings);
        Ok(number)
    }
}
