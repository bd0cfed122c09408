//! Slow calls: a line in the log for each, as long as there are few.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{SLOW_CALLS_LOGGED_MAX, SLOW_CALLS_LOGGED_WITHIN};

/// How many were told of lately.
#[derive(Debug, Default)]
pub(super) struct SlowCalls(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    since: Option<Instant>,
    told: u32,
    left_out: u64,
}

impl SlowCalls {
    /// Whether another may be told of; if so, how many were left out before it.
    pub(super) fn tell(&self, now: Instant) -> Option<u64> {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over =
            |since: Instant| now.saturating_duration_since(since) >= SLOW_CALLS_LOGGED_WITHIN;
        if lately.since.is_none_or(is_over) {
            (lately.since, lately.told) = (Some(now), 0);
        }
        if lately.told >= SLOW_CALLS_LOGGED_MAX {
            lately.left_out += 1;
            return None;
        }
        lately.told += 1;
        Some(std::mem::take(&mut lately.left_out))
    }
}

/// What counts of the time that a call took: not what it asked to wait.
pub(super) fn counted(took: Duration, asked_to_wait: Duration) -> Duration {
    took.saturating_sub(asked_to_wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_was_asked_for_does_not_count() {
        let (second, third) = (Duration::from_secs(2), Duration::from_secs(3));
        assert_eq!(counted(third, second), Duration::from_secs(1));
        assert_eq!(counted(second, third), Duration::ZERO, "it ended before");
        assert_eq!(counted(second, Duration::ZERO), second);
    }

    #[test]
    fn many_are_counted_instead_of_told() {
        let (slow, now) = (SlowCalls::default(), Instant::now());
        for _ in 0..SLOW_CALLS_LOGGED_MAX {
            assert_eq!(slow.tell(now), Some(0));
        }
        assert_eq!((slow.tell(now), slow.tell(now)), (None, None));
        let later = now + SLOW_CALLS_LOGGED_WITHIN;
        assert_eq!((slow.tell(later), slow.tell(later)), (Some(2), Some(0)));
    }
}
