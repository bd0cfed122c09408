//! What the store and its writer share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_store::{Figures, Tally};

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::inbox::Inbox;
use crate::link::{Link, Way};
use crate::read::Read;
use crate::signal::Signals;
use crate::snapshot::{Loaded, Snapshot};

/// What the store and its writer share.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) inbox: Inbox,
    pub(crate) rules: Rules,
    catalog: Mutex<Arc<Catalog>>,
    pub(crate) signals: Signals,
    trouble: Mutex<Option<String>>,
    damage: Mutex<Damage>,
    commit_micros: Tally,
    commit_events: Tally,
}

/// Writes that stopped half way: later ones succeed and prove nothing.
#[derive(Debug, Default)]
struct Damage {
    /// How many, as far as is known.
    count: u64,
    /// What is said of the last one.
    text: Option<String>,
}

impl Shared {
    pub(crate) fn new(link: Link, rules: Rules) -> Self {
        Self {
            link,
            inbox: Inbox::default(),
            rules,
            catalog: Mutex::default(),
            signals: Signals::default(),
            trouble: Mutex::default(),
            damage: Mutex::default(),
            commit_micros: Tally::default(),
            commit_events: Tally::default(),
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn catalog_of(&self, epoch: u64) -> Arc<Catalog> {
        let known = self.catalog();
        if known.epoch() == epoch { known } else { Arc::new(Catalog::new(epoch)) }
    }

    /// Remembers lanes and queues; of two, those that are more recent.
    pub(crate) fn set_catalog(&self, catalog: &Arc<Catalog>) {
        let mut known = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |catalog: &Catalog| (catalog.queues_version(), catalog.lane_count());
        if catalog.epoch() != known.epoch() || age(catalog) >= age(&known) {
            *known = Arc::clone(catalog);
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            commit_micros: self.commit_micros.spread(),
            commit_events: self.commit_events.spread(),
            ..Figures::default()
        }
    }

    /// Notes how long a write took, and of how many events.
    pub(crate) fn measured(&self, took: Duration, events: u64) {
        self.commit_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.commit_events.add(events);
    }

    /// Why the last write failed, if it did, or why none should be made.
    pub(crate) fn trouble(&self) -> Option<String> {
        let damage = self.damage().text.clone();
        let noted = || self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        damage.or_else(noted).or_else(|| self.link.refusal())
    }

    pub(crate) fn note_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// A write stopped half way, or what is there contradicts itself. That stays true.
    pub(crate) fn note_damage(&self, text: &str) {
        let mut damage = self.damage();
        damage.count += 1;
        damage.text = Some(text.to_owned());
    }

    /// How often that was so.
    pub(crate) fn damages(&self) -> u64 {
        self.damage().count
    }

    /// A look at everything has found nothing wrong since it was so for the last time.
    pub(crate) fn disprove(&self, count: u64) {
        let mut damage = self.damage();
        if damage.count == count {
            damage.text = None;
        }
    }

    fn damage(&self) -> MutexGuard<'_, Damage> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, with lanes and queues as of that moment.
    pub(crate) async fn load(
        &self,
        way: Way,
        reads: Vec<Read>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<Arc<Catalog>>, Fault> {
        if let Loaded::Changed = self.link.load(way, reads, snapshot).await? {
            return Ok(None);
        }
        let mut catalog = self.catalog_of(snapshot.meta.epoch);
        let wanted = catalog.wants(&snapshot.meta);
        if !wanted.is_empty() {
            if let Loaded::Changed = self.link.load(way, wanted, snapshot).await? {
                return Ok(None);
            }
            let meta = snapshot.meta;
            Arc::make_mut(&mut catalog).update(snapshot, &meta)?;
            self.set_catalog(&catalog);
        }
        Ok(Some(catalog))
    }

    /// Reads for somebody who only looks. Lanes and queues may be from a moment later.
    pub(crate) async fn look(&self, reads: Vec<Read>) -> Result<(Snapshot, Arc<Catalog>), Fault> {
        loop {
            let mut snapshot = Snapshot::default();
            self.link.load(Way::Reading, reads.clone(), &mut snapshot).await?;
            let mut catalog = self.catalog_of(snapshot.meta.epoch);
            let wanted = catalog.wants(&snapshot.meta);
            if wanted.is_empty() {
                return Ok((snapshot, catalog));
            }
            let mut later = Snapshot::default();
            self.link.load(Way::Reading, wanted, &mut later).await?;
            if later.meta.epoch == snapshot.meta.epoch {
                Arc::make_mut(&mut catalog).update(&later, &snapshot.meta)?;
                self.set_catalog(&catalog);
                return Ok((snapshot, catalog));
            }
        }
    }
}
