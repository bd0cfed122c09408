//! Bodies on their way in: what they hold in memory together is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What all bodies that are being read hold.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    bytes: AtomicUsize,
}

impl Reading {
    /// What they hold now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The share of a body, given back when it is dropped; `max` is what all may hold.
    pub(crate) fn begin(&self, max: usize) -> Share<'_> {
        Share { reading: self, bytes: 0, max }
    }
}

/// What one body holds.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    reading: &'a Reading,
    bytes: usize,
    max: usize,
}

impl Share<'_> {
    /// Takes more; says whether there was room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let before = self.reading.bytes.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= self.max
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.reading.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_gives_back_another_may_take() {
        let reading = Reading::default();
        let (mut one, mut other) = (reading.begin(100), reading.begin(100));
        assert!(one.grow(60) && other.grow(40));
        assert!(!other.grow(1), "and that which was too much is given back as well");
        drop(other);
        assert!(one.grow(40));
        drop(one);
        assert!(reading.begin(100).grow(100));
    }
}
