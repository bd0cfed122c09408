//! How much room queues have, as far as is known: while it is plenty, nobody has to count.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use tasklane_core::QueueSettings;

/// A server takes so much of the room that it has seen before it looks again: others have seen the
/// same.
const SHARE: u64 = 8;
/// And for so long.
const VALID_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Gauges(Mutex<HashMap<i32, Gauge>>);

#[derive(Debug)]
struct Gauge {
    settings: QueueSettings,
    room: u64,
    seen: Instant,
}

impl Gauges {
    /// Takes room for so many tasks, if there is plenty.
    pub(crate) fn take(&self, queue: i32, count: u64) -> Option<QueueSettings> {
        self.with(|gauges| {
            let gauge = gauges.get_mut(&queue)?;
            let is_valid = gauge.seen.elapsed() < VALID_FOR;
            gauge.room = gauge.room.checked_sub(count).filter(|_| is_valid)?;
            Some(gauge.settings)
        })
    }

    /// A queue was this deep a moment ago, without the tasks that come now.
    pub(crate) fn note(&self, queue: i32, depth: u64, coming: u64, settings: QueueSettings) {
        let lowest = settings.depth.normal.min(settings.depth.high).min(settings.depth.all);
        let room = lowest.saturating_sub(depth).saturating_sub(coming) / SHARE;
        let seen = Instant::now();
        self.with(|gauges| gauges.insert(queue, Gauge { settings, room, seen }));
    }

    /// So many tasks have come to wait there besides.
    pub(crate) fn add(&self, queue: i32, count: u64) {
        self.with(|gauges| {
            if let Some(gauge) = gauges.get_mut(&queue) {
                gauge.room = gauge.room.saturating_sub(count);
            }
        });
    }

    /// Nothing is known any more: settings have changed, or more than that.
    pub(crate) fn forget(&self) {
        self.with(HashMap::clear);
    }

    fn with<T>(&self, read: impl FnOnce(&mut HashMap<i32, Gauge>) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use tasklane_core::DepthLimits;

    use super::*;

    #[test]
    fn a_share_of_the_room_is_taken_before_the_queue_is_looked_at_again() {
        let gauges = Gauges::default();
        let settings = QueueSettings { depth: DepthLimits::flat(100), ..QueueSettings::default() };
        assert_eq!(gauges.take(1, 1), None, "never looked at");
        gauges.note(1, 10, 10, settings);
        assert_eq!(gauges.take(1, 6), Some(settings));
        gauges.add(1, 3);
        assert_eq!(gauges.take(1, 2), None, "an eighth of 80");
        assert_eq!(gauges.take(1, 1), Some(settings));
        assert_eq!(gauges.take(1, 1), None);
        gauges.note(1, 100, 10, settings);
        assert_eq!(gauges.take(1, 1), None, "it is full");
        gauges.note(1, 0, 0, settings);
        gauges.forget();
        assert_eq!(gauges.take(1, 1), None);
    }
}
