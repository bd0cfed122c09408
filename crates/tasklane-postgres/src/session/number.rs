//! Numbers of events. They rise along each task: those of a change are drawn when what it changes is
//! locked, so a lock makes numbers that were drawn before it worthless.

use tasklane_core::Sequence;

use super::Session;
use crate::fault::Fault;

/// Numbers from here on stand for ones that are still to be drawn.
const PROVISIONAL: u64 = 1 << 62;
/// How many numbers are drawn at a time: the increment of their sequence.
const DRAWN_AT_ONCE: u64 = 1_000;
/// Draws as many.
const DRAW: &str = "SELECT nextval('event')";

#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Given provisionally.
    given: u64,
    /// Which of those given have drawn numbers from here on: place and number.
    drawn: Vec<(u64, u64)>,
    /// From this place on numbers have to be drawn later than now.
    locked: Option<u64>,
}

impl Numbers {
    pub(super) const fn given(&self) -> u64 {
        self.given
    }

    /// The next one, provisionally.
    pub(super) const fn next(&mut self) -> Sequence {
        self.given += 1;
        Sequence(PROVISIONAL + self.given - 1)
    }

    /// The last that was given.
    pub(super) const fn last(&self) -> Sequence {
        Sequence(PROVISIONAL + self.given - 1)
    }

    /// Something was locked: what happens to it has to be numbered later than now.
    pub(super) fn lock(&mut self) {
        self.locked.get_or_insert(self.given);
    }

    /// Takes numbers that were drawn just now.
    pub(super) fn draw(&mut self, first: i64) {
        let from = self.locked.take().or_else(|| self.missing()).unwrap_or(self.given);
        self.drawn.push((from, first.unsigned_abs()));
    }

    /// The first place for which no number is drawn.
    fn missing(&self) -> Option<u64> {
        let from = match (self.locked, self.drawn.last()) {
            (Some(locked), _) => locked,
            (None, Some((from, _))) => from + DRAWN_AT_ONCE,
            (None, None) => 0,
        };
        (from < self.given).then_some(from)
    }

    /// The number that a provisional one stands for.
    pub(super) fn number(&self, sequence: Sequence) -> Sequence {
        let Some(at) = sequence.0.checked_sub(PROVISIONAL) else { return sequence };
        let drawn = self.drawn.iter().rev().find(|(from, _)| *from <= at);
        drawn.map_or(sequence, |(from, number)| Sequence(number + (at - from)))
    }
}

impl Session<'_> {
    /// Draws the numbers that are missing.
    pub(crate) async fn draw(&mut self) -> Result<(), Fault> {
        while self.numbers.missing().is_some() {
            let drawn = self.transaction.one(DRAW, &[]).await?;
            self.numbers.draw(drawn.get(0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(numbers: &Numbers, given: Sequence) -> u64 {
        numbers.number(given).0
    }

    #[test]
    fn a_number_is_drawn_after_the_lock_of_what_it_is_for() {
        let mut numbers = Numbers::default();
        numbers.draw(1);
        let free = numbers.next();
        numbers.lock();
        let locked = numbers.next();
        assert_eq!(numbers.missing(), Some(1));
        numbers.draw(5_001);
        assert_eq!(numbers.missing(), None);
        assert_eq!((real(&numbers, free), real(&numbers, locked)), (1, 5_001));
    }

    #[test]
    fn numbers_go_on_where_a_thousand_do_not_do() {
        let mut numbers = Numbers::default();
        numbers.draw(1);
        let given: Vec<_> = (0..2_500).map(|_| numbers.next()).collect();
        while numbers.missing().is_some() {
            numbers.draw(7_001 + 1_000 * numbers.drawn.len() as i64);
        }
        assert_eq!(numbers.drawn, [(0, 1), (1_000, 8_001), (2_000, 9_001)]);
        let real: Vec<_> = given.iter().map(|given| real(&numbers, *given)).collect();
        assert!(real.is_sorted() && real.ends_with(&[9_500]));
        assert_eq!(numbers.number(Sequence(7)), Sequence(7), "what is drawn stays");
    }
}
