//! Which timeline of the database's log this server remembers anything of. A failover begins another
//! one, and what was committed last may be lost by it: numbers of lanes and rows are given again, to
//! others, and what was claimed or settled is not. So what is remembered is of one timeline, and is
//! forgotten as a whole.

use std::sync::{PoisonError, RwLock};

#[derive(Debug, Default)]
pub(crate) struct Timeline(RwLock<Option<u32>>);

impl Timeline {
    /// Whether a transaction is on the one that is known, or does not say.
    pub(crate) fn is(&self, own: Option<u32>) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        own.is_none() || *known == own
    }

    /// Goes over to that of a transaction. If it is another one than before, all is forgotten first.
    pub(crate) fn enter(&self, own: Option<u32>, forget: impl FnOnce()) {
        if self.is(own) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *known != own && known.is_some() {
            forget();
        }
        *known = own;
    }

    /// Lets something be remembered that a transaction has found or done, unless another timeline is
    /// known by now. Says whether.
    pub(crate) fn remember(&self, own: Option<u32>, note: impl FnOnce()) -> bool {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_current = own.is_none() || *known == own;
        if is_current {
            note();
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_of_one_timeline() {
        let timeline = Timeline::default();
        let mut known = vec!["before"];
        timeline.enter(Some(1), || known.clear());
        assert_eq!(known, ["before"], "there was no other one");
        assert!(timeline.remember(Some(1), || known.push("one")));
        timeline.enter(Some(1), || known.clear());
        assert_eq!(known, ["before", "one"]);
        timeline.enter(Some(2), || known.clear());
        assert!(!timeline.remember(Some(1), || known.push("late")));
        assert!(timeline.remember(Some(2), || known.push("two")));
        assert_eq!((known, timeline.is(Some(1))), (vec!["two"], false));
    }
}
