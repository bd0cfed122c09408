//! Figures of the last seconds.

use tasklane_core::Timestamp;

/// The second that an instant is in.
pub(super) fn second(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

/// One figure for each of the last seconds; in any order, for older events may come later.
#[derive(Debug, Clone)]
pub(super) struct Recent<T> {
    slots: Box<[(i64, T)]>,
}

impl<T: Default + Clone> Recent<T> {
    /// The last so many seconds.
    pub(super) fn new(seconds: usize) -> Self {
        Self { slots: vec![(i64::MIN, T::default()); seconds].into() }
    }

    /// The figure of a second; `None` when its place belongs to a later one already.
    pub(super) fn at(&mut self, second: i64) -> Option<&mut T> {
        let length = i64::try_from(self.slots.len()).ok()?;
        let index = usize::try_from(second.rem_euclid(length)).ok()?;
        let slot = self.slots.get_mut(index)?;
        if slot.0 < second {
            *slot = (second, T::default());
        }
        (slot.0 == second).then_some(&mut slot.1)
    }

    /// The figures of the last `seconds` until `now`, this one included.
    pub(super) fn last(&self, seconds: i64, now: i64) -> impl Iterator<Item = &T> {
        let wanted = move |at: i64| at <= now && at > now.saturating_sub(seconds);
        self.slots.iter().filter(move |(at, _)| wanted(*at)).map(|(_, figure)| figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_forgotten_as_others_come() {
        let mut recent = Recent::<u32>::new(60);
        for second in [100, 100, 130, 159] {
            *recent.at(second).unwrap() += 1;
        }
        assert_eq!(recent.last(60, 159).sum::<u32>(), 4);
        assert_eq!(recent.last(60, 160).sum::<u32>(), 2);
        *recent.at(160).unwrap() += 1;
        assert_eq!(recent.at(100), None);
        assert_eq!(recent.last(1, 160).sum::<u32>(), 1);
        assert_eq!(recent.last(60, 150).sum::<u32>(), 1, "what is to come does not count");
    }
}
