//! When to ask again.

use std::time::Duration;

use super::chance;
use crate::limits::RETRY_AFTER_MAX;

/// How often a call is tried again, and after how long.
///
/// Only what the server refuses for now (429, 503) and what did not reach it is tried again. Where
/// nobody knows whether a call arrived, it is tried again only if that changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries after the first; 4 by default.
    pub retries_max: u32,
    /// About how long until the first of them, doubled each time; 100 ms by default.
    pub first_delay: Duration,
    /// What that does not pass; 5 s by default.
    pub delay_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            retries_max: 4,
            first_delay: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
        }
    }
}

impl Retries {
    /// One try and no more.
    pub const NONE: Self =
        Self { retries_max: 0, first_delay: Duration::ZERO, delay_max: Duration::ZERO };

    pub(crate) const fn begin(self) -> Backoff {
        Backoff { retries: self, done: 0 }
    }
}

/// How often it was tried by now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    retries: Retries,
    done: u32,
}

impl Backoff {
    /// How long to wait until the next try; `None` when there have been enough.
    pub(crate) fn next(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        if self.done >= self.retries.retries_max || retry_after > Some(RETRY_AFTER_MAX) {
            return None;
        }
        Some(self.delay().max(retry_after.map_or(Duration::ZERO, blurred)))
    }

    /// The same without an end.
    pub(crate) fn delay(&mut self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.done);
        self.done = self.done.saturating_add(1);
        let delay = self.retries.first_delay.saturating_mul(doubled).min(self.retries.delay_max);
        // At least half of it, so that a wait is one.
        delay.mul_f64(0.5 + 0.5 * chance::unit())
    }

    /// It went well: the next trouble is a new one. Says whether there had been any.
    pub(crate) const fn reset(&mut self) -> bool {
        let was_in_trouble = self.done > 0;
        self.done = 0;
        was_in_trouble
    }
}

/// Not all at once when the time has come, and never before.
fn blurred(delay: Duration) -> Duration {
    delay.mul_f64(1.0 + 0.2 * chance::unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_end() {
        let millis = Duration::from_millis;
        let retries = Retries { retries_max: 5, first_delay: millis(100), delay_max: millis(500) };
        let mut backoff = retries.begin();
        for expected in [100, 200, 400, 500, 500] {
            let delay = backoff.next(None).unwrap();
            assert!(delay >= millis(expected) / 2 && delay <= millis(expected), "{delay:?}");
        }
        assert_eq!(backoff.next(None), None);
        assert!(backoff.reset() && !backoff.reset());
        assert!(backoff.next(None).unwrap() <= millis(100));
    }

    #[test]
    fn what_the_server_asks_for_is_waited_for_unless_it_is_too_long() {
        let mut backoff = Retries::default().begin();
        let asked = Duration::from_secs(7);
        let delay = backoff.next(Some(asked)).unwrap();
        assert!(delay >= asked && delay <= asked.mul_f64(1.2), "{delay:?}");
        assert_eq!(backoff.next(Some(Duration::from_secs(61))), None);
    }
}
