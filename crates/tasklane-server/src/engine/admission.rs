//! Submissions under way. Beyond a bound more are refused before their bodies are read, so that what
//! is under way ends soon and the calls of workers come in between (S20).

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{SUBMITTING_BYTES_MAX, SUBMITTING_CALLS_MIN};

/// What a call costs besides its bytes, in bytes: single tasks are most of their price.
const CALL_BYTES: usize = 1_024;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl Admission {
    /// Lets a call in whose body has so many bytes; `None` where there is too much under way.
    pub(crate) fn enter(&self, bytes: usize) -> Option<Entered<'_>> {
        let bytes = bytes.saturating_add(CALL_BYTES);
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let entered = Entered { admission: self, bytes };
        let full = before >= SUBMITTING_BYTES_MAX && calls >= SUBMITTING_CALLS_MIN;
        (!full).then_some(entered)
    }
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    admission: &'a Admission,
    bytes: usize,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.admission.calls.fetch_sub(1, Ordering::Relaxed);
        self.admission.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_large_ones_and_many_small_ones_are_let_in() {
        let admission = Admission::default();
        let large: Vec<_> = (0..20).map(|_| admission.enter(SUBMITTING_BYTES_MAX)).collect();
        let taken = large.iter().filter(|entered| entered.is_some()).count();
        assert_eq!(taken, SUBMITTING_CALLS_MIN);
        drop(large);
        let small: Vec<_> = (0..100_000).map(|_| admission.enter(1_024)).collect();
        let taken = small.iter().filter(|entered| entered.is_some()).count();
        assert_eq!(taken, SUBMITTING_BYTES_MAX / (2 * CALL_BYTES));
        drop(small);
        assert!(admission.enter(usize::MAX - CALL_BYTES).is_some(), "all is given back");
    }
}
