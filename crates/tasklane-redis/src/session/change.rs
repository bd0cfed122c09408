//! Making a change: record, trail, event and every index.

use bytes::{BufMut, Bytes};
use tasklane_core::{
    Entry, Event, Lease, State, StateName, Task, TaskId, Timestamp, limits, trail,
};
use tasklane_store::codec::{self, Before};

use super::Session;
use crate::fault::{Fault, corrupt};
use crate::keys::Key;
use crate::stored::{Beside, Payload, Stored};

/// Kinds of timers.
pub(crate) const DUE: u8 = 0;
pub(crate) const EXPIRES: u8 = 1;

impl Session<'_> {
    /// Makes `event` happen to a task that was looked at.
    pub(super) fn change(
        &mut self,
        id: TaskId,
        event: Event,
        result: Option<&Bytes>,
    ) -> Result<(), Fault> {
        let Some(mut stored) = self.tasks.remove(&id).flatten() else {
            return Err(corrupt(id, "missing in the middle of a change"));
        };
        let entry = Entry { stamp: self.stamp(), event };
        let before = Before::of(&stored.task);
        let was = stored.task.state.name();
        // A promotion is told, but the claim that follows it writes the task.
        let moves = !matches!(entry.event, Event::Promoted { .. });
        if moves {
            self.leave(&stored)?;
        }
        stored.task.apply(&entry)?;
        codec::encode_feed(&mut self.events, stored.lane.into(), &before, &stored.task, &entry);
        for kept in trail::to_store(before.held.as_ref(), &entry) {
            self.add_to_trail(&mut stored, &kept)?;
        }
        if moves {
            if matches!(entry.event, Event::Claimed { .. } | Event::Progressed(_)) {
                stored.renewed = self.renewed_now();
            }
            self.enter(&stored)?;
            if let Some(result) = result {
                stored.result = Beside::of(result);
                if stored.result.is_apart() {
                    self.writes.set(Key::Outcome, *id.as_bytes(), result.clone());
                }
            }
            let record = stored.pack_record();
            self.writes.set(Key::Record, *id.as_bytes(), record);
        }
        let task = stored.task.clone();
        self.tasks.insert(id, Some(stored));
        if moves { self.pass_key(&task, was, &entry) } else { Ok(()) }
    }

    fn add_to_trail(&mut self, stored: &mut Stored, entry: &Entry) -> Result<(), Fault> {
        let id = *stored.task.id.as_bytes();
        let before = stored.entries.or_read(|| self.field(&Key::Trail, &id));
        let mut packed = before.map(Vec::from).unwrap_or_default();
        crate::trail::push(&mut packed, entry);
        stored.trail += 1;
        if stored.trail as usize > limits::TRAIL_ENTRIES_MAX {
            stored.trail -= stored.trail / 2;
            stored.cut = true;
            packed = crate::trail::last(packed, stored.trail as usize)?;
        }
        // What is apart stays there: its field would have to be removed.
        let packed = Bytes::from(packed);
        if !stored.entries.is_apart() {
            stored.entries = Beside::of(&packed);
        }
        if stored.entries.is_apart() {
            self.writes.set(Key::Trail, id, packed);
        }
        Ok(())
    }

    /// Takes a task out of every index it is in.
    fn leave(&mut self, stored: &Stored) -> Result<(), Fault> {
        self.count(stored, -1)?;
        self.timers(&stored.task, false);
        let (id, queue) = (stored.task.id, self.catalog.lane_and_queue(stored.lane)?.1);
        match &stored.task.state {
            State::Pending { .. } => self.leave_lane(stored, queue),
            State::Assigned(lease) | State::Running(lease) => {
                self.writes.hold(lease.worker, id, None);
                *self.held.entry(lease.worker).or_default() -= 1;
                if lease.cancel_requested.is_some() {
                    self.writes.member(Key::Cancel, *id.as_bytes(), false);
                }
            }
            // Together with those that ended with it.
            State::Completed { .. } => {}
            state => {
                if state.ended().is_some() {
                    let key = Key::Ended(state.name(), queue);
                    self.writes.score(key, *id.as_bytes(), None);
                }
            }
        }
        Ok(())
    }

    /// Puts a task into every index where it belongs.
    pub(super) fn enter(&mut self, stored: &Stored) -> Result<(), Fault> {
        self.count(stored, 1)?;
        self.timers(&stored.task, true);
        let (id, queue) = (stored.task.id, self.catalog.lane_and_queue(stored.lane)?.1);
        match &stored.task.state {
            State::Pending { .. } => self.enter_lane(stored, queue),
            State::Assigned(lease) | State::Running(lease) => {
                *self.held.entry(lease.worker).or_default() += 1;
                let next = self.next_deadline(stored, lease, stored.renewed.at);
                self.writes.hold(lease.worker, id, Some(next));
                if lease.cancel_requested.is_some() {
                    self.writes.member(Key::Cancel, *id.as_bytes(), true);
                }
            }
            State::Completed { ended, .. } => {
                self.completed.entry((queue, ended.at)).or_default().push(id)
            }
            state => {
                if let Some(ended) = state.ended() {
                    let key = Key::Ended(state.name(), queue);
                    self.writes.score(key, *id.as_bytes(), Some(ended.at.as_micros()));
                }
            }
        }
        Ok(())
    }

    /// When to look at a held task again.
    pub(super) fn next_deadline(
        &self,
        stored: &Stored,
        lease: &Lease,
        renewed_at: Timestamp,
    ) -> Timestamp {
        let lease_ends = renewed_at.plus(self.rules.lease);
        let other = match (&stored.task.state, lease.started) {
            (State::Running(_), Some(started)) => started.at.plus(stored.task.timeout),
            _ => lease.claimed.at.plus(self.rules.assignment),
        };
        lease_ends.min(other)
    }

    /// Counts a task in or out of its state.
    fn count(&mut self, stored: &Stored, by: i64) -> Result<(), Fault> {
        let state = stored.task.state.name();
        self.writes.count(stored.lane, stored.task.spec.priority, state, by);
        if state.is_waiting() {
            self.writes.deepen(self.catalog.lane_and_queue(stored.lane)?.1, by);
        }
        Ok(())
    }

    /// Sets or removes the timers of a task.
    fn timers(&mut self, task: &Task, set: bool) {
        let expires_at = task.expires_at.filter(|_| task.state.name().is_waiting());
        for (at, kind) in [(task.state.due_at(), DUE), (expires_at, EXPIRES)] {
            let Some(at) = at.map(Timestamp::as_micros) else { continue };
            let mut member = Vec::with_capacity(17);
            member.put_u8(kind);
            member.put_slice(task.id.as_bytes());
            self.writes.score(Key::Timers, member, set.then_some(at));
        }
    }

    fn enter_lane(&mut self, stored: &Stored, queue: u32) {
        let (lane, priority) = (stored.lane, stored.task.spec.priority);
        let ready_at = stored.task.place.ready_at.as_micros();
        self.put(Key::Lane(lane, priority), ready_at, place_member(&stored.task));
        self.writes.touch(queue, lane, priority);
        self.claimable += 1;
        self.woken.add(lane);
        if let Some(heads) = self.heads.get_mut(&Key::Heads(queue, priority)) {
            heads.enter(lane, ready_at);
        }
    }

    fn leave_lane(&mut self, stored: &Stored, queue: u32) {
        let (lane, priority) = (stored.lane, stored.task.spec.priority);
        let ready_at = stored.task.place.ready_at.as_micros();
        self.take(Key::Lane(lane, priority), ready_at, place_member(&stored.task));
        self.writes.touch(queue, lane, priority);
        self.note_head(queue, lane, priority);
    }

    /// Removes every trace of an ended task. Its idempotency record learns how it ended.
    pub(super) fn remove(&mut self, id: TaskId) -> Result<StateName, Fault> {
        let Some(stored) = self.tasks.remove(&id).flatten() else {
            return Err(corrupt(id, "missing, though it is to be removed"));
        };
        self.leave(&stored)?;
        let state = stored.task.state.name();
        let field = *id.as_bytes();
        for (key, is_there) in [
            (Key::Task, true),
            (Key::Record, true),
            (Key::Payload, matches!(stored.payload, Payload::Apart(_))),
            (Key::Outcome, stored.result.is_apart()),
            (Key::Trail, stored.entries.is_apart()),
        ] {
            if is_there {
                self.writes.unset(key, field);
            }
        }
        self.writes.list(id, false);
        self.tasks.insert(id, None);
        self.remember_end(&stored.task, state)?;
        Ok(state)
    }
}

/// A pending task in its lane: the number of its place, so that ties sort themselves, and its id.
pub(crate) fn place_member(task: &Task) -> Bytes {
    let mut member = Vec::with_capacity(24);
    member.put_u64(task.place.sequence.0);
    member.put_slice(task.id.as_bytes());
    member.into()
}
