//! Reading.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;
use tasklane_core::{
    Lane, Priority, QueueName, QueueSettings, State, StateName, Task, TaskId, Timestamp, limits,
    trail,
};

use super::memory::{Memory, Now, Record};
use crate::feed::{QueueChange, Subject};
use crate::query::{Page, PageCursor, Query, StoredTask, Trail};
use crate::stats::{LaneStats, QueueState, Stats};
use crate::store::Finding;

impl Memory {
    pub(super) fn get(&self, id: TaskId) -> Option<StoredTask> {
        self.tasks.get(&id).map(|record| stored(record, true))
    }

    pub(super) fn trail(&self, id: TaskId) -> Option<Trail> {
        let record = self.tasks.get(&id)?;
        Some(Trail {
            task: record.task.clone(),
            admitted: record.admitted.clone(),
            entries: trail::whole(&record.task, record.entries.clone()),
            cut: record.cut,
        })
    }

    /// From the monotonic clock to the wall clock as it stands now.
    pub(super) fn lease_ends(&self, id: TaskId, now: Now) -> Option<Timestamp> {
        let [ends, ..] = self.deadlines(self.tasks.get(&id)?);
        let ends = ends?;
        let (left, over) = (ends.saturating_sub(now.monotonic), now.monotonic.saturating_sub(ends));
        Some(now.wall.plus(left).minus(over))
    }

    /// Newest first: by the end where only ended tasks are meant, by the id otherwise.
    pub(super) fn list(&self, query: &Query) -> Page {
        let states = &query.filter.states;
        let by_end = !states.is_empty() && states.iter().all(|state| state.is_terminal());
        let mut found: Vec<_> = self
            .tasks
            .values()
            .filter(|record| query.filter.matches(&record.task))
            .map(|record| (cursor_of(&record.task, by_end), record))
            .collect();
        found.sort_by_key(|(at, record)| Reverse((at.major, at.minor, record.task.id)));
        let after = |at: &PageCursor| {
            query.after.is_none_or(|last| (at.major, at.minor) < (last.major, last.minor))
        };
        found.retain(|(at, _)| after(at));
        let mut bytes = 0;
        let fits = |(_, record): &&(PageCursor, &Record)| {
            let before = bytes;
            bytes += stored(record, query.bodies).body_bytes();
            before < limits::PAGE_BYTES_MAX
        };
        let limit = found.iter().take_while(fits).count().min(query.limit).min(limits::PAGE_MAX);
        // A page does not end between two tasks that its cursor could not tell apart.
        let whole = |end: &usize| found.get(*end).map(|(at, _)| at) != Some(&found[end - 1].0);
        let end = (limit.max(1)..found.len()).find(whole).unwrap_or(found.len());
        let next = (end < found.len()).then(|| found[end - 1].0);
        let page = found[..end].iter().map(|(_, record)| stored(record, query.bodies));
        Page { tasks: page.collect(), next, examined: self.tasks.len() }
    }

    pub(super) fn stats(&self, now: Now) -> Stats {
        let mut lanes: BTreeMap<(Lane, Priority), LaneStats> = BTreeMap::new();
        for record in self.tasks.values() {
            let task = &record.task;
            let (lane, priority) = (task.spec.lane.clone(), task.spec.priority);
            let stats = lanes.entry((lane.clone(), priority)).or_insert(LaneStats {
                lane,
                priority,
                counts: [0; StateName::COUNT],
                oldest_ready_at: None,
                starving: 0,
            });
            stats.counts[task.state.name().index()] += 1;
            if matches!(task.state, State::Pending { .. }) {
                let ready_at = task.place.ready_at;
                let oldest = stats.oldest_ready_at.unwrap_or(ready_at);
                stats.oldest_ready_at = Some(oldest.min(ready_at));
                let queue = &task.spec.lane.queue;
                let starves = self.order_of(queue).starves_after(priority);
                let waited = now.wall.since(ready_at);
                stats.starving += u64::from(starves.is_some_and(|after| waited > after));
            }
        }
        Stats { now: now.wall, lanes: lanes.into_values().collect() }
    }

    pub(super) fn queue_states(&self) -> Vec<QueueState> {
        let state = |(queue, settings): &(QueueName, QueueSettings)| QueueState {
            queue: queue.clone(),
            settings: *settings,
            depth: self.depth(queue),
        };
        self.queues.iter().map(state).collect()
    }

    pub(super) fn configure(&mut self, queue: QueueName, settings: QueueSettings, now: Now) {
        let known = self.settings(&queue);
        let change = match (known.paused, settings.paused) {
            (false, true) => QueueChange::Paused,
            (true, false) => QueueChange::Resumed,
            _ => QueueChange::Updated,
        };
        *known = settings;
        let stamp = self.stamp(now);
        self.publish(stamp, Subject::Queue(queue, change));
    }

    pub(super) fn announce_purge(&mut self, queues: Vec<QueueName>, now: Now) {
        for queue in queues {
            if self.queues.iter().any(|(known, _)| *known == queue) {
                let stamp = self.stamp(now);
                self.publish(stamp, Subject::Queue(queue, QueueChange::Purged));
            }
        }
    }

    /// Each task against its trail (S18).
    pub(super) fn check(&self) -> Vec<Finding> {
        self.tasks.values().filter_map(finding).collect()
    }
}

fn stored(record: &Record, bodies: bool) -> StoredTask {
    StoredTask {
        task: record.task.clone(),
        payload: if bodies { record.payload.clone() } else { Bytes::new() },
        result: record.result.clone().filter(|_| bodies),
    }
}

fn cursor_of(task: &Task, by_end: bool) -> PageCursor {
    let ended = task.state.ended().filter(|_| by_end);
    let major = ended.map_or(0, |ended| ended.at.as_micros());
    PageCursor { major, minor: task.id.row_key() }
}

fn finding(record: &Record) -> Option<Finding> {
    let task = &record.task;
    let entries = trail::whole(task, record.entries.clone());
    let admitted = &record.admitted;
    let replayed = trail::replay(task.id, admitted.spec.clone(), admitted.admission, &entries);
    let problem = match replayed {
        _ if record.cut => return None,
        Ok(replayed) if trail::agrees(task, &replayed) => return None,
        Ok(replayed) => format!("its trail leads to {replayed:?}"),
        Err(illegal) => illegal.to_string(),
    };
    Some(Finding { place: format!("task {}", task.id), problem })
}
