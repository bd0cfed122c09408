//! The time of Redis between its answers: what it last told, and what has passed here since.
//!
//! It is never ahead of Redis, and behind it by the way of an answer at most. It does not go back
//! because one answer took longer than another.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the time that Redis has told is gone on from, and how long its answer may take to be
/// believed: then it is read again.
pub(crate) const TIME_AGE_MAX: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When an answer came, and the time in it in microseconds.
    answer: Option<(Instant, i64)>,
    /// When it was asked for.
    sent: Option<Instant>,
    /// The last time that was given.
    given: i64,
}

impl Told {
    /// Redis has answered with its time what was asked at `sent`.
    pub(crate) fn note(&self, sent: Instant, micros: i64) {
        let mut state = self.state();
        // What was asked for earlier may be heard of later.
        if sent.elapsed() < TIME_AGE_MAX && state.sent.is_none_or(|last| last <= sent) {
            (state.answer, state.sent) = (Some((Instant::now(), micros)), Some(sent));
        }
    }

    /// What time it is there, in microseconds, if it was told a moment ago.
    pub(crate) fn now(&self) -> Option<i64> {
        let mut state = self.state();
        let (at, micros) = state.answer?;
        let passed = at.elapsed();
        if passed >= TIME_AGE_MAX {
            return None;
        }
        let mut now = micros.saturating_add(passed.as_micros() as i64);
        // Unless the clock itself was set back.
        if state.given.saturating_sub(now) < TIME_AGE_MAX.as_micros() as i64 {
            now = now.max(state.given);
        }
        state.given = now;
        Some(now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    #[test]
    fn time_goes_on_between_answers_and_never_back_by_a_slow_one() {
        let told = Told::default();
        assert_eq!(told.now(), None);
        told.note(Instant::now(), HOUR);
        let first = told.now().unwrap();
        assert!((HOUR..HOUR + 50_000).contains(&first));
        // Read before, but it took its time to come.
        told.note(Instant::now(), HOUR - 20_000);
        assert!(told.now().unwrap() >= first);
        // A clock that was set back.
        told.note(Instant::now(), 7);
        assert!(told.now().unwrap() < HOUR / 2);
    }

    #[test]
    fn an_answer_that_was_asked_for_earlier_says_nothing_new() {
        let told = Told::default();
        let earlier = Instant::now();
        told.note(Instant::now(), HOUR + 10_000);
        told.note(earlier, HOUR);
        assert!(told.now().unwrap() >= HOUR + 10_000);
    }

    #[test]
    fn an_answer_that_took_too_long_is_not_believed() {
        let told = Told::default();
        told.note(Instant::now() - TIME_AGE_MAX, HOUR);
        assert_eq!(told.now(), None);
    }
}
