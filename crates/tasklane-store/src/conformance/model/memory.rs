//! What the model remembers, and the one way in which a task changes there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment, Rules};
use tasklane_core::{
    ApiKey, ApiKeyId, AuditRecord, Digest, Entry, Event, Health, IdempotencyKey, Lane, Order,
    QueueName, QueueSettings, Rotation, SeededRandom, Sequence, Stamp, State, StateName, Task,
    TaskId, Timestamp, Worker, WorkerId, limits, trail,
};

use crate::feed::{FeedEvent, Position, Subject};

/// One reading of the two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

/// Everything there is.
pub(super) struct Memory {
    pub(super) rules: Rules,
    pub(super) random: SeededRandom,
    pub(super) tasks: BTreeMap<TaskId, Record>,
    pub(super) keys: BTreeMap<(QueueName, IdempotencyKey), KeyRecord>,
    /// In the order in which they came into the store.
    pub(super) queues: Vec<(QueueName, QueueSettings)>,
    pub(super) lanes: BTreeSet<Lane>,
    pub(super) workers: BTreeMap<WorkerId, Known>,
    /// Keyed by position in `queues`.
    pub(super) rotation: Rotation<usize>,
    /// The last id made here: its millisecond and counter.
    pub(super) last_id: (u64, u64),
    /// Where the last answer of `overdue` ended.
    pub(super) overdue_after: Option<TaskId>,
    pub(super) events: Vec<Written>,
    pub(super) api_keys: BTreeMap<ApiKeyId, ApiKey>,
    /// The oldest first.
    pub(super) audit: Vec<AuditRecord>,
    last: Sequence,
    write: u64,
}

/// A task with all that is kept beside it.
pub(super) struct Record {
    pub(super) task: Task,
    pub(super) admitted: Task,
    pub(super) payload: Bytes,
    pub(super) result: Option<Bytes>,
    pub(super) digest: Option<Digest>,
    /// Its part of the trail that the task itself does not show.
    pub(super) entries: Vec<Entry>,
    pub(super) cut: bool,
    /// When it joined the line of its ordering key.
    pub(super) joined: Sequence,
    pub(super) clocks: Clocks,
}

/// Readings of the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clocks {
    pub(super) claimed: Duration,
    pub(super) started: Option<Duration>,
    /// Of the claim or the last renewal.
    pub(super) renewed: Duration,
}

/// A submission that is recognised when it comes again.
pub(super) struct KeyRecord {
    pub(super) digest: Option<Digest>,
    pub(super) task: TaskId,
    pub(super) created_at: Timestamp,
    /// How the task ended, once it is gone.
    pub(super) ended: Option<StateName>,
}

/// A worker and what only the store knows of it.
pub(super) struct Known {
    pub(super) worker: Worker,
    /// Last sign of life on the monotonic clock.
    pub(super) heard: Duration,
    pub(super) died_at: Option<Timestamp>,
}

/// An event and the write it was part of.
pub(super) struct Written {
    pub(super) event: FeedEvent,
    pub(super) write: u64,
}

