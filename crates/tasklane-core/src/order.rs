//! The one definition of what is claimed first: aging as bands, or a weighted draw.

use std::time::Duration;

use crate::error::Invalid;
use crate::priority::Priority;
use crate::random::Random;
use crate::time::Timestamp;

/// How a queue chooses among priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The highest effective priority first; waiting raises it (S9).
    Aging(Aging),
    /// A priority is drawn for each task claimed; inside it, by place.
    Weighted(Weights),
}

impl Default for Order {
    fn default() -> Self {
        Self::Aging(Aging::default())
    }
}

impl Order {
    /// What a task of `base` that became ready at `ready_at` counts as at `now`.
    pub fn effective(&self, base: Priority, ready_at: Timestamp, now: Timestamp) -> Priority {
        match self {
            Self::Aging(aging) => aging.effective(base, now.since(ready_at)),
            Self::Weighted(_) => base,
        }
    }

    /// How long a task of `base` waits at most until only those with an earlier place go before
    /// it; `None` where nothing bounds that.
    pub const fn wait_bound(&self, base: Priority) -> Option<Duration> {
        match (self, base) {
            (Self::Weighted(_), _) => None,
            (Self::Aging(_), Priority::Critical) => Some(Duration::ZERO),
            (Self::Aging(aging), _) => aging.critical,
        }
    }

    /// How long a task of `base` waits until it counts as starving: four fifths of what it waits
    /// at most. Nothing passes over a critical task, so it never does.
    pub fn starves_after(&self, base: Priority) -> Option<Duration> {
        let bound = self.wait_bound(base).filter(|_| base != Priority::Critical);
        bound.map(|bound| bound.mul_f64(0.8))
    }
}

/// How long a task waits until it counts at least as a level; `None` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aging {
    normal: Option<Duration>,
    high: Option<Duration>,
    critical: Option<Duration>,
}

impl Default for Aging {
    fn default() -> Self {
        let after = |seconds| Some(Duration::from_secs(seconds));
        Self { normal: after(600), high: after(1_200), critical: after(3_600) }
    }
}

impl Aging {
    /// No task ever counts as more than its base.
    pub const OFF: Self = Self { normal: None, high: None, critical: None };

    /// Waiting times for each level; a higher level must not come sooner than a lower one.
    pub fn new(
        normal: Option<Duration>,
        high: Option<Duration>,
        critical: Option<Duration>,
    ) -> Result<Self, Invalid> {
        let given = [normal, high, critical].into_iter().flatten();
        if !given.is_sorted() {
            return Err(Invalid::out_of_range("aging", "normal ≤ high ≤ critical"));
        }
        Ok(Self { normal, high, critical })
    }

    /// Waiting time until `level` is reached; `None` is never. Everything is at least low at once.
    pub const fn threshold(&self, level: Priority) -> Option<Duration> {
        match level {
            Priority::Low => Some(Duration::ZERO),
            Priority::Normal => self.normal,
            Priority::High => self.high,
            Priority::Critical => self.critical,
        }
    }

    /// What a task of `base` counts as after `waiting`.
    pub fn effective(&self, base: Priority, waiting: Duration) -> Priority {
        Priority::DESCENDING
            .into_iter()
            .find(|level| self.threshold(*level).is_some_and(|after| waiting >= after))
            .map_or(base, |aged| aged.max(base))
    }

    /// The same order as ranges to scan: bands from the most urgent level down, each a list of
    /// (base priority, place range). Claiming band by band, and by place inside a band, is
    /// claiming by effective priority and place; a store needs no other knowledge of aging.
    pub fn bands(&self, now: Timestamp) -> [Band; Priority::COUNT] {
        Priority::DESCENDING.map(|level| {
            let reached_at = self.cut_off(level, now);
            // What counts as more is in a band above: the most urgent of the levels over this one
            // that a waiting time can reach is the nearest.
            let above = Priority::DESCENDING
                .into_iter()
                .filter(|higher| *higher > level)
                .filter_map(|higher| self.cut_off(higher, now))
                .max();
            let ranges = Priority::DESCENDING.map(|base| {
                let until = match base.cmp(&level) {
                    std::cmp::Ordering::Greater => return None,
                    std::cmp::Ordering::Equal => Some(Timestamp::MAX),
                    std::cmp::Ordering::Less => reached_at,
                };
                until.map(|until| Range { base, after: above, until })
            });
            Band { level, ranges }
        })
    }

    /// Tasks ready at or before this instant have reached `level`.
    fn cut_off(&self, level: Priority, now: Timestamp) -> Option<Timestamp> {
        self.threshold(level).map(|after| now.minus(after))
    }
}

/// All tasks of one effective priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The effective priority.
    pub level: Priority,
    /// Where its tasks stand, by base priority; merge these by place.
    pub ranges: [Option<Range>; Priority::COUNT],
}

