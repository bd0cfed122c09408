//! A worker whose tasks fail in a row gets no more for a while, then a few to try.

use std::time::Duration;

use tasklane_core::Timestamp;

use crate::settings::BreakerSettings;

/// Whether a worker gets tasks, by how its last ones ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// It does; so many have failed in a row.
    Closed {
        /// Failures that it reported here.
        failures: u32,
        /// Attempts that ran too long, as the feed tells.
        time_outs: u32,
    },
    /// It does not.
    Open {
        /// Until then.
        until: Timestamp,
    },
    /// It gets a few; the first to end decides.
    HalfOpen {
        /// So many more.
        trials: u32,
        /// If none has ended by then, it gets a few more.
        until: Timestamp,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { failures: 0, time_outs: 0 }
    }
}

impl Breaker {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
        }
    }

    /// Failures in a row that it has counted while closed.
    pub const fn failures(self) -> u32 {
        match self {
            Self::Closed { failures, time_outs } => failures + time_outs,
            Self::Open { .. } | Self::HalfOpen { .. } => 0,
        }
    }

    /// How many tasks it lets through of `wanted`.
    pub fn allows(self, wanted: usize) -> usize {
        match self {
            Self::Closed { .. } => wanted,
            Self::Open { .. } => 0,
            Self::HalfOpen { trials, .. } => wanted.min(trials as usize),
        }
    }

    /// Tasks were handed over.
    pub fn took(&mut self, count: usize) {
        if let Self::HalfOpen { trials, .. } = self {
            *trials = trials.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// It reported how a task ended. Says whether this opened the breaker.
    pub fn settled(&mut self, failed: bool, now: Timestamp, settings: &BreakerSettings) -> bool {
        let open = |for_: Duration| Self::Open { until: now.plus(for_) };
        *self = match (*self, failed) {
            // What was claimed before it opened says nothing new.
            (Self::Open { .. }, _) => return false,
            (Self::Closed { .. } | Self::HalfOpen { .. }, false) => Self::default(),
            (Self::HalfOpen { .. }, true) => open(settings.open_for),
            (closed, true) if closed.failures() + 1 >= settings.failures => open(settings.open_for),
            (Self::Closed { failures, time_outs }, true) => {
                Self::Closed { failures: failures + 1, time_outs }
            }
        };
        matches!(self, Self::Open { .. })
    }

    /// The feed tells that an attempt ran too long, or that a task was completed, whichever server
    /// heard of it. It tells so late: what was reported here meanwhile stands. Says whether this opened
    /// the breaker.
    pub fn heard(&mut self, too_long: bool, now: Timestamp, settings: &BreakerSettings) -> bool {
        *self = match (*self, too_long) {
            (Self::Closed { failures, .. }, false) => Self::Closed { failures, time_outs: 0 },
            (Self::Closed { failures, time_outs }, true)
                if failures + time_outs + 1 < settings.failures =>
            {
                Self::Closed { failures, time_outs: time_outs + 1 }
            }
            (Self::Closed { .. }, true) => Self::Open { until: now.plus(settings.open_for) },
            (Self::Open { .. } | Self::HalfOpen { .. }, _) => {
                return self.settled(too_long, now, settings);
            }
        };
        matches!(self, Self::Open { .. })
    }

    /// Its time is over, or that of trials that ended without an outcome: they were released, or
    /// their leases lost. Says whether that was so.
    pub fn try_again(&mut self, now: Timestamp, settings: &BreakerSettings) -> bool {
        match self {
            Self::Open { until } | Self::HalfOpen { until, .. } if *until <= now => {
                let until = now.plus(settings.open_for);
                *self = Self::HalfOpen { trials: settings.trials, until };
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings =
        BreakerSettings { failures: 3, open_for: Duration::from_secs(60), trials: 2 };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let mut breaker = Breaker::default();
        for failed in [true, true, false, true, true] {
            assert!(!breaker.settled(failed, at(0), &SETTINGS));
        }
        assert!(breaker.settled(true, at(0), &SETTINGS));
        assert_eq!((breaker.as_str(), breaker.allows(9)), ("open", 0));
    }

    #[test]
    fn time_outs_in_a_row_open_it_together_with_failures() {
        let mut breaker = Breaker::default();
        for too_long in [true, true, false, true] {
            assert!(!breaker.heard(too_long, at(0), &SETTINGS));
        }
        assert!(!breaker.settled(true, at(0), &SETTINGS));
        assert_eq!(breaker.failures(), 2);
        let mut reported = breaker;
        assert!(reported.settled(true, at(0), &SETTINGS));
        assert!(!breaker.heard(false, at(0), &SETTINGS));
        assert_eq!(breaker.failures(), 1, "what the feed tells late undoes no failure");
        assert!(!breaker.heard(true, at(0), &SETTINGS));
        assert!(breaker.heard(true, at(0), &SETTINGS));
        assert!(breaker.try_again(at(60), &SETTINGS) && !breaker.heard(false, at(61), &SETTINGS));
        assert_eq!(breaker, Breaker::default(), "a trial that another server heard of");
    }

    #[test]
    fn after_its_time_a_few_are_tried_and_the_first_decides() {
        let open = Breaker::Open { until: at(60) };
        let mut breaker = open;
        assert!(!breaker.try_again(at(59), &SETTINGS) && breaker == open);
        assert!(breaker.try_again(at(60), &SETTINGS));
        assert_eq!(breaker.allows(9), 2);
        breaker.took(1);
        assert_eq!(breaker.allows(9), 1);
        let mut stuck = breaker;
        stuck.took(1);
        assert_eq!(stuck.allows(9), 0);
        assert!(!stuck.try_again(at(119), &SETTINGS) && stuck.try_again(at(120), &SETTINGS));
        assert_eq!(stuck.allows(9), 2, "trials that came to nothing are not held against it");
        let mut failing = breaker;
        assert!(failing.settled(true, at(61), &SETTINGS));
        assert_eq!(failing, Breaker::Open { until: at(121) });
        assert!(!breaker.settled(false, at(61), &SETTINGS));
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn what_was_claimed_before_it_opened_changes_nothing() {
        let mut breaker = Breaker::Open { until: at(60) };
        assert!(!breaker.settled(false, at(1), &SETTINGS));
        assert!(!breaker.settled(true, at(2), &SETTINGS));
        assert_eq!(breaker, Breaker::Open { until: at(60) });
    }
}
