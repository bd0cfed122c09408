//! Who asks for too much: a bucket of tokens for each caller and each address.
//!
//! A bucket of our own is two numbers; it may go into debt, so that a batch larger than a bucket
//! passes once and is paid for afterwards, and there are only so many of them.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tasklane_core::Timestamp;

use super::Engine;
use super::access::{Access, Caller};
use crate::address::Source;
use crate::limits::{RATE_BUCKETS_MAX, RATE_BUCKETS_SWEPT_EVERY};
use crate::settings::{Rate, RateLimits, Settings};

/// Tokens: a call takes one.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Below nought is a debt.
    tokens: f64,
    at: Timestamp,
}

impl Bucket {
    fn full(rate: Rate, now: Timestamp) -> Self {
        Self { tokens: rate.burst, at: now }
    }

    fn fill(&mut self, rate: Rate, now: Timestamp) {
        let fresh = now.since(self.at).as_secs_f64() * rate.per_second;
        (self.tokens, self.at) = ((self.tokens + fresh).min(rate.burst), now);
    }

    /// Takes a toll; if it cannot, says after what time it could.
    fn take(&mut self, toll: Toll, rate: Rate, now: Timestamp) -> Result<(), Duration> {
        self.fill(rate, now);
        let missing = toll.needed - self.tokens;
        if missing > 0.0 {
            return Err(Duration::try_from_secs_f64(missing / rate.per_second)
                .unwrap_or(Duration::from_secs(u32::MAX.into())));
        }
        self.tokens -= toll.taken;
        Ok(())
    }
}

/// What is taken from a bucket, and what must be in it.
#[derive(Debug, Clone, Copy)]
struct Toll {
    needed: f64,
    taken: f64,
}

impl Toll {
    const CALL: Self = Self { needed: 1.0, taken: 1.0 };

    /// Only to see whether a call could be made.
    const LOOK: Self = Self { needed: 1.0, taken: 0.0 };

    /// For what a call turned out to bring beyond the one that it paid for. Whoever is not in debt
    /// may go into it.
    fn more(tasks: usize) -> Self {
        Self { needed: 0.0, taken: tasks as f64 }
    }
}

/// A bucket for each of many, in bounded memory: a full bucket says nothing and is forgotten; while
/// too many are not full, those who come new share one.
#[derive(Debug)]
struct Buckets<K>(Mutex<Known<K>>);

#[derive(Debug)]
struct Known<K> {
    buckets: HashMap<K, Bucket>,
    shared: Option<Bucket>,
    swept_at: Option<Timestamp>,
}

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        let known = Known { buckets: HashMap::new(), shared: None, swept_at: None };
        Self(Mutex::new(known))
    }
}

impl<K: Eq + Hash> Buckets<K> {
    fn take<Q>(&self, of: &Q, toll: Toll, rate: Rate, now: Timestamp) -> Result<(), Duration>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if rate.is_off() {
            return Ok(());
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = known.buckets.get_mut(of) {
            return bucket.take(toll, rate, now);
        }
        known.make_room(rate, now);
        let bucket = if known.buckets.len() < RATE_BUCKETS_MAX {
            known.buckets.entry(of.to_owned()).or_insert_with(|| Bucket::full(rate, now))
        } else {
            known.shared.get_or_insert_with(|| Bucket::full(rate, now))
        };
        bucket.take(toll, rate, now)
    }
}

impl<K: Eq + Hash> Known<K> {
    /// Forgets full buckets where there is no room; not for each that comes, while there are many.
    fn make_room(&mut self, rate: Rate, now: Timestamp) {
        let rested = |at: Timestamp| now < at || now.since(at) >= RATE_BUCKETS_SWEPT_EVERY;
        if self.buckets.len() < RATE_BUCKETS_MAX || !self.swept_at.is_none_or(rested) {
            return;
        }
        self.swept_at = Some(now);
        self.buckets.retain(|_, bucket| {
            bucket.fill(rate, now);
            bucket.tokens < rate.burst
        });
    }
}

/// What each caller and each address has left.
#[derive(Debug)]
pub(super) struct Rates {
    /// Whether calls are counted at all: asked by each of them.
    counting: AtomicBool,
    callers: Buckets<String>,
    addresses: Buckets<Source>,
    failures: Buckets<Source>,
}

impl Rates {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            counting: AtomicBool::new(counts(settings.rate_limits)),
            callers: Buckets::default(),
            addresses: Buckets::default(),
            failures: Buckets::default(),
        }
    }

    /// Settings have changed.
    pub(super) fn adopt(&self, settings: &Settings) {
        self.counting.store(counts(settings.rate_limits), Ordering::Relaxed);
    }
}

