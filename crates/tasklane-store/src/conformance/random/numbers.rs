//! Numbers of events. They rise, and a store may leave some out: then its answers are compared with the
//! model's as if its numbers were the model's, as long as they come in the same order.

use std::collections::BTreeMap;

/// How a number is shown.
const SHOWN: &str = "Sequence(";

/// The model's number for each of the store's.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    /// Whether two answers, as they are shown, differ in nothing else.
    pub(super) fn alike(&mut self, real: &str, model: &str) -> bool {
        let (mut real, mut model) = (real.split(SHOWN), model.split(SHOWN));
        if real.next() != model.next() {
            return false;
        }
        loop {
            let pair = match (real.next(), model.next()) {
                (None, None) => return true,
                (Some(real), Some(model)) => (real.split_once(')'), model.split_once(')')),
                _ => return false,
            };
            let (Some((real, after)), Some((model, then))) = pair else { return false };
            let (Ok(real), Ok(model)) = (real.parse(), model.parse()) else { return false };
            if after != then || !self.fit(real, model) {
                return false;
            }
        }
    }

    /// Whether a number of the store can be this one of the model.
    fn fit(&mut self, real: u64, model: u64) -> bool {
        if let Some(known) = self.0.get(&real) {
            return *known == model;
        }
        let before = self.0.range(..real).next_back().is_none_or(|(_, before)| *before < model);
        let after = self.0.range(real..).next().is_none_or(|(_, after)| *after > model);
        if before && after {
            self.0.insert(real, model);
        }
        before && after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_gaps_and_nothing_else_may_differ() {
        let mut numbers = Numbers::default();
        assert!(
            numbers.alike("[a Sequence(10) b, Sequence(30)]", "[a Sequence(1) b, Sequence(2)]")
        );
        assert!(numbers.alike("Sequence(30)", "Sequence(2)"), "the same again");
        assert!(!numbers.alike("Sequence(30)", "Sequence(3)"), "the same and another one");
        assert!(!numbers.alike("Sequence(20)", "Sequence(2)"), "two that are one");
        assert!(!numbers.alike("Sequence(40)", "Sequence(0)"), "in another order");
        assert!(!numbers.alike("a Sequence(50)", "b Sequence(5)"), "another text before");
        assert!(!numbers.alike("Sequence(50) a", "Sequence(5) b"), "another text after");
        assert!(!numbers.alike("Sequence(50), Sequence(60)", "Sequence(5)"), "more of them");
    }
}
