//! The pending tasks of one lane and priority: the beginning of the index, in memory.

use std::collections::VecDeque;

use tasklane_core::{Place, Timestamp};

/// Heads that all lanes keep together, about, if each is of one priority: 32 MB.
const HEADS_MAX: usize = 1 << 20;
/// Heads that one keeps at most, and where there are many.
const KEPT_MAX: usize = 2_048;
const KEPT_MIN: usize = 64;
/// Rows fetched at most when a line runs dry.
const REFILL_MAX: usize = 512;

/// How much of the index each of many lines keeps in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Heads kept at most; what comes later is left to the index.
    kept: usize,
    /// Rows fetched when a line runs dry.
    pub(crate) refill: usize,
}

impl Room {
    pub(crate) fn among(lanes: usize) -> Self {
        let kept = (HEADS_MAX / lanes.max(1)).clamp(KEPT_MIN, KEPT_MAX);
        Self { kept, refill: REFILL_MAX.min(kept / 2) }
    }
}

/// A pending task, as far as finding it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) place: Place,
    pub(crate) key: i64,
    /// Nothing has happened to it: it has no row in `standing`.
    pub(crate) fresh: bool,
}

/// A line's beginning, in order of place.
#[derive(Debug)]
pub(crate) struct Line {
    heads: VecDeque<Head>,
    /// The index has nothing behind the last head.
    complete: bool,
    /// Taken by the claim that is running; their rows are still in the index.
    taken: Vec<Head>,
    /// Not all up to the last one taken is taken: it cannot be removed as one range.
    holed: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self { heads: VecDeque::new(), complete: true, taken: Vec::new(), holed: false }
    }
}

impl Line {
    pub(crate) fn front(&self) -> Option<Place> {
        self.heads.front().map(|head| head.place)
    }

    /// How many of those in memory became ready before an instant.
    pub(crate) fn known_before(&self, at: Timestamp) -> usize {
        self.heads.partition_point(|head| head.place.ready_at < at)
    }

    /// There may be more in the index, but none is known.
    pub(crate) fn is_starved(&self) -> bool {
        self.heads.is_empty() && !self.complete
    }

    /// Something is known to be in the index.
    pub(crate) fn mark_unknown(&mut self) {
        self.heads.clear();
        self.complete = false;
    }

    pub(crate) fn enter(&mut self, head: Head, room: Room) {
        // With a clock that stepped back, a task can come in before one that was just taken.
        self.holed |= self.refill_after().is_some_and(|taken| head.place < taken);
        match self.heads.back() {
            Some(last) if head.place > last.place => {
                if !self.complete {
                    return;
                }
                self.heads.push_back(head);
            }
            None if !self.complete => return,
            _ => {
                let at = self.heads.partition_point(|known| known.place < head.place);
                self.heads.insert(at, head);
            }
        }
        if self.heads.len() > room.kept {
            self.heads.truncate(room.kept);
            self.complete = false;
        }
    }

    pub(crate) fn leave(&mut self, place: Place) {
        let at = self.heads.partition_point(|known| known.place < place);
        if self.heads.get(at).is_some_and(|known| known.place == place) {
            self.heads.remove(at);
        }
    }

    /// Takes the front for the claim that is running.
    pub(crate) fn take(&mut self) -> Option<Head> {
        let head = self.heads.pop_front()?;
        self.taken.push(head);
        Some(head)
    }

    /// Puts back what the claim could not use, after it has ended.
    pub(crate) fn put_back(&mut self, head: Head) {
        self.taken.retain(|taken| taken.place != head.place);
        self.holed = true;
        let at = self.heads.partition_point(|known| known.place < head.place);
        self.heads.insert(at, head);
    }

    /// Where filling must start: behind what the running claim took.
    pub(crate) fn refill_after(&self) -> Option<Place> {
        self.taken.iter().map(|taken| taken.place).max()
    }

    pub(crate) fn refill(&mut self, heads: Vec<Head>, complete: bool) {
        self.complete = complete;
        self.heads = heads.into();
    }

    /// Ends the claim: what it took, and whether all up to the last may go as one range.
    pub(crate) fn end_claim(&mut self) -> (Vec<Head>, bool) {
        let whole = !std::mem::take(&mut self.holed);
        (std::mem::take(&mut self.taken), whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::Sequence;

    fn head(at: i64) -> Head {
        let place = Place { ready_at: Timestamp::from_micros(at), sequence: Sequence(at as u64) };
        Head { place, key: at, fresh: true }
    }

    fn enter(line: &mut Line, at: i64) {
        line.enter(head(at), Room::among(1));
    }

    fn keys(line: &mut Line) -> Vec<i64> {
        std::iter::from_fn(|| line.take()).map(|head| head.key).collect()
    }

    #[test]
    fn heads_come_out_by_place_whatever_the_order_they_came_in() {
        let mut line = Line::default();
        for at in [5, 1, 3, 2, 4] {
            enter(&mut line, at);
        }
        line.leave(head(3).place);
        assert_eq!(keys(&mut line), [1, 2, 4, 5]);
        assert!(!line.is_starved());
    }

    #[test]
    fn a_long_line_keeps_its_beginning_and_asks_for_the_rest() {
        let mut line = Line::default();
        for at in 0..3_000 {
            enter(&mut line, at);
        }
        // Older than all that is known: must not be lost behind what is not.
        enter(&mut line, -1);
        assert_eq!(keys(&mut line).len(), KEPT_MAX);
        assert!(line.is_starved());
        line.refill((3_000..3_100).map(head).collect(), true);
        assert_eq!(line.front(), Some(head(3_000).place));
    }

    #[test]
    fn one_of_many_lines_keeps_less() {
        let mut line = Line::default();
        (0..3_000).for_each(|at| enter(&mut line, at));
        // There are many now: what was kept is given up with the next that comes in.
        line.enter(head(-1), Room::among(10_000));
        assert_eq!(keys(&mut line).len(), HEADS_MAX / 10_000);
        assert!(line.is_starved());
        assert_eq!(Room::among(100_000), Room { kept: KEPT_MIN, refill: KEPT_MIN / 2 });
        assert_eq!(Room::among(0), Room { kept: KEPT_MAX, refill: REFILL_MAX });
    }

    #[test]
    fn what_comes_in_before_what_was_taken_forbids_a_range() {
        let mut line = Line::default();
        enter(&mut line, 5);
        line.take();
        enter(&mut line, 3);
        assert_eq!(line.refill_after(), Some(head(5).place));
        assert_eq!(line.end_claim(), (vec![head(5)], false));
        assert_eq!(line.front(), Some(head(3).place));
    }

    #[test]
    fn what_is_put_back_keeps_its_place_and_forbids_a_range() {
        let mut line = Line::default();
        (1..=3).for_each(|at| enter(&mut line, at));
        let first = line.take().unwrap();
        line.take();
        line.put_back(first);
        assert_eq!(line.end_claim(), (vec![head(2)], false));
        assert_eq!(line.front(), Some(head(1).place));
    }
}