fn counts(limits: RateLimits) -> bool {
    !(limits.key.is_off() && limits.address.is_off())
}

/// How long to wait, where somebody has asked for too much.
pub(crate) type Within = Result<(), Duration>;

impl Engine {
    /// Whether calls are counted.
    pub(crate) fn counts_calls(&self) -> bool {
        self.rates.counting.load(Ordering::Relaxed)
    }

    /// A call came from an address.
    pub(crate) fn count_address(&self, from: Source) -> Within {
        let rate = self.settings().rate_limits.address;
        self.rates.addresses.take(&from, Toll::CALL, rate, self.now())
    }

    /// A call came from somebody who was let in.
    pub(crate) fn count_caller(&self, access: &Access) -> Within {
        let Some(owner) = access.owner() else { return Ok(()) };
        let rate = self.settings().rate_limits.key;
        self.rates.callers.take(owner, Toll::CALL, rate, self.now())
    }

    /// A call brings so many tasks: each of them counts as a call.
    pub(crate) fn count_tasks(&self, caller: &Caller, tasks: usize) -> Within {
        let (Some(from), more @ 1..) = (caller.counted_from, tasks.saturating_sub(1)) else {
            return Ok(());
        };
        let (limits, now) = (self.settings().rate_limits, self.now());
        self.rates.addresses.take(&from, Toll::more(more), limits.address, now)?;
        let Some(owner) = caller.access.owner() else { return Ok(()) };
        self.rates.callers.take(owner, Toll::more(more), limits.key, now)
    }

    /// Whether somebody at an address may try once more to say who they are.
    pub(crate) fn check_failures(&self, from: Source) -> Within {
        let rate = self.settings().rate_limits.failures;
        self.rates.failures.take(&from, Toll::LOOK, rate, self.now())
    }

    /// Somebody at an address could not say who they are.
    pub(crate) fn count_failure(&self, from: Source) -> Within {
        let rate = self.settings().rate_limits.failures;
        self.rates.failures.take(&from, Toll::CALL, rate, self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    fn call(buckets: &Buckets<u32>, of: u32, millis: i64) -> Within {
        buckets.take(&of, Toll::CALL, RATE, at(millis))
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(call(&buckets, 1, 0), Ok(()));
        }
        assert_eq!(call(&buckets, 1, 0), Err(Duration::from_millis(500)));
        assert_eq!(call(&buckets, 1, 400), Err(Duration::from_millis(100)));
        assert_eq!(call(&buckets, 1, 500), Ok(()));
        assert!(call(&buckets, 1, 500).is_err());
        assert_eq!(call(&buckets, 2, 500), Ok(()), "another has its own");
        for _ in 0..3 {
            assert_eq!(call(&buckets, 1, 60_000), Ok(()));
        }
        assert!(call(&buckets, 1, 60_000).is_err(), "no more than the burst is saved up");
    }

    #[test]
    fn many_tasks_pass_once_and_are_paid_for_afterwards() {
        let buckets = Buckets::default();
        assert_eq!(call(&buckets, 1, 0), Ok(()));
        assert_eq!(buckets.take(&1, Toll::more(9), RATE, at(0)), Ok(()));
        // Three were there, ten were taken: seven and the next one, two a second.
        assert_eq!(call(&buckets, 1, 0), Err(Duration::from_secs(4)));
        assert!(buckets.take(&1, Toll::more(9), RATE, at(0)).is_err(), "no debt upon a debt");
        assert_eq!(call(&buckets, 1, 4_000), Ok(()));
    }

    #[test]
    fn a_clock_that_steps_back_takes_nothing_away() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(call(&buckets, 1, 0), Ok(()));
        }
        assert!(call(&buckets, 1, -500_000).is_err());
        assert_eq!(call(&buckets, 1, -499_500), Ok(()));
    }

    #[test]
    fn memory_is_bounded_whatever_the_number() {
        let buckets = Buckets::default();
        let most = u32::try_from(RATE_BUCKETS_MAX).unwrap();
        let len = || buckets.0.lock().unwrap().buckets.len();
        for of in 0..most + 10_000 {
            let _ = call(&buckets, of, 0);
        }
        assert_eq!(len(), RATE_BUCKETS_MAX);
        assert!(call(&buckets, most + 20_000, 0).is_err(), "those who come new share one");
        assert_eq!(call(&buckets, 5, 0), Ok(()), "who was there before has its own");
        assert_eq!(call(&buckets, most + 20_000, 1_000), Ok(()));
        assert_eq!(len(), 1, "those that were full again are forgotten");
    }
}
