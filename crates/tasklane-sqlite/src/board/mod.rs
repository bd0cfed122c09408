//! What the writer remembers: lane heads, counters, leases and workers.
//!
//! All of it can be made anew from the tables, and is, after a transaction that failed. Lane heads
//! are hints: a claim loads the task it found, and gives up if the index disagrees. Leased tasks
//! are the copy that settles are decided on; only the writer changes them and their rows.

mod lease;
mod line;
mod worker;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use tasklane_core::{
    CapabilitySet, Lane, Place, Priority, QueueName, QueueSettings, Rotation, StateName, WorkerId,
    limits,
};

pub(crate) use lease::{Carry, Leased, Leases};
pub(crate) use line::{Head, Line, Room};
pub(crate) use worker::WorkerSlot;

use crate::fault::Fault;

/// Bits of a line's number that are its lane's.
const LANE_BITS: u32 = 20;
const _: () = assert!(limits::LANES_MAX < 1 << LANE_BITS);

/// The number of a line in the index. Lines of one priority stand together, because they are
/// claimed together: with many lanes a claim then touches few pages.
pub(crate) fn line_number(lane: u32, priority: Priority) -> i64 {
    (i64::from(priority.number()) << LANE_BITS) + i64::from(lane)
}

/// The lane and the number of the priority of a line.
pub(crate) const fn lane_and_priority(line: i64) -> (u32, u64) {
    ((line & ((1 << LANE_BITS) - 1)) as u32, (line >> LANE_BITS) as u64)
}

/// Everything remembered.
#[derive(Debug, Default)]
pub(crate) struct Board {
    lanes: Vec<Option<LaneSlot>>,
    lane_numbers: HashMap<Lane, u32>,
    queues: Vec<Option<QueueSlot>>,
    queue_numbers: HashMap<QueueName, u32>,
    pub(crate) rotation: Rotation<u32>,
    pub(crate) leases: Leases,
    pub(crate) workers: HashMap<WorkerId, WorkerSlot>,
}

/// One lane: its counters, and its four lines of pending tasks.
#[derive(Debug)]
pub(crate) struct LaneSlot {
    pub(crate) lane: Lane,
    pub(crate) queue: u32,
    pub(crate) counts: [[u64; StateName::COUNT]; Priority::COUNT],
    pub(crate) lines: [Line; Priority::COUNT],
}

/// One queue: its settings, its counters, and the fronts of its lines in order.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    pub(crate) name: QueueName,
    pub(crate) settings: QueueSettings,
    pub(crate) counts: [u64; StateName::COUNT],
    fronts: [BTreeMap<Place, u32>; Priority::COUNT],
}

impl QueueSlot {
    /// Tasks that count towards the depth limits.
    pub(crate) fn depth(&self) -> u64 {
        let waiting = StateName::ALL.iter().zip(self.counts).filter(|(name, _)| name.is_waiting());
        waiting.map(|(_, count)| count).sum()
    }

    /// The first place of a priority in a lane that `takes` accepts.
    pub(crate) fn first(
        &self,
        priority: Priority,
        takes: impl Fn(u32) -> bool,
    ) -> Option<(Place, u32)> {
        let fronts = self.fronts.get(priority.index())?;
        fronts.iter().find(|(_, lane)| takes(**lane)).map(|(place, lane)| (*place, *lane))
    }
}

impl Board {
    pub(crate) fn lane_number(&self, lane: &Lane) -> Option<u32> {
        self.lane_numbers.get(lane).copied()
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lane_numbers.len()
    }

    /// How much each line keeps in memory.
    pub(crate) fn room(&self) -> Room {
        Room::among(self.lane_count())
    }

    pub(crate) fn queue_number(&self, queue: &QueueName) -> Option<u32> {
        self.queue_numbers.get(queue).copied()
    }

    pub(crate) fn add_queue(&mut self, number: u32, name: QueueName, settings: QueueSettings) {
        let slot = QueueSlot {
            name: name.clone(),
            settings,
            counts: [0; StateName::COUNT],
            fronts: std::array::from_fn(|_| BTreeMap::new()),
        };
        put(&mut self.queues, number, slot);
        self.queue_numbers.insert(name, number);
    }

    pub(crate) fn add_lane(&mut self, number: u32, lane: Lane, queue: u32) {
        let slot = LaneSlot {
            lane: lane.clone(),
            queue,
            counts: [[0; StateName::COUNT]; Priority::COUNT],
            lines: std::array::from_fn(|_| Line::default()),
        };
        put(&mut self.lanes, number, slot);
        self.lane_numbers.insert(lane, number);
    }

