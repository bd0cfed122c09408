//! What a store measures of itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has measured since it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Microseconds from the beginning of a write until it is as durable as its answer says.
    pub commit_micros: Spread,
    /// Events of a write: how much shared one commit.
    pub commit_events: Spread,
    /// Microseconds for which nothing could be written, because the store looked after itself.
    pub stall_micros: Spread,
}

/// How often a number was how large, by powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spread {
    /// How often: first numbers up to 1, then up to 2, to 4 and so on; all larger ones are last.
    pub counts: [u64; Self::SLOTS],
    /// The sum of all numbers.
    pub sum: u64,
}

impl Spread {
    /// How many sizes are told apart: up to two minutes, in microseconds.
    pub const SLOTS: usize = 29;
}

/// A spread that is being counted. Adding to it costs two additions.
#[derive(Debug, Default)]
pub struct Tally {
    counts: [AtomicU64; Spread::SLOTS],
    sum: AtomicU64,
}

impl Tally {
    /// Counts a number.
    pub fn add(&self, number: u64) {
        let bits = u64::BITS - number.saturating_sub(1).leading_zeros();
        let slot = (bits as usize).min(Spread::SLOTS - 1);
        if let Some(count) = self.counts.get(slot) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    /// What has been counted.
    pub fn spread(&self) -> Spread {
        Spread {
            counts: std::array::from_fn(|slot| {
                self.counts.get(slot).map_or(0, |count| count.load(Ordering::Relaxed))
            }),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_by_the_power_of_two_that_holds_them() {
        let tally = Tally::default();
        for number in [0, 1, 2, 3, 4, 5, 1 << 27, (1 << 27) + 1, u64::from(u32::MAX)] {
            tally.add(number);
        }
        let spread = tally.spread();
        assert_eq!(spread.counts[..4], [2, 1, 2, 1]);
        assert_eq!(spread.counts[27..], [1, 2]);
        assert_eq!(spread.counts.iter().sum::<u64>(), 9);
        assert_eq!(spread.sum, 15 + (1 << 28) + 1 + u64::from(u32::MAX));
    }
}
