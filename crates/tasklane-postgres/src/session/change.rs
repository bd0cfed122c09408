//! One change of a task: what core decided happens, and all that follows from it.

use bytes::Bytes;
use tasklane_core::lifecycle::Elapsed;
use tasklane_core::{
    Digest, Entry, Event, LeaseToken, OrderingKey, Place, Priority, Sequence, Stamp, State,
    StateName, Task, TaskId, Timestamp, trail,
};
use tasklane_store::codec::{self, Before};

use super::Session;
use crate::fault::Fault;

/// Renewals of its worker do not count for this lease.
pub(crate) const ON_ITS_OWN: i64 = i64::MAX;

/// A task in hand.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) task: Task,
    pub(crate) lane: i32,
    pub(crate) queue: i32,
    /// Of its payload.
    pub(crate) bytes: i32,
    pub(crate) digest: Option<Digest>,
    /// Where its rows are.
    pub(crate) home: Home,
    pub(crate) lease: LeaseRow,
    /// Where it is to be written or handed out.
    pub(crate) payload: Option<Bytes>,
    /// What its completion brought.
    pub(crate) result: Option<Bytes>,
    /// For its trail, not written yet.
    pub(crate) entries: Vec<Entry>,
    /// It was not read and is not locked: its lease has to be of this version and token still.
    pub(crate) guard: Option<(Sequence, LeaseToken)>,
    pub(crate) is_changed: bool,
    pub(crate) is_discarded: bool,
}

/// The table that holds what a task is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// None: it is new, or to be removed.
    Nowhere,
    Pend,
    Wait,
    Lease,
    History(StateName),
}

impl Home {
    pub(crate) const fn of(state: &State) -> Self {
        match state {
            State::Pending { .. } => Self::Pend,
            State::Scheduled { .. } | State::Blocked | State::Retrying { .. } => Self::Wait,
            State::Assigned(_) | State::Running(_) => Self::Lease,
            ended => Self::History(ended.name()),
        }
    }

    pub(crate) const fn is_live(self) -> bool {
        matches!(self, Self::Pend | Self::Wait | Self::Lease)
    }
}

/// What is stored of a lease beside the task's record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeaseRow {
    pub(crate) claimed_at: Timestamp,
    /// The number of its last event.
    pub(crate) version: Sequence,
    pub(crate) since: i64,
    pub(crate) ends_at: Timestamp,
    pub(crate) limit_at: Timestamp,
    /// Renewals of its worker so far, and until when the last one reaches.
    pub(crate) renewals: i64,
    pub(crate) renewed_until: Timestamp,
}

impl LeaseRow {
    pub(crate) fn end(&self) -> Timestamp {
        if self.renewals > self.since { self.renewed_until } else { self.ends_at }
    }
}

impl Subject {
    pub(crate) fn elapsed(&self, now: Timestamp) -> Elapsed {
        let over = self.lease.limit_at <= now;
        match self.task.state {
            State::Assigned(_) => {
                Elapsed { lease: self.lease.end() <= now, execution: false, assignment: over }
            }
            State::Running(_) => {
                Elapsed { lease: self.lease.end() <= now, execution: over, assignment: false }
            }
            _ => Elapsed::default(),
        }
    }
}

