//! Lengths of time, counted by their logarithm: small, and right within a sixteenth.

use std::time::Duration;

/// Parts of each doubling: a value is at most 1/16 from the middle of its part.
const PARTS: u32 = 8;
/// Shorter than 2^5 µs counts as nothing.
const LOWEST: u32 = 5;
/// Longer than 2^40 µs, 12 days, counts as that.
const HIGHEST: u32 = 40;
const BUCKETS: usize = ((HIGHEST - LOWEST) * PARTS) as usize;

/// How many values of which size there were.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: [u32; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, value: Duration) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// The value that `share` of all are not above; nought when there are none.
    pub(super) fn percentile(&self, share: f64) -> Duration {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = (total as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = |count: &u32| {
            seen += u64::from(*count);
            seen >= rank
        };
        self.counts.iter().position(reached).map_or(Duration::ZERO, middle)
    }
}

fn bucket(value: Duration) -> usize {
    let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
    let Some(octave) = micros.checked_ilog2().filter(|octave| *octave >= LOWEST) else { return 0 };
    let part = (micros >> (octave - PARTS.ilog2())) as u32 - PARTS;
    (((octave - LOWEST) * PARTS + part) as usize).min(BUCKETS - 1)
}

fn middle(bucket: usize) -> Duration {
    let (octave, part) = (bucket as u32 / PARTS + LOWEST, u64::from(bucket as u32 % PARTS));
    let width = 1u64 << (octave - PARTS.ilog2());
    Duration::from_micros((u64::from(PARTS) + part) * width + width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_within_a_sixteenth() {
        for micros in [40, 100, 999, 12_345, 1_000_000, 86_400_000_000] {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_micros(micros));
            let shown = histogram.percentile(0.5).as_micros() as f64;
            assert!((shown / micros as f64 - 1.0).abs() <= 1.0 / 16.0, "{micros}: {shown}");
        }
    }

    #[test]
    fn percentiles_are_by_rank() {
        let mut histogram = Histogram::default();
        for millis in 1..=100 {
            histogram.record(Duration::from_millis(millis));
        }
        let near = |share: f64, millis: f64| {
            let shown = histogram.percentile(share).as_secs_f64() * 1e3;
            assert!((shown / millis - 1.0).abs() < 0.07, "{share}: {shown}");
        };
        near(0.5, 50.0);
        near(0.95, 95.0);
        near(1.0, 100.0);
        assert_eq!(Histogram::default().percentile(0.95), Duration::ZERO);
    }

    #[test]
    fn extremes_have_a_bucket() {
        for value in [Duration::ZERO, Duration::MAX, Duration::from_micros(31)] {
            assert!(bucket(value) < BUCKETS);
        }
    }
}
