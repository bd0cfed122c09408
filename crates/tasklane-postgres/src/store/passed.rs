//! Rows that are gone stay in the way of who reads a table from its beginning, for as long as anybody's
//! snapshot is older than their end. So a server remembers up to which number nothing is left.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A transaction that takes longer than this is found by a look at all rows.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Which rows of a table are gone, by their numbers: nothing is expected before the floor.
#[derive(Debug, Default)]
pub(crate) struct Passed(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    floor: i64,
    /// The last row that was gone, and when that was seen.
    runs: VecDeque<(Instant, i64)>,
    /// When all rows were looked at.
    looked: Option<Instant>,
}

impl Passed {
    /// The rows after this one are to be looked at.
    pub(crate) fn floor(&self) -> i64 {
        self.with(|past| past.floor)
    }

    /// The same, or all of them when that is due again.
    pub(crate) fn floor_or_all(&self) -> i64 {
        self.with(|past| {
            if past.looked.is_some_and(|looked| looked.elapsed() < SETTLED_AFTER) {
                return past.floor;
            }
            past.looked = Some(Instant::now());
            0
        })
    }

    /// Rows up to this one are gone just now.
    pub(crate) fn note(&self, last: i64) {
        self.with(|past| {
            past.runs.push_back((Instant::now(), last));
            while let Some((at, last)) = past.runs.front().copied() {
                if at.elapsed() < SETTLED_AFTER {
                    break;
                }
                past.floor = past.floor.max(last);
                past.runs.pop_front();
            }
        });
    }

    /// Numbers may be given again.
    pub(crate) fn forget(&self) {
        self.with(|past| *past = Past::default());
    }

    fn with<T>(&self, read: impl FnOnce(&mut Past) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_from_where_it_was_settled_and_now_and_then_from_its_beginning() {
        let passed = Passed::default();
        assert_eq!(passed.floor_or_all(), 0, "all of it at first");
        let long_ago = Instant::now().checked_sub(SETTLED_AFTER).unwrap_or_else(Instant::now);
        passed.with(|past| past.runs.push_back((long_ago, 7)));
        passed.note(9);
        assert_eq!((passed.floor(), passed.floor_or_all()), (7, 7), "9 may have company yet");
        passed.with(|past| past.looked = Some(long_ago));
        assert_eq!((passed.floor_or_all(), passed.floor_or_all()), (0, 7));
        passed.forget();
        assert_eq!((passed.floor(), passed.floor_or_all()), (0, 0), "numbers are given again");
    }
}