impl Session<'_> {
    pub(super) fn subject(&self, id: TaskId) -> Result<&Subject, Fault> {
        self.work.get(&id).ok_or_else(|| Fault::Corrupt(format!("task {id} is not in hand")))
    }

    /// Makes an event happen to a task in hand, and what it frees go on.
    pub(super) async fn happen(
        &mut self,
        id: TaskId,
        event: Event,
        result: Option<Bytes>,
    ) -> Result<(), Fault> {
        let keyed = self.subject(id)?.task.spec.ordering_key.clone();
        let Some(key) = keyed else { return self.change(id, event, result).map(|_| ()) };
        let queue = self.subject(id)?.queue;
        self.lock_keys(vec![(queue, key.as_str().into())]).await?;
        let was = self.change(id, event, result)?;
        self.pass_key(id, queue, &key, was).await
    }

    /// Makes an event happen to a task in hand. Gives the state it had before.
    pub(super) fn change(
        &mut self,
        id: TaskId,
        event: Event,
        result: Option<Bytes>,
    ) -> Result<StateName, Fault> {
        let entry = Entry { stamp: self.stamp(), event };
        let rules = self.shared.rules;
        let Some(subject) = self.work.get_mut(&id) else {
            return Err(Fault::Corrupt(format!("task {id} is not in hand")));
        };
        let before = Before::of(&subject.task);
        let (was, priority) = (subject.task.state.name(), subject.task.spec.priority);
        subject.task.apply(&entry)?;
        subject.lease.version = entry.stamp.sequence;
        let lane = u64::from(subject.lane.unsigned_abs());
        codec::encode_feed(&mut self.events, lane, &before, &subject.task, &entry);
        subject.entries.extend(trail::to_store(before.held.as_ref(), &entry));
        match &entry.event {
            Event::Claimed { started, .. } => {
                subject.lease.claimed_at = self.now;
                subject.lease.since = subject.lease.renewals;
                subject.lease.ends_at = self.now.plus(rules.lease);
                let limit = if *started { subject.task.timeout } else { rules.assignment };
                subject.lease.limit_at = self.now.plus(limit);
            }
            Event::Started => subject.lease.limit_at = self.now.plus(subject.task.timeout),
            Event::Progressed(_) => {
                subject.lease.ends_at = self.now.plus(rules.lease);
                // Later than every renewal so far.
                if subject.lease.since != ON_ITS_OWN {
                    subject.lease.since = subject.lease.renewals;
                }
            }
            Event::Discarded => subject.is_discarded = true,
            _ => {}
        }
        if result.is_some() {
            subject.result = result;
        }
        for (held, by) in [(&before.held, -1), (&subject.task.state.lease().copied(), 1)] {
            let heard = held.as_ref().and_then(|lease| self.heard.get_mut(&lease.worker));
            if let Some(claimer) = heard {
                claimer.leases += by;
            }
        }
        if !subject.is_changed {
            subject.is_changed = true;
            self.changed.push(id);
        }
        let (lane, queue, is) = (subject.lane, subject.queue, subject.task.state.name());
        let (now_at, discarded) = (subject.task.spec.priority, subject.is_discarded);
        if is == StateName::Pending && was != StateName::Pending {
            self.wake(lane);
        }
        self.count(queue, lane, priority, was, -1);
        if !discarded {
            self.count(queue, lane, now_at, is, 1);
        }
        Ok(was)
    }

    /// Notes that a task of this lane became claimable.
    pub(super) fn wake(&mut self, lane: i32) {
        self.outcome.claimable += 1;
        self.outcome.woken.add(lane);
    }

    pub(super) fn count(
        &mut self,
        queue: i32,
        lane: i32,
        priority: Priority,
        state: StateName,
        by: i64,
    ) {
        let counter = (queue, lane, priority.number(), state.index() as u8);
        *self.counts.entry(counter).or_default() += by;
    }

    async fn pass_key(
        &mut self,
        id: TaskId,
        queue: i32,
        key: &OrderingKey,
        was: StateName,
    ) -> Result<(), Fault> {
        let is = self.subject(id)?.task.state.name();
        match (was.is_terminal(), is.is_terminal()) {
            (true, false) => {
                let joined = self.numbers.last();
                self.line(queue, key.as_str())?.join(joined, id);
                Ok(())
            }
            (false, true) => {
                self.line(queue, key.as_str())?.leave(id);
                // Only the one that held the key frees it.
                match was {
                    StateName::Blocked => Ok(()),
                    _ => self.free_next(queue, key.as_str()).await,
                }
            }
            _ => Ok(()),
        }
    }

    /// Puts the numbers that were drawn in place of the provisional ones.
    pub(super) fn renumber(&self, task: &mut Task) {
        let number = |stamp: &mut Stamp| stamp.sequence = self.number(stamp.sequence);
        number(&mut task.admission.created);
        let Place { sequence, .. } = &mut task.place;
        *sequence = self.number(*sequence);
        match &mut task.state {
            State::Assigned(lease) | State::Running(lease) => {
                number(&mut lease.claimed);
                lease.started.iter_mut().for_each(number);
                lease.cancel_requested.iter_mut().for_each(number);
            }
            State::Completed { lease, ended, .. } => {
                number(&mut lease.claimed);
                lease.started.iter_mut().for_each(number);
                lease.cancel_requested.iter_mut().for_each(number);
                number(ended);
            }
            State::Failed { ended, .. }
            | State::Cancelled { ended, .. }
            | State::DeadLetter { ended, .. } => number(ended),
            State::Scheduled { .. }
            | State::Blocked
            | State::Pending { .. }
            | State::Retrying { .. } => {}
        }
    }
}
