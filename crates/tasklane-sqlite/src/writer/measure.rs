//! What the writer measures of itself: a few additions per transaction.

use std::time::Instant;

use tasklane_store::{Figures, Tally};

/// Counted while the writer runs.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    commit_micros: Tally,
    commit_events: Tally,
    stall_micros: Tally,
}

impl Measure {
    /// A transaction that was begun then is as durable as its answers say.
    pub(super) fn committed(&self, begun: Instant, events: u64) {
        self.commit_micros.add(micros(begun));
        self.commit_events.add(events);
    }

    /// The writer has copied the log since then.
    pub(super) fn stalled(&self, since: Instant) {
        self.stall_micros.add(micros(since));
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            commit_micros: self.commit_micros.spread(),
            commit_events: self.commit_events.spread(),
            stall_micros: self.stall_micros.spread(),
        }
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
