//! What a server remembers between transactions, as a whole: of one timeline, or forgotten.

use super::Shared;
use crate::connection::Transaction;
use crate::session::{Looked, Woken, Written};

impl Shared {
    /// To be called before a transaction uses anything that is remembered.
    pub(crate) fn recognize(&self, transaction: &Transaction) {
        self.timeline.enter(transaction.timeline, || {
            tracing::warn!("the database has a new timeline: what was known of it is forgotten");
            self.forget();
        });
    }

    /// What a transaction on a timeline has done, which is committed.
    pub(super) fn note_written(&self, timeline: Option<u32>, mut written: Written) {
        for known in std::mem::take(&mut written.lanes) {
            self.lanes.add(timeline, known);
        }
        let held = std::mem::take(&mut written.held);
        let is_current = self.timeline.remember(timeline, || {
            if let Some(rotation) = written.rotation.clone() {
                self.set_rotation(rotation);
            }
            self.floors.raise(&written.floors, written.floors_lowered);
            written.waiting.iter().for_each(|(queue, count)| self.gauges.add(*queue, *count));
            self.signals.committed(&written);
            self.held.note(held);
        });
        if !is_current {
            // Its lanes have other numbers now.
            self.signals.committed(&Written { woken: Woken::Anywhere, ..written });
        }
    }

    fn forget(&self) {
        self.lanes.forget();
        self.takers.forget();
        self.held.forget();
        self.floors.forget();
        self.gauges.forget();
        self.numbered.forget();
        self.requested.forget();
        self.partitions.forget();
        self.set_looked(Looked::default());
        self.set_rotation(tasklane_core::Rotation::default());
        self.signals.forget();
    }
}
