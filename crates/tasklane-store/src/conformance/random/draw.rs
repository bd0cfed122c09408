//! Choices.

use std::time::Duration;

use tasklane_core::{Random, SeededRandom};

/// A source of choices that follows from a seed.
pub(super) struct Draw(SeededRandom);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub(super) fn in_hundred(&mut self, chances: u64) -> bool {
        self.below(100) < chances
    }

    pub(super) fn one<T: Clone>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len() as u64) as usize).cloned()
    }

    /// One of a list that is never empty.
    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(super) fn maybe<T>(
        &mut self,
        chances_in_hundred: u64,
        value: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.in_hundred(chances_in_hundred).then(|| value(self))
    }

    /// Up to this many seconds, to the millisecond.
    pub(super) fn seconds(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most * 1_000 + 1))
    }

    pub(super) fn source(&mut self) -> &mut impl Random {
        &mut self.0
    }
}
