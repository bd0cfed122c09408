//! The last values of something, for a small chart.

use std::collections::VecDeque;

/// As many as the widest terminal shows.
const KEPT: usize = 240;

#[derive(Debug, Clone, Default)]
pub(crate) struct Track {
    values: VecDeque<f64>,
}

impl Track {
    pub(crate) fn push(&mut self, value: f64) {
        if self.values.len() == KEPT {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    pub(crate) fn last(&self) -> Option<f64> {
        self.values.back().copied()
    }

    /// The newest, at most `width`, in thousandths so that small ones show too.
    pub(crate) fn thousandths(&self, width: usize) -> Vec<u64> {
        let skipped = self.values.len().saturating_sub(width);
        self.values.iter().skip(skipped).map(|value| (value * 1e3) as u64).collect()
    }
}
