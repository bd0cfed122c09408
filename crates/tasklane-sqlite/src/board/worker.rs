//! Workers while they are known.

use std::time::Duration;

use hashbrown::HashSet;
use tasklane_core::{CapabilitySet, Health, Selection, Timestamp, Worker, WorkerId};
use tasklane_core::{WorkerSpec, WorkerState};

use super::LaneSlot;

/// A worker: what it said of itself, and what it holds.
#[derive(Debug)]
pub(crate) struct WorkerSlot {
    pub(crate) spec: WorkerSpec,
    pub(crate) state: WorkerState,
    pub(crate) registered_at: Timestamp,
    /// When its state last changed.
    pub(crate) changed_at: Timestamp,
    pub(crate) seen_at: Timestamp,
    /// The same on the clock that cannot step.
    pub(crate) seen: Duration,
    pub(crate) leases: HashSet<i64>,
    pub(crate) health: Health,
    /// Which lanes it takes, by number; worked out once for each lane.
    takes: Vec<bool>,
}

impl WorkerSlot {
    pub(crate) fn new(
        spec: WorkerSpec,
        state: WorkerState,
        registered_at: Timestamp,
        changed_at: Timestamp,
        tick: Duration,
    ) -> Self {
        Self {
            spec,
            state,
            registered_at,
            changed_at,
            seen_at: changed_at,
            seen: tick,
            leases: HashSet::new(),
            health: Health::default(),
            takes: Vec::new(),
        }
    }

    pub(crate) fn show(&self, id: WorkerId) -> Worker {
        Worker {
            id,
            spec: self.spec.clone(),
            state: self.state,
            registered_at: self.registered_at,
            seen_at: self.seen_at,
            leases: u32::try_from(self.leases.len()).unwrap_or(u32::MAX),
            health: self.health,
        }
    }

    /// Leases it may still take.
    pub(crate) fn free(&self) -> usize {
        (self.spec.capacity as usize).saturating_sub(self.leases.len())
    }

    /// Which lanes it takes, indexed by number; with fewer capabilities for once if `narrowed`.
    pub(crate) fn taken_lanes(
        &mut self,
        lanes: &[Option<LaneSlot>],
        narrowed: Option<&CapabilitySet>,
    ) -> Vec<bool> {
        let takes = |selection: &Selection, slot: &Option<LaneSlot>| {
            slot.as_ref().is_some_and(|slot| selection.takes(&slot.lane))
        };
        match narrowed {
            Some(narrowed) => {
                let capabilities = self.spec.selection.capabilities.intersection(narrowed);
                let selection = Selection { capabilities, ..self.spec.selection.clone() };
                lanes.iter().map(|slot| takes(&selection, slot)).collect()
            }
            None => {
                let known = self.takes.len();
                let new = lanes.iter().skip(known).map(|slot| takes(&self.spec.selection, slot));
                self.takes.extend(new);
                std::mem::take(&mut self.takes)
            }
        }
    }

    /// Gives back what [`WorkerSlot::taken_lanes`] lent.
    pub(crate) fn return_lanes(&mut self, takes: Vec<bool>, narrowed: bool) {
        if !narrowed {
            self.takes = takes;
        }
    }
}
