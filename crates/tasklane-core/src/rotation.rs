//! Which queue comes next when a worker takes several (S8): smooth weighted round robin.

use std::collections::BTreeMap;

use crate::queue::Weight;

/// Remembers how much each queue is owed. `K` is a store's own key for a queue.
#[derive(Debug, Clone, Default)]
pub struct Rotation<K> {
    credit: BTreeMap<K, i64>,
}

impl<K: Ord + Copy> Rotation<K> {
    /// The queue to serve next among `candidates`, those with a claimable task right now. Each
    /// gets its share over time, spread evenly; the smallest key wins a tie.
    pub fn pick(&mut self, candidates: &[(K, Weight)]) -> Option<K> {
        if let [(only, _)] = candidates {
            return Some(*only);
        }
        let mut total = 0;
        let mut best: Option<(i64, K)> = None;
        for (key, weight) in candidates {
            let weight = i64::from(weight.get());
            let credit = self.credit.entry(*key).or_default();
            *credit += weight;
            total += weight;
            if best.is_none_or(|(most, first)| *credit > most || (*credit == most && *key < first))
            {
                best = Some((*credit, *key));
            }
        }
        let (_, chosen) = best?;
        if let Some(credit) = self.credit.get_mut(&chosen) {
            *credit -= total;
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(weights: &[(char, u32)], count: usize) -> String {
        let mut rotation = Rotation::default();
        let candidates: Vec<_> =
            weights.iter().map(|(key, weight)| (*key, Weight::new(*weight).unwrap())).collect();
        (0..count).map(|_| rotation.pick(&candidates).unwrap()).collect()
    }

    #[test]
    fn equal_queues_take_turns_and_heavier_ones_get_their_share() {
        assert_eq!(picks(&[('a', 1), ('b', 1)], 6), "ababab");
        assert_eq!(picks(&[('a', 3), ('b', 1)], 8), "aabaaaba");
        assert_eq!(picks(&[('a', 1)], 2), "aa");
        assert_eq!(Rotation::<char>::default().pick(&[]), None);
    }
}
