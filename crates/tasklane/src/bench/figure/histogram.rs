//! How long things took, counted in classes no wider than a sixty-fourth of what they hold.

use std::time::Duration;

/// Below this many microseconds each has a class of its own; above, each doubling has as many.
const CLASSES: u64 = 128;
const CLASSES_BITS: u32 = CLASSES.ilog2();

/// Counts of times. Memory does not grow with how many there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    micros: u64,
    longest: Duration,
}

impl Histogram {
    pub(crate) fn note(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = class_of(micros);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
        }
        self.count += 1;
        self.micros = self.micros.saturating_add(micros);
        self.longest = self.longest.max(time);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        self.micros as f64 / self.count.max(1) as f64 / 1e3
    }

    /// So large a share of all took no longer than this.
    pub(crate) fn at_ms(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (end_of(class) as f64 / 1e3).min(self.longest_ms());
            }
        }
        self.longest_ms()
    }

    /// How many took longer than this.
    pub(crate) fn over(&self, time: Duration) -> u64 {
        let first = class_of(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)) + 1;
        self.counts.iter().skip(first).sum()
    }

    /// Counts by upper bounds that widen in steps of 1, 2 and 5, from the first that holds anything
    /// to the last.
    pub(crate) fn steps(&self) -> Vec<(f64, u64)> {
        let mut bounds = Vec::new();
        let mut ten = 100;
        while ten <= 10_000_000_000 {
            bounds.extend([ten, 2 * ten, 5 * ten]);
            ten *= 10;
        }
        let mut steps: Vec<(f64, u64)> = bounds.iter().map(|at| (*at as f64 / 1e3, 0)).collect();
        for (class, count) in self.counts.iter().enumerate() {
            let at = bounds.partition_point(|bound| *bound < end_of(class));
            if let Some((_, sum)) = steps.get_mut(at) {
                *sum += count;
            }
        }
        let first = steps.iter().position(|(_, count)| *count > 0).unwrap_or(steps.len());
        let last = steps.iter().rposition(|(_, count)| *count > 0).map_or(first, |last| last + 1);
        steps.get(first..last).unwrap_or_default().to_vec()
    }
}

fn class_of(micros: u64) -> usize {
    let shift = (micros.max(1).ilog2() + 1).saturating_sub(CLASSES_BITS);
    let class = if shift == 0 {
        micros
    } else {
        // Of each doubling only the upper half is new.
        CLASSES + u64::from(shift - 1) * (CLASSES / 2) + (micros >> shift) - CLASSES / 2
    };
    usize::try_from(class).unwrap_or(usize::MAX)
}

/// The longest time of a class, in microseconds.
fn end_of(class: usize) -> u64 {
    let class = class as u64;
    if class < CLASSES {
        return class;
    }
    let above = class - CLASSES;
    let (doubling, within) = (above / (CLASSES / 2), above % (CLASSES / 2));
    ((within + CLASSES / 2 + 1) << (doubling + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_class_that_ends_at_most_a_sixty_fourth_above_it() {
        let mut last = 0;
        for micros in (0..2_000).chain((2_000..5_000_000).step_by(997)) {
            let class = class_of(micros);
            let end = end_of(class);
            assert!(end >= micros && end - micros <= micros / 64, "{micros}: {end}");
            assert!(class >= last, "classes follow times");
            last = class;
        }
    }

    #[test]
    fn shares_are_those_of_the_times_themselves() {
        let mut histogram = Histogram::default();
        for micros in 1..=10_000 {
            histogram.note(Duration::from_micros(micros));
        }
        for (share, exact) in [(0.5, 5.0), (0.9, 9.0), (0.99, 9.9), (1.0, 10.0)] {
            let got = histogram.at_ms(share);
            assert!((got - exact).abs() <= exact / 60.0, "{share}: {got}");
        }
        assert_eq!((histogram.count(), histogram.longest_ms()), (10_000, 10.0));
        let over = histogram.over(Duration::from_millis(5));
        assert!((4_900..=5_000).contains(&over), "{over}");
        assert_eq!(histogram.steps().iter().map(|(_, count)| count).sum::<u64>(), 10_000);
        assert_eq!(Histogram::default().at_ms(0.99), 0.0);
    }
}
