//! Counters, from memory.

use tasklane_core::Priority;
use tasklane_store::{LaneStats, Stats};

use super::Session;

impl Session<'_> {
    pub(crate) fn stats(&self) -> Stats {
        let mut lanes = Vec::new();
        for (_, slot) in self.board.lanes() {
            for priority in Priority::DESCENDING {
                let index = priority.index();
                let counts = slot.counts.get(index).copied().unwrap_or_default();
                if counts.iter().all(|count| *count == 0) {
                    continue;
                }
                let front = slot.lines.get(index).and_then(crate::board::Line::front);
                lanes.push(LaneStats {
                    lane: slot.lane.clone(),
                    priority,
                    counts,
                    oldest_ready_at: front.map(|place| place.ready_at),
                });
            }
        }
        Stats { now: self.now, lanes }
    }
}
