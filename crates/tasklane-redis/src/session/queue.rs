//! Queues and their settings.

use tasklane_core::{Invalid, Problem, QueueName, QueueSettings, limits};
use tasklane_store::{QueueChange, StoreError, Subject};

use super::{Session, Woken};
use crate::fault::Fault;

impl Session<'_> {
    pub(crate) fn configure(
        &mut self,
        queue: &QueueName,
        settings: QueueSettings,
    ) -> Result<Result<(), StoreError>, Fault> {
        let known = self.catalog.queue_number(queue);
        if known.is_none() && self.catalog.queues().count() >= limits::LANES_MAX {
            let max = limits::LANES_MAX;
            return Ok(Err(Invalid::new("queues", Problem::TooMany { max }).into()));
        }
        let before = known.and_then(|number| self.catalog.queue(number));
        let was_paused = before.is_some_and(|(_, settings)| settings.paused);
        let number = self.set_queue(queue, settings);
        let change = match (was_paused, settings.paused) {
            (false, true) => QueueChange::Paused,
            (true, false) => QueueChange::Resumed,
            _ => QueueChange::Updated,
        };
        self.announce(&Subject::Queue(queue.clone(), change));
        if !settings.paused {
            let waiting = self.depth(number)?;
            self.claimable += if was_paused { waiting.unsigned_abs() } else { 1 };
            self.woken = Woken::Anywhere;
        }
        Ok(Ok(()))
    }

    pub(crate) fn announce_purge(&mut self, queues: &[QueueName]) {
        for queue in queues {
            if self.catalog.queue_number(queue).is_some() {
                self.announce(&Subject::Queue(queue.clone(), QueueChange::Purged));
            }
        }
    }
}
