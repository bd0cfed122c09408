//! Where tasks became claimable in a transaction.

/// Lanes that are told apart; with more it could be anywhere.
const LANES_MAX: usize = 64;

/// Lanes by number, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Woken {
    /// In order, each once.
    In(Vec<u32>),
    Anywhere,
}

impl Default for Woken {
    fn default() -> Self {
        Self::In(Vec::new())
    }
}

impl Woken {
    pub(super) fn add(&mut self, lane: u32) {
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

    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Self::In(lanes) if lanes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
