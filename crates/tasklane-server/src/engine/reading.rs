//! Bodies on their way in: what they hold in memory together is bounded.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What all bodies that are being read hold.
#[derive(Debug)]
pub(crate) struct Reading {
    bytes: AtomicUsize,
    max: usize,
}

impl Reading {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max }
    }

    /// The share of a body, given back when it is dropped.
    pub(crate) fn begin(&self) -> Share<'_> {
        Share { reading: self, bytes: 0 }
    }
}

/// What one body holds.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    reading: &'a Reading,
    bytes: usize,
}

impl Share<'_> {
    /// Takes more; says whether there was room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let before = self.reading.bytes.fetch_add(bytes, Ordering::Relaxed);
        before.saturating_add(bytes) <= self.reading.max
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
        let reading = Reading::new(100);
        let (mut one, mut other) = (reading.begin(), reading.begin());
        assert!(one.grow(60) && other.grow(40));
        assert!(!other.grow(1), "and that which was too much is given back as well");
        drop(other);
        assert!(one.grow(40));
        drop(one);
        assert!(reading.begin().grow(100));
    }
}
