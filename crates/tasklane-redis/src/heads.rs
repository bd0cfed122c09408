//! Where lanes begin.

use std::collections::BTreeSet;

use hashbrown::HashMap;

/// The lanes of a queue and priority that have a pending task, by the time of its place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads {
    by_lane: HashMap<u32, i64>,
    pub(crate) order: BTreeSet<(i64, u32)>,
}

impl Heads {
    pub(crate) fn set(&mut self, lane: u32, ready_at: Option<i64>) {
        if self.by_lane.get(&lane).copied() == ready_at {
            return;
        }
        if let Some(before) = self.by_lane.remove(&lane) {
            self.order.remove(&(before, lane));
        }
        if let Some(ready_at) = ready_at {
            self.by_lane.insert(lane, ready_at);
            self.order.insert((ready_at, lane));
        }
    }

    /// A task of a lane became pending.
    pub(crate) fn enter(&mut self, lane: u32, ready_at: i64) {
        if self.by_lane.get(&lane).is_none_or(|first| *first > ready_at) {
            self.set(lane, Some(ready_at));
        }
    }
}
