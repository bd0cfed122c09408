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
/// A clock that goes back further takes the floors along.
const CLOCK_BACK_MAX: Duration = Duration::from_secs(1);
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
    places: HashMap<(i32, Priority), i64>,
    /// When the oldest lease was claimed that a worker holds.
    leases: HashMap<WorkerId, i64>,
}

impl Floors {
    /// Notes what time it is: nothing is known of a time that comes again.
    pub(crate) fn note_clock(&self, now: Timestamp) {
        self.with(|known| {
            if now < known.latest.minus(CLOCK_BACK_MAX) {
                *known = Known::default();
            }
            known.latest = known.latest.max(now);
        });
    }

    /// Where the places of a queue and priority begin.
    pub(crate) fn of(&self, queue: i32, priority: Priority) -> i64 {
        self.with(|known| known.places.get(&(queue, priority)).copied().unwrap_or(i64::MIN + 1))
    }

    /// What claims have left behind.
    pub(crate) fn raise(&self, floors: &[Floor]) {
        self.with(|known| {
            for floor in floors {
                let place = known.places.entry((floor.queue, floor.priority)).or_insert(floor.at);
                *place = floor.at.max(*place);
            }
        });
    }

    /// What is there all the same.
    pub(crate) fn lower(&self, floor: Floor) {
        self.with(|known| {
            if let Some(place) = known.places.get_mut(&(floor.queue, floor.priority)) {
                *place = floor.at.min(*place);
            }
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
            known.leases.insert(worker, time_before(from));
        });
    }

    fn with<T>(&self, read: impl FnOnce(&mut Known) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A transaction may have taken its time before it claimed.
fn time_before(micros: i64) -> i64 {
    Timestamp::from_micros(micros).minus(MARGIN).minus(MARGIN).as_micros()
}
