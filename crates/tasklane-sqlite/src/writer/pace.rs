//! How many tasks a transaction may have, so that it does not take long on a slow machine either.

use std::time::Duration;

/// How long the tasks of one transaction should take that are no settles. A settle waits for the
/// transaction under way and then for its own.
const WITHIN: Duration = Duration::from_millis(4);
/// Fewer are not worth a sync of their own.
const TASKS_MIN: usize = 128;
/// More would not be faster: with ten times the load that a server can carry, as many tasks were taken
/// with this bound as with four times as many.
const TASKS_MAX: usize = 1_024;
/// Fewer say little of what one costs, beside what a transaction costs by itself.
const TELLING_EVENTS_MIN: u64 = 64;

/// What a task costs, as far as the last transactions tell.
#[derive(Debug, Default)]
pub(super) struct Pace {
    nanos: u64,
}

impl Pace {
    /// A transaction in which so much happened took so long.
    pub(super) fn note(&mut self, events: u64, took: Duration) {
        if events < TELLING_EVENTS_MIN {
            return;
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / events;
        // One that was held up counts for an eighth.
        self.nanos = match self.nanos {
            0 => nanos,
            before => before - before / 8 + nanos / 8,
        };
    }

    /// How many tasks take no longer than they should.
    pub(super) fn tasks(&self) -> usize {
        let fit = WITHIN.as_nanos() as u64 / self.nanos.max(1);
        usize::try_from(fit).unwrap_or(TASKS_MAX).clamp(TASKS_MIN, TASKS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn the_slower_tasks_are_the_fewer_there_are_in_a_transaction() {
        let mut pace = Pace::default();
        assert_eq!(pace.tasks(), TASKS_MAX, "nothing is known yet");
        pace.note(500, MILLISECOND);
        assert_eq!(pace.tasks(), TASKS_MAX);
        for _ in 0..100 {
            pace.note(100, MILLISECOND);
        }
        assert!((390..=450).contains(&pace.tasks()), "{pace:?}");
        for _ in 0..100 {
            pace.note(100, MILLISECOND * 100);
        }
        assert_eq!(pace.tasks(), TASKS_MIN);
    }

    #[test]
    fn one_that_was_held_up_and_a_few_tasks_change_little() {
        let mut pace = Pace::default();
        pace.note(1_000, MILLISECOND * 10);
        let before = pace.tasks();
        pace.note(10, MILLISECOND * 100);
        assert_eq!(pace.tasks(), before);
        pace.note(1_000, MILLISECOND * 20);
        assert!(pace.tasks() > before * 4 / 5, "{pace:?}");
    }
}
