//! How long to wait before the next attempt.

use std::time::Duration;

use crate::error::Invalid;
use crate::limits;
use crate::random::Random;

/// How the delay grows from one retry to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Backoff {
    /// initial × factor^n
    #[default]
    Exponential,
    /// initial × (1 + n)
    Linear,
    /// initial
    Fixed,
}

/// How the delay is blurred, so that tasks that failed together do not return together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Jitter {
    /// Not at all.
    None,
    /// By up to a tenth, either way.
    #[default]
    Proportional,
    /// Anything from nothing to the whole delay.
    Full,
}

/// A task's backoff (S12).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    strategy: Backoff,
    initial: Duration,
    factor: f64,
    max: Duration,
    jitter: Jitter,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            strategy: Backoff::Exponential,
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(300),
            jitter: Jitter::Proportional,
        }
    }
}

impl RetryPolicy {
    /// Checks the ranges.
    pub fn new(
        strategy: Backoff,
        initial: Duration,
        factor: f64,
        max: Duration,
        jitter: Jitter,
    ) -> Result<Self, Invalid> {
        if initial > limits::RETRY_DELAY_MAX {
            return Err(Invalid::out_of_range("retry.initial_seconds", "0 to 604800"));
        }
        if max > limits::RETRY_DELAY_MAX || max < initial {
            return Err(Invalid::out_of_range("retry.max_seconds", "initial_seconds to 604800"));
        }
        if !(1.0..=limits::RETRY_FACTOR_MAX).contains(&factor) {
            return Err(Invalid::out_of_range("retry.factor", "1 to 100"));
        }
        Ok(Self { strategy, initial, factor, max, jitter })
    }

    /// How the delay grows.
    pub const fn strategy(&self) -> Backoff {
        self.strategy
    }

    /// The delay before the first retry.
    pub const fn initial(&self) -> Duration {
        self.initial
    }

    /// The growth of the exponential strategy.
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// What the delay never passes, jitter apart.
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// How the delay is blurred.
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The delay before retry `n`, counted from 0, multiplied by `stretch` before it is bounded.
    pub fn delay(&self, n: u32, stretch: f64, random: &mut (impl Random + ?Sized)) -> Duration {
        let grown = match self.strategy {
            Backoff::Exponential => self.factor.powi(i32::try_from(n).unwrap_or(i32::MAX)),
            Backoff::Linear => 1.0 + f64::from(n),
            Backoff::Fixed => 1.0,
        };
        let seconds = (self.initial.as_secs_f64() * grown * stretch).min(self.max.as_secs_f64());
        let blurred = match self.jitter {
            Jitter::None => seconds,
            Jitter::Proportional => seconds * (0.9 + 0.2 * random.next_unit()),
            Jitter::Full => seconds * random.next_unit(),
        };
        // Finite and small: bounded by RETRY_DELAY_MAX × 1.1; zero × infinity is the only NaN.
        Duration::try_from_secs_f64(blurred).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use proptest::prelude::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn delays(strategy: Backoff) -> Vec<u64> {
        let policy = RetryPolicy::new(strategy, secs(2), 3.0, secs(20), Jitter::None).unwrap();
        (0..4).map(|n| policy.delay(n, 1.0, &mut SeededRandom::new(0)).as_secs()).collect()
    }

    #[test]
    fn each_strategy_grows_as_documented() {
        assert_eq!(delays(Backoff::Exponential), [2, 6, 18, 20]);
        assert_eq!(delays(Backoff::Linear), [2, 4, 6, 8]);
        assert_eq!(delays(Backoff::Fixed), [2, 2, 2, 2]);
    }

    #[test]
    fn policies_out_of_range_are_refused() {
        let make = |initial, factor, max| {
            RetryPolicy::new(Backoff::Exponential, secs(initial), factor, secs(max), Jitter::None)
        };
        assert!(make(1, 2.0, 300).is_ok());
        assert!(make(1, 0.5, 300).is_err());
        assert!(make(1, f64::NAN, 300).is_err());
        assert!(make(1, f64::INFINITY, 300).is_err());
        assert!(make(10, 2.0, 5).is_err());
        assert!(make(1, 2.0, 10_000_000).is_err());
    }

    #[test]
    fn jitter_uses_the_whole_of_its_range() {
        let mut random = SeededRandom::new(7);
        let mut extremes = |jitter| {
            let policy =
                RetryPolicy::new(Backoff::Fixed, secs(100), 1.0, secs(100), jitter).unwrap();
            let drawn = (0..1_000).map(|_| policy.delay(0, 1.0, &mut random).as_secs_f64());
            drawn.fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)))
        };
        let (low, high) = extremes(Jitter::Proportional);
        assert!(low < 91.0 && high > 109.0, "{low} to {high}");
        let (low, high) = extremes(Jitter::Full);
        assert!(low < 1.0 && high > 99.0, "{low} to {high}");
    }

    proptest! {
        #[test]
        fn jitter_stays_in_its_range(n in 0u32..200, seed: u64, initial in 0u64..1_000, max in 1_000u64..100_000) {
            let of = |jitter| {
                let policy = RetryPolicy::new(Backoff::Exponential, secs(initial), 2.0, secs(max), jitter).unwrap();
                policy.delay(n, 1.0, &mut SeededRandom::new(seed)).as_secs_f64()
            };
            let exact = of(Jitter::None);
            prop_assert!(exact <= max as f64);
            let near = of(Jitter::Proportional);
            prop_assert!(near >= exact * 0.899 && near <= exact * 1.101);
            prop_assert!(of(Jitter::Full) <= exact);
        }
    }
}