/// Places of one base priority: ready after `after` (if given) and not later than `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The base priority.
    pub base: Priority,
    /// Exclusive.
    pub after: Option<Timestamp>,
    /// Inclusive.
    pub until: Timestamp,
}

/// Shares of claims by priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights([u32; Priority::COUNT]);

impl Default for Weights {
    fn default() -> Self {
        Self([2, 8, 20, 70])
    }
}

impl Weights {
    /// Shares from critical to low; each at least 1, so that none starves.
    pub fn new(critical: u32, high: u32, normal: u32, low: u32) -> Result<Self, Invalid> {
        let shares = [low, normal, high, critical];
        if shares.iter().any(|share| !(1..=1_000_000).contains(share)) {
            return Err(Invalid::out_of_range("weights", "1 to 1000000 each"));
        }
        Ok(Self(shares))
    }

    /// The share of a priority.
    pub fn of(&self, priority: Priority) -> u32 {
        self.0.get(priority.index()).copied().unwrap_or(1)
    }

    /// Draws one of the `available` priorities by their shares; `None` if there is none.
    pub fn draw(
        &self,
        available: impl Fn(Priority) -> bool,
        random: &mut (impl Random + ?Sized),
    ) -> Option<Priority> {
        let open = || Priority::DESCENDING.into_iter().filter(|priority| available(*priority));
        let total: u64 = open().map(|priority| u64::from(self.of(priority))).sum();
        let mut ticket = ((u128::from(random.next_u64()) * u128::from(total)) >> 64) as u64;
        open().find(|priority| {
            let share = u64::from(self.of(*priority));
            let hit = ticket < share;
            ticket = ticket.saturating_sub(share);
            hit
        })
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

    #[test]
    fn waiting_raises_a_task_level_by_level() {
        let aging = Aging::default();
        let after = |base, seconds| aging.effective(base, secs(seconds));
        assert_eq!(after(Priority::Low, 599), Priority::Low);
        assert_eq!(after(Priority::Low, 600), Priority::Normal);
        assert_eq!(after(Priority::Low, 1_200), Priority::High);
        assert_eq!(after(Priority::Low, 3_600), Priority::Critical);
        assert_eq!(after(Priority::High, 600), Priority::High);
        assert_eq!(after(Priority::Critical, 0), Priority::Critical);
        assert_eq!(Aging::OFF.effective(Priority::Low, secs(1_000_000)), Priority::Low);
    }

    #[test]
    fn levels_out_of_order_are_refused() {
        assert!(Aging::new(Some(secs(10)), Some(secs(5)), None).is_err());
        assert!(Aging::new(Some(secs(10)), None, Some(secs(5))).is_err());
        assert!(Aging::new(None, Some(secs(5)), Some(secs(5))).is_ok());
        assert!(Weights::new(70, 20, 8, 0).is_err());
    }

    fn any_aging() -> impl Strategy<Value = Aging> {
        let level = || proptest::option::of(0u64..100);
        (level(), level(), level()).prop_filter_map("levels in order", |(n, h, c)| {
            Aging::new(n.map(secs), h.map(secs), c.map(secs)).ok()
        })
    }

    proptest! {
        /// Bands and `effective` are two faces of one definition.
        #[test]
        fn each_task_is_in_exactly_the_band_of_its_effective_priority(
            aging in any_aging(), base in 0u64..4, waited in 0u64..200
        ) {
            let now = Timestamp::from_millis(1_000_000);
            let base = Priority::from_number(base).unwrap();
            let ready_at = now.minus(secs(waited));
            let holding: Vec<_> = aging.bands(now).into_iter().filter(|band| {
                band.ranges.iter().flatten().any(|range| {
                    range.base == base && range.after.is_none_or(|a| ready_at > a) && ready_at <= range.until
                })
            }).map(|band| band.level).collect();
            prop_assert_eq!(holding, vec![aging.effective(base, secs(waited))]);
        }
    }

    #[test]
    fn draws_follow_the_shares_and_skip_what_is_empty() {
        let mut random = SeededRandom::new(3);
        let weights = Weights::default();
        let mut drawn = [0u32; 4];
        for _ in 0..10_000 {
            drawn[weights.draw(|_| true, &mut random).unwrap().index()] += 1;
        }
        for (count, share) in drawn.iter().zip([200, 800, 2_000, 7_000]) {
            assert!(count.abs_diff(share) < 200, "{drawn:?}");
        }
        // Where shares are small, one ticket too many for the first is all that the last has.
        let equal = Weights::new(1, 1, 1, 1).unwrap();
        let mut drawn = [0u32; 4];
        for _ in 0..1_000 {
            drawn[equal.draw(|_| true, &mut random).unwrap().index()] += 1;
        }
        assert!(drawn.iter().all(|count| count.abs_diff(250) < 60), "{drawn:?}");
        assert_eq!(weights.draw(|p| p == Priority::Low, &mut random), Some(Priority::Low));
        assert_eq!(weights.draw(|_| false, &mut random), None);
    }
}
