//! Counters, from memory.

use tasklane_core::Priority;
use tasklane_store::{LaneStats, Stats};

use super::Session;

impl Session<'_> {
    pub(crate) fn stats(&self) -> Stats {
        let mut lanes = Vec::new();
        for (_, slot) in self.board.lanes() {
            let order = self.board.queue(slot.queue).map(|queue| queue.settings.order).ok();
            for priority in Priority::DESCENDING {
                let index = priority.index();
                let counts = slot.counts.get(index).copied().unwrap_or_default();
                if counts.iter().all(|count| *count == 0) {
                    continue;
                }
                let line = slot.lines.get(index);
                let front = line.and_then(crate::board::Line::front);
                let starves = order.and_then(|order| order.starves_after(priority));
                let starving = starves
                    .zip(line)
                    .map_or(0, |(after, line)| line.known_before(self.now.minus(after)) as u64);
                lanes.push(LaneStats {
                    lane: slot.lane.clone(),
                    priority,
                    counts,
                    oldest_ready_at: front.map(|place| place.ready_at),
                    starving,
                });
            }
        }
        Stats { now: self.now, lanes }
    }
}