    pub(crate) fn lane(&self, number: u32) -> Result<&LaneSlot, Fault> {
        let slot = self.lanes.get(number as usize).and_then(Option::as_ref);
        slot.ok_or_else(|| Fault::Corrupt(format!("lane {number} is not known")))
    }

    pub(crate) fn queue(&self, number: u32) -> Result<&QueueSlot, Fault> {
        let slot = self.queues.get(number as usize).and_then(Option::as_ref);
        slot.ok_or_else(|| Fault::Corrupt(format!("queue {number} is not known")))
    }

    pub(crate) fn queue_mut(&mut self, number: u32) -> Result<&mut QueueSlot, Fault> {
        let slot = self.queues.get_mut(number as usize).and_then(Option::as_mut);
        slot.ok_or_else(|| Fault::Corrupt(format!("queue {number} is not known")))
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (u32, &LaneSlot)> {
        let numbered = self.lanes.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?)))
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = (u32, &QueueSlot)> {
        let numbered = self.queues.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number as u32, slot.as_ref()?)))
    }

    /// Which lanes a worker takes, by number: on loan until [`Board::return_lanes`].
    pub(crate) fn lend_lanes(
        &mut self,
        worker: WorkerId,
        narrowed: Option<&CapabilitySet>,
    ) -> Vec<bool> {
        let slot = self.workers.get_mut(&worker);
        slot.map(|slot| slot.taken_lanes(&self.lanes, narrowed)).unwrap_or_default()
    }

    pub(crate) fn return_lanes(&mut self, worker: WorkerId, takes: Vec<bool>, narrowed: bool) {
        if let Some(slot) = self.workers.get_mut(&worker) {
            slot.return_lanes(takes, narrowed);
        }
    }

    /// Counts a task in or out of a state.
    pub(crate) fn count(
        &mut self,
        lane: u32,
        priority: Priority,
        state: StateName,
        by: i64,
    ) -> Result<(), Fault> {
        let slot = lane_mut(&mut self.lanes, lane)?;
        let queue = slot.queue;
        if let Some(count) =
            slot.counts.get_mut(priority.index()).and_then(|counts| counts.get_mut(state.index()))
        {
            *count = count.saturating_add_signed(by);
        }
        if let Some(count) = self.queue_mut(queue)?.counts.get_mut(state.index()) {
            *count = count.saturating_add_signed(by);
        }
        Ok(())
    }

    /// Changes a line, then notes its new front. Returns whether the line must be filled again
    /// from the index before its front is known.
    pub(crate) fn with_line<T>(
        &mut self,
        lane: u32,
        priority: Priority,
        change: impl FnOnce(&mut Line) -> T,
    ) -> Result<(T, bool), Fault> {
        let slot = lane_mut(&mut self.lanes, lane)?;
        let queue = slot.queue;
        let Some(line) = slot.lines.get_mut(priority.index()) else {
            return Err(Fault::Corrupt(format!("lane {lane} has no line {priority}")));
        };
        let before = line.front();
        let value = change(line);
        let (after, starved) = (line.front(), line.is_starved());
        if before != after
            && let Some(fronts) = self.queue_mut(queue)?.fronts.get_mut(priority.index())
        {
            if let Some(place) = before {
                fronts.remove(&place);
            }
            if let Some(place) = after {
                fronts.insert(place, lane);
            }
        }
        Ok((value, starved))
    }

    /// Forgets every line, as if all hints were wrong. Only for tests.
    #[cfg(test)]
    pub(crate) fn forget_lines(&mut self) {
        for slot in self.lanes.iter_mut().flatten() {
            slot.lines = std::array::from_fn(|_| Line::default());
        }
        for slot in self.queues.iter_mut().flatten() {
            slot.fronts = std::array::from_fn(|_| BTreeMap::new());
        }
    }
}

fn lane_mut(lanes: &mut [Option<LaneSlot>], number: u32) -> Result<&mut LaneSlot, Fault> {
    let slot = lanes.get_mut(number as usize).and_then(Option::as_mut);
    slot.ok_or_else(|| Fault::Corrupt(format!("lane {number} is not known")))
}

fn put<T>(slots: &mut Vec<Option<T>>, number: u32, slot: T) {
    let index = number as usize;
    if slots.len() <= index {
        slots.resize_with(index + 1, || None);
    }
    if let Some(place) = slots.get_mut(index) {
        *place = Some(slot);
    }
}
