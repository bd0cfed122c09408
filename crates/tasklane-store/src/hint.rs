//! Where tasks became claimable lately, for those who wait for some of them. Stores remember it
//! beside their hint; it is never written.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes that are remembered.
const WRITES_MAX: usize = 256;
/// Lanes of one write that are told apart; with more it could be anywhere.
const LANES_MAX: usize = 64;

/// Where tasks became claimable in a write: lanes by the store's numbers, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Woken<N> {
    /// In order, each once.
    In(Vec<N>),
    /// It could be any.
    Anywhere,
}

impl<N> Default for Woken<N> {
    fn default() -> Self {
        Self::In(Vec::new())
    }
}

impl<N: Copy + Ord> Woken<N> {
    /// Adds a lane.
    pub fn add(&mut self, lane: N) {
        let Self::In(lanes) = self else { return };
        // Neighbours repeat.
        if lanes.last() == Some(&lane) {
            return;
        }
        let Err(at) = lanes.binary_search(&lane) else { return };
        if lanes.len() >= LANES_MAX {
            *self = Self::Anywhere;
        } else {
            lanes.insert(at, lane);
        }
    }

    fn is_nowhere(&self) -> bool {
        matches!(self, Self::In(lanes) if lanes.is_empty())
    }
}

#[derive(Debug)]
struct Write<N> {
    /// The hint after it.
    claimable: u64,
    woken: Woken<N>,
}

#[derive(Debug)]
struct State<N> {
    writes: VecDeque<Write<N>>,
    /// What came after this hint is known.
    from: u64,
}

/// The last writes that made tasks claimable.
#[derive(Debug)]
pub struct Hints<N>(Mutex<State<N>>);

impl<N> Default for Hints<N> {
    fn default() -> Self {
        Self(Mutex::new(State { writes: VecDeque::new(), from: 0 }))
    }
}

impl<N: Copy + Ord> Hints<N> {
    /// Notes a write, before its hint is given.
    pub fn note(&self, claimable: u64, woken: Woken<N>) {
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
    pub fn since(&self, seen: u64) -> Option<BTreeSet<N>> {
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

    fn lock(&self) -> MutexGuard<'_, State<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(numbers: &[u32]) -> Woken<u32> {
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

    #[test]
    fn lanes_are_told_apart_up_to_a_bound() {
        let mut woken = Woken::default();
        assert!(woken.is_nowhere());
        [3, 3, 1, 2, 1].into_iter().for_each(|lane| woken.add(lane));
        assert_eq!(woken, Woken::In(vec![1, 2, 3]));
        (0..LANES_MAX as u32).for_each(|lane| woken.add(lane));
        assert_ne!(woken, Woken::Anywhere);
        woken.add(LANES_MAX as u32);
        assert_eq!(woken, Woken::Anywhere);
    }
}
