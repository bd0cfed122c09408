//! Places before which nothing is left to be claimed. Rows that are gone stay in the way of those who
//! read from the beginning, for as long as anybody's snapshot is older than their end; who begins
//! where the last claims ended does not meet them.
//!
//! A floor is a good guess: a task may become pending behind it, when its transaction took long or
//! another's was undone. So floors are compared with what is there every now and then, and what is
//! known to come late is looked for without them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tasklane_core::{Priority, Timestamp, WorkerId};

/// A task that becomes pending so much later than its place says is late.
const LATE_AFTER: Duration = Duration::from_millis(300);
/// Floors are so much lower than what was claimed: the longest that a transaction usually takes, and
/// what is not late yet.
const MARGIN: Duration = Duration::from_secs(1);
/// The same for leases, which nothing is compared with later: a server may take so long, with all that it
/// waits for, from the time that it claims by to the end of its claim.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// Floors go down by so much where they cannot be compared with what is there.
const DOUBT: Duration = Duration::from_secs(5);
/// A clock that goes back further takes the floors along.
const CLOCK_BACK_MAX: Duration = Duration::from_millis(500);
/// Workers remembered at most.
const WORKERS_MAX: usize = 10_000;

/// Whether a task that becomes pending now comes later than its place says.
pub(crate) fn is_late(ready_at: Timestamp, now: Timestamp) -> bool {
    ready_at < now.minus(LATE_AFTER)
}

/// Nothing of a queue and priority is left before a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) queue: i32,
    pub(crate) priority: Priority,
    pub(crate) at: i64,
}

impl Floor {
    /// Everything up to `at` was claimed.
    pub(crate) fn below(queue: i32, priority: Priority, at: Timestamp) -> Self {
        Self { queue, priority, at: at.minus(MARGIN).as_micros() }
    }
}

/// What this server knows of beginnings.
#[derive(Debug, Default)]
pub(crate) struct Floors(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    latest: Timestamp,
    /// How often a floor was lowered.
    lowered: u64,
    places: HashMap<(i32, Priority), i64>,
    /// When the oldest lease was claimed that a worker holds.
    leases: HashMap<WorkerId, i64>,
}

impl Known {
    /// Nor do those who began before it know anything.
    fn forget(&mut self) {
        *self = Self { lowered: self.lowered + 1, ..Self::default() };
    }
}

impl Floors {
    /// Notes what time it is: nothing is known of a time that comes again.
    pub(crate) fn note_clock(&self, now: Timestamp) {
        self.with(|known| {
            if now < known.latest.minus(CLOCK_BACK_MAX) {
                known.forget();
            }
            known.latest = known.latest.max(now);
        });
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self) {
        self.with(Known::forget);
    }

    /// Where the places of a queue and priority begin.
    pub(crate) fn of(&self, queue: i32, priority: Priority) -> i64 {
        self.with(|known| known.places.get(&(queue, priority)).copied().unwrap_or(i64::MIN + 1))
    }

    /// How often a floor was lowered: who claims by floors from before that has not seen all.
    pub(crate) fn lowered(&self) -> u64 {
        self.with(|known| known.lowered)
    }

    /// What claims have left behind that began when floors had been lowered so often.
    pub(crate) fn raise(&self, floors: &[Floor], lowered: u64) {
        self.with(|known| {
            if known.lowered != lowered {
                return;
            }
            for floor in floors {
                let place = known.places.entry((floor.queue, floor.priority)).or_insert(floor.at);
                *place = floor.at.max(*place);
            }
        });
    }

    /// What is there all the same.
    pub(crate) fn lower(&self, floor: Floor) {
        self.with(|known| {
            let place = known.places.get_mut(&(floor.queue, floor.priority));
            if let Some(place) = place.filter(|place| floor.at < **place) {
                *place = floor.at;
                known.lowered += 1;
            }
        });
    }

    /// What is there could not be found out.
    pub(crate) fn doubt(&self) {
        self.with(|known| {
            for place in known.places.values_mut() {
                *place = Timestamp::from_micros(*place).minus(DOUBT).as_micros();
            }
            known.lowered += 1;
        });
    }

    /// Those that are known.
    pub(crate) fn all(&self) -> Vec<Floor> {
        self.with(|known| {
            let places = known.places.iter();
            places
                .map(|((queue, priority), at)| Floor {
                    queue: *queue,
                    priority: *priority,
                    at: *at,
                })
                .collect()
        })
    }

    /// Where the leases of a worker begin.
    pub(crate) fn of_leases(&self, worker: WorkerId) -> i64 {
        self.with(|known| known.leases.get(&worker).copied().unwrap_or(i64::MIN + 1))
    }

    /// The oldest lease of a worker is from then, if it has any now.
    pub(crate) fn note_leases(&self, worker: WorkerId, oldest: Option<i64>, now: Timestamp) {
        // Of those still to come none is older than now.
        let from = oldest.map_or(now.as_micros(), |oldest| oldest.min(now.as_micros()));
        self.with(|known| {
            if known.leases.len() >= WORKERS_MAX {
                known.leases.clear();
            }
            let from = Timestamp::from_micros(from).minus(LEASE_MARGIN);
            known.leases.insert(worker, from.as_micros());
        });
    }

    fn with<T>(&self, read: impl FnOnce(&mut Known) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_from_before_floors_went_down_does_not_raise_them() {
        let second = |at: i64| Timestamp::from_micros(at * 1_000_000);
        let floor = |at| Floor::below(1, Priority::High, second(at));
        let floors = Floors::default();
        let of = || floors.of(1, Priority::High);
        floors.note_clock(second(100));
        floors.raise(&[floor(50)], floors.lowered());
        let before = floors.lowered();
        floors.lower(floor(20));
        floors.raise(&[floor(60)], before);
        assert_eq!(of(), floor(20).at, "something is behind it");
        floors.raise(&[floor(60)], floors.lowered());
        assert_eq!(of(), floor(60).at);

        let before = floors.lowered();
        floors.note_clock(second(90));
        floors.raise(&[floor(99)], before);
        assert_eq!(of(), i64::MIN + 1, "that time comes again");
        floors.raise(&[floor(90)], floors.lowered());
        floors.doubt();
        assert!(of() < floor(90).at);

        let before = floors.lowered();
        floors.forget();
        floors.raise(&[floor(95)], before);
        assert_eq!(of(), i64::MIN + 1, "of another timeline");
    }
}
