//! Where tasks became claimable lately, for those who wait for some of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::Woken;

/// Writes that are remembered.
const WRITES_MAX: usize = 256;

#[derive(Debug)]
struct Write {
    /// The hint after it.
    claimable: u64,
    woken: Woken,
}

#[derive(Debug, Default)]
struct State {
    writes: VecDeque<Write>,
    /// What came after this hint is known.
    from: u64,
}

/// The last writes that made tasks claimable.
#[derive(Debug, Default)]
pub(crate) struct Hints(Mutex<State>);

impl Hints {
    /// Notes a write, before its hint is given.
    pub(super) fn note(&self, claimable: u64, woken: Woken) {
        if woken.is_nowhere() {
            return;
        }
        let mut state = self.lock();
        if let Some(last) = state.writes.back_mut()
            && last.woken == woken
        {
            last.claimable = claimable;
            return;
        }
        state.writes.push_back(Write { claimable, woken });
        if state.writes.len() > WRITES_MAX
            && let Some(oldest) = state.writes.pop_front()
        {
            state.from = oldest.claimable;
        }
    }

    /// The lanes since a hint, by number; `None` when it could be anywhere.
    pub(crate) fn since(&self, seen: u64) -> Option<BTreeSet<u32>> {
        let state = self.lock();
        if seen < state.from {
            return None;
        }
        let mut found = BTreeSet::new();
        for write in state.writes.iter().rev().take_while(|write| write.claimable > seen) {
            match &write.woken {
                Woken::In(lanes) => found.extend(lanes),
                Woken::Anywhere => return None,
            }
        }
        Some(found)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(numbers: &[u32]) -> Woken {
        Woken::In(numbers.to_vec())
    }

    #[test]
    fn what_came_since_is_told_as_long_as_it_is_known() {
        let hints = Hints::default();
        assert_eq!(hints.since(0), Some(BTreeSet::new()));
        for (claimable, woken) in [(2, lanes(&[1])), (4, lanes(&[1])), (5, lanes(&[2, 3]))] {
            hints.note(claimable, woken);
        }
        assert_eq!(hints.since(0), Some([1, 2, 3].into()));
        assert_eq!(hints.since(4), Some([2, 3].into()));
        assert_eq!(hints.since(5), Some(BTreeSet::new()));
        hints.note(9, Woken::Anywhere);
        assert_eq!(hints.since(5), None);
        assert_eq!(hints.since(9), Some(BTreeSet::new()));
        for number in 0..=WRITES_MAX as u64 {
            hints.note(10 + number, lanes(&[number as u32]));
        }
        assert_eq!(hints.since(9), None, "that was too long ago");
        assert!(hints.since(11).is_some());
    }
}
