//! A clock that stands still until it is moved.

use std::sync::Mutex;
use std::time::Duration;

use tasklane_core::{Clock, Timestamp};

/// Wall and monotonic time under a test's control.
#[derive(Debug)]
pub struct ManualClock {
    times: Mutex<(Timestamp, Duration)>,
    /// There is no other clock to count on: what steps the wall clock steps both.
    single: bool,
}

impl Default for ManualClock {
    fn default() -> Self {
        // Some day in 2026: fences and ids look as they do in life.
        let wall = Timestamp::from_millis(1_790_000_000_000);
        Self { times: Mutex::new((wall, Duration::from_secs(1_000))), single: false }
    }
}

impl ManualClock {
    /// The clock of a store that has only one, as a server elsewhere has.
    pub fn single() -> Self {
        let clock = Self { single: true, ..Self::default() };
        clock.set_wall(clock.wall());
        clock
    }

    /// Moves both clocks forward, as time does.
    pub fn advance(&self, span: Duration) {
        self.with(|(wall, monotonic)| {
            *wall = wall.plus(span);
            *monotonic += span;
        });
    }

    /// Steps the wall clock only, as an administrator or a time server does.
    pub fn set_wall(&self, wall: Timestamp) {
        self.with(|(now, monotonic)| {
            *now = wall;
            if self.single {
                *monotonic = wall.since(Timestamp::EPOCH);
            }
        });
    }

    fn with<T>(&self, read: impl FnOnce(&mut (Timestamp, Duration)) -> T) -> T {
        read(&mut self.times.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.with(|(wall, _)| *wall)
    }

    fn monotonic(&self) -> Duration {
        self.with(|(_, monotonic)| *monotonic)
    }
}