impl Memory {
    pub(super) fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            random: SeededRandom::new(seed),
            tasks: BTreeMap::new(),
            keys: BTreeMap::new(),
            queues: Vec::new(),
            lanes: BTreeSet::new(),
            workers: BTreeMap::new(),
            rotation: Rotation::default(),
            last_id: (0, 0),
            overdue_after: None,
            events: Vec::new(),
            api_keys: BTreeMap::new(),
            audit: Vec::new(),
            last: Sequence(0),
            write: 0,
        }
    }

    pub(super) fn one_write<T>(&mut self, call: impl FnOnce(&mut Self) -> T) -> T {
        self.write += 1;
        call(self)
    }

    /// Here events are numbered as they happen, so the feed can use the same numbers.
    pub(super) fn last_position(&self) -> Position {
        Position(self.last.0)
    }

    pub(super) fn restart(&mut self, now: Now) {
        for record in self.tasks.values_mut() {
            record.clocks = Clocks {
                claimed: now.monotonic,
                started: record.clocks.started.map(|_| now.monotonic),
                renewed: now.monotonic,
            };
        }
        for known in self.workers.values_mut() {
            known.heard = now.monotonic;
            known.worker.seen_at = now.wall;
            known.worker.health = Health::default();
        }
        self.forget();
    }

    pub(super) fn forget(&mut self) {
        self.rotation = Rotation::default();
        self.overdue_after = None;
    }

    /// The number and time of the next event.
    pub(super) fn stamp(&mut self, now: Now) -> Stamp {
        self.last = self.last.next();
        Stamp { at: now.wall, sequence: self.last }
    }

    pub(super) fn publish(&mut self, stamp: Stamp, subject: Subject) {
        let position = Position(stamp.sequence.0);
        let event = FeedEvent { at: stamp.at, position, subject };
        self.events.push(Written { event, write: self.write });
    }

    /// Makes `event` happen to a task, with its trail, its notice and the successor it frees.
    pub(super) fn happen(&mut self, id: TaskId, event: Event, now: Now) {
        let entry = Entry { stamp: self.stamp(now), event };
        let record = self.tasks.get_mut(&id).expect("the task is there");
        let before = record.task.clone();
        record.task.apply(&entry).expect("core decided it");
        record.entries.extend(trail::to_store(before.state.lease(), &entry));
        if record.entries.len() > limits::TRAIL_ENTRIES_MAX {
            record.entries.drain(..record.entries.len() / 2);
            record.cut = true;
        }
        match &entry.event {
            Event::Claimed { started, .. } => {
                let monotonic = now.monotonic;
                let started = started.then_some(monotonic);
                record.clocks = Clocks { claimed: monotonic, started, renewed: monotonic };
            }
            Event::Started => record.clocks.started = Some(now.monotonic),
            Event::Progressed(_) => record.clocks.renewed = now.monotonic,
            Event::Replayed { .. } => record.joined = entry.stamp.sequence,
            _ => {}
        }
        let after = record.task.clone();
        let notice = super::feed::notice(&before, &after, &entry);
        self.publish(entry.stamp, Subject::Task(Box::new(notice)));
        let was_holder = !before.state.name().is_terminal() && before.state != State::Blocked;
        if was_holder && after.state.name().is_terminal() {
            self.free_next(&after, now);
        }
    }

    /// Lets the first of those blocked behind `ended` go on.
    fn free_next(&mut self, ended: &Task, now: Now) {
        let next = self
            .tasks
            .values()
            .filter(|record| record.task.state == State::Blocked && same_key(&record.task, ended))
            .min_by_key(|record| record.joined);
        let Some(next) = next.map(|record| &record.task) else { return };
        let id = next.id;
        let Ok(Decision::Change(event)) = lifecycle::unblock(next) else { return };
        self.happen(id, event, now);
    }

    /// Whether no other live task has the ordering key of `task`.
    pub(super) fn key_free(&self, task: &Task) -> bool {
        let holds = |other: &Task| {
            other.id != task.id && !other.state.name().is_terminal() && same_key(other, task)
        };
        task.spec.ordering_key.is_none() || !self.tasks.values().any(|record| holds(&record.task))
    }

    /// What core needs to know of this moment to decide about a task.
    pub(super) fn moment(&self, record: &Record, now: Now) -> Moment<'_> {
        Moment {
            now: now.wall,
            rules: &self.rules,
            elapsed: self.elapsed(record, now),
            key_free: self.key_free(&record.task),
        }
    }

    pub(super) fn elapsed(&self, record: &Record, now: Now) -> Elapsed {
        let [lease, execution, assignment] = self.deadlines(record);
        let passed = |deadline: Option<Duration>| deadline.is_some_and(|at| at <= now.monotonic);
        Elapsed {
            lease: passed(lease),
            execution: passed(execution),
            assignment: passed(assignment),
        }
    }

    /// When lease, execution and the wait for a start end, for a task in a worker's hands.
    pub(super) fn deadlines(&self, record: &Record) -> [Option<Duration>; 3] {
        let Clocks { claimed, started, renewed } = record.clocks;
        match record.task.state {
            State::Assigned(_) => {
                [Some(renewed + self.rules.lease), None, Some(claimed + self.rules.assignment)]
            }
            State::Running(_) => {
                let execution = started.map(|started| started + record.task.timeout);
                [Some(renewed + self.rules.lease), execution, None]
            }
            _ => [None; 3],
        }
    }

    /// Leases of a worker.
    pub(super) fn held_by(&self, worker: WorkerId) -> impl Iterator<Item = &Record> {
        let holds = move |record: &&Record| {
            record.task.state.lease().is_some_and(|lease| lease.worker == worker)
        };
        self.tasks.values().filter(holds)
    }

    pub(super) fn position(&self, queue: &QueueName) -> Option<usize> {
        self.queues.iter().position(|(name, _)| name == queue)
    }

    /// Its settings; makes the queue known.
    pub(super) fn settings(&mut self, queue: &QueueName) -> &mut QueueSettings {
        let position = self.position(queue).unwrap_or_else(|| {
            self.queues.push((queue.clone(), QueueSettings::default()));
            self.queues.len() - 1
        });
        &mut self.queues[position].1
    }

    /// How a queue chooses among priorities.
    pub(super) fn order_of(&self, queue: &QueueName) -> Order {
        let known = self.position(queue).map(|position| self.queues[position].1.order);
        known.unwrap_or_default()
    }

    /// Tasks of a queue that count towards its limits (S20).
    pub(super) fn depth(&self, queue: &QueueName) -> u64 {
        let waits = |task: &Task| task.state.name().is_waiting() && task.spec.lane.queue == *queue;
        self.tasks.values().filter(|record| waits(&record.task)).count() as u64
    }

    /// Tasks that can be claimed, or could if their queue were not paused.
    pub(super) fn pending(&self) -> u64 {
        let pending = |record: &&Record| matches!(record.task.state, State::Pending { .. });
        self.tasks.values().filter(pending).count() as u64
    }

    /// Takes a task out; what is known of its submission remembers how it ended.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<Record> {
        let record = self.tasks.remove(&id)?;
        for key in self.keys.values_mut().filter(|key| key.task == id && key.ended.is_none()) {
            key.ended = Some(record.task.state.name());
        }
        Some(record)
    }
}

/// Both have an ordering key and it is the same.
fn same_key(one: &Task, other: &Task) -> bool {
    one.spec.ordering_key.is_some()
        && one.spec.ordering_key == other.spec.ordering_key
        && one.spec.lane.queue == other.spec.lane.queue
}
