//! Retention (S21).

use tasklane_core::{ApiKey, Task, WorkerState};

use super::memory::{Memory, Now};
use crate::request::{Prune, Pruned};

impl Memory {
    pub(super) fn prune(&mut self, prune: &Prune, now: Now) -> Pruned {
        let mut pruned = Pruned::default();
        let mut ended: Vec<_> = self
            .tasks
            .values()
            .map(|record| &record.task)
            .filter(|task| self.kept_long_enough(task, prune, now))
            .map(|task| (task.state.ended(), task.id))
            .collect();
        ended.sort();
        pruned.more = ended.len() > prune.limit;
        for (_, id) in ended.into_iter().take(prune.limit) {
            let record = self.remove(id).expect("it was found");
            pruned.tasks[record.task.state.name().index()] += 1;
        }
        pruned.idempotency_records = self.prune_keys(prune, now);
        pruned.events = self.prune_events(prune, now);
        pruned.workers = self.prune_workers(prune, now);
        pruned.api_keys = self.prune_api_keys(prune, now);
        pruned.audit_records = self.prune_audit(prune, now);
        pruned
    }

    fn kept_long_enough(&self, task: &Task, prune: &Prune, now: Now) -> bool {
        let own = self.position(&task.spec.lane.queue).and_then(|at| self.queues[at].1.retention);
        let retention = own.filter(|_| !prune.override_queues).unwrap_or(prune.retention);
        let kept_for = retention.of(task.state.name());
        let ended = task.state.ended().zip(kept_for);
        ended.is_some_and(|(ended, kept_for)| ended.at <= now.wall.minus(kept_for))
    }

    fn prune_keys(&mut self, prune: &Prune, now: Now) -> u64 {
        let before = self.keys.len();
        let tasks = &self.tasks;
        self.keys.retain(|_, key| {
            let task = tasks.get(&key.task).map(|record| record.task.state.name());
            let lives = key.ended.is_none() && task.is_some_and(|state| !state.is_terminal());
            lives || key.created_at > now.wall.minus(prune.idempotency_for)
        });
        (before - self.keys.len()) as u64
    }

    /// Whole writes from the old end on, as long as each is too old or too many; the newest stays.
    fn prune_events(&mut self, prune: &Prune, now: Now) -> u64 {
        let count = self.events.len();
        let Some(newest) = self.events.last().map(|last| last.write) else { return 0 };
        while let Some(oldest) = self.events.first().filter(|oldest| oldest.write != newest) {
            let old = oldest.event.at <= now.wall.minus(prune.events_for);
            if !old && self.events.len() as u64 <= prune.events_max {
                break;
            }
            let write = oldest.write;
            self.events.retain(|written| written.write != write);
        }
        (count - self.events.len()) as u64
    }

    fn prune_workers(&mut self, prune: &Prune, now: Now) -> u64 {
        let before = self.workers.len();
        self.workers.retain(|_, known| {
            let died_at = known.died_at.filter(|_| known.worker.state == WorkerState::Dead);
            died_at.is_none_or(|died_at| died_at > now.wall.minus(prune.workers_for))
        });
        (before - self.workers.len()) as u64
    }

    fn prune_api_keys(&mut self, prune: &Prune, now: Now) -> u64 {
        let before = self.api_keys.len();
        let over = now.wall.minus(prune.api_keys_for);
        let stays = |key: &ApiKey| key.ends_at().is_none_or(|ended| ended > over);
        // One always stays: a store that had keys must not be taken for one that needs none.
        let none_stays = !self.api_keys.values().any(stays);
        let last = self.api_keys.keys().next_back().copied().filter(|_| none_stays);
        self.api_keys.retain(|id, key| stays(key) || Some(*id) == last);
        (before - self.api_keys.len()) as u64
    }

    /// From the old end on, as long as each is too old or too many; the newest stays.
    fn prune_audit(&mut self, prune: &Prune, now: Now) -> u64 {
        let before = self.audit.len();
        let over = now.wall.minus(prune.audit_for);
        while let [oldest, _, ..] = &self.audit[..] {
            if oldest.at > over && self.audit.len() as u64 <= prune.audit_max {
                break;
            }
            self.audit.remove(0);
        }
        (before - self.audit.len()) as u64
    }
}
