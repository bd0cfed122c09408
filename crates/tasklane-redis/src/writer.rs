//! Reads, lets the session decide, writes; again if something else was written in between.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tasklane_core::Random;
use tasklane_core::lifecycle::Rules;
use tasklane_store::{Figures, Position, StoreError, Tally};

use crate::catalog::Catalog;
use crate::epoch;
use crate::fault::Fault;
use crate::inbox::{Call, Inbox};
use crate::link::{Committed, Link, Way};
use crate::read::Read;
use crate::session::{Decided, Memory, Outcome, Session};
use crate::signal::Signals;
use crate::snapshot::{Loaded, Meta, Snapshot};
use crate::system::SystemRandom;

/// Attempts after which a server asks the others to hold back.
const ATTEMPTS_BEFORE_TURN: u32 = 3;
/// Attempts after which a group of calls is given up; nothing was written then.
const ATTEMPTS_MAX: u32 = 200;
/// How long to wait, at most, before the first attempts are repeated.
const PAUSE_MICROS_MAX: u64 = 2_000;

/// What the store and its writer share.
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) inbox: Inbox,
    pub(crate) rules: Rules,
    catalog: Mutex<Arc<Catalog>>,
    pub(crate) signals: Signals,
    trouble: Mutex<Option<String>>,
    commit_micros: Tally,
    commit_events: Tally,
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

    /// Why the last write failed, if it did, or why none should be made.
    pub(crate) fn trouble(&self) -> Option<String> {
        let noted = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        noted.or_else(|| self.link.refusal())
    }

    pub(crate) fn note_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
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

/// Decides and writes, group by group, until the store is closed.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    memory: Memory,
    /// In which epoch it was remembered.
    epoch: u64,
    random: SystemRandom,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, memory: Memory::default(), epoch: 0, random: SystemRandom::default() }
    }

    pub(crate) async fn run(mut self) {
        while let Some(mut group) = self.shared.clone().inbox.take().await {
            let mut outcome = self.carry_out(&mut group).await;
            let refused = outcome.clone();
            let mut admissions = Vec::new();
            if let Err(StoreError::Full(_)) = outcome {
                // What ends tasks goes on, and makes room in time.
                admissions.extend(group.extract_if(.., |call| call.admits()));
                outcome = self.carry_out(&mut group).await;
            }
            let trouble = refused.clone().and(outcome.clone()).err();
            self.shared.note_trouble(trouble.map(|error| error.to_string()));
            group.into_iter().for_each(|call| call.answer(outcome.clone()));
            admissions.into_iter().for_each(|call| call.answer(refused.clone()));
        }
    }

    async fn carry_out(&mut self, group: &mut Vec<Box<dyn Call>>) -> Result<(), StoreError> {
        self.decide_and_write(group).await.map_err(|fault| fault.to_store_error())
    }

    /// All calls of a group in one write. Those that fail by themselves are answered and left out.
    async fn decide_and_write(&mut self, group: &mut Vec<Box<dyn Call>>) -> Result<(), Fault> {
        let started = Instant::now();
        // A first look, at nothing, tells what will be needed.
        let catalog = self.shared.catalog();
        let mut wanted = match self.decide(group, &Snapshot::default(), catalog) {
            Outcome::Missing(wanted) => wanted,
            Outcome::Decided(_) => Vec::new(),
        };
        for attempt in 0..ATTEMPTS_MAX {
            self.give_way(attempt).await?;
            let mut snapshot = Snapshot::default();
            let Some(decided) = self.settle(group, &mut wanted, &mut snapshot).await? else {
                continue;
            };
            let Decided { writes, kind, catalog, memory, claimable, woken, last, events } = decided;
            let _writing = self.shared.signals.writing.lock().await;
            if !writes.is_empty() {
                match self.shared.link.commit(snapshot.meta.version, writes, kind).await? {
                    Committed::Done => {}
                    Committed::Conflict => continue,
                    Committed::Elsewhere => {
                        epoch::begin(&self.shared.link, &mut self.random).await?;
                        continue;
                    }
                }
                let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.shared.commit_micros.add(micros);
                self.shared.commit_events.add(events);
            }
            self.shared.set_catalog(&catalog);
            self.memory = memory;
            self.shared.signals.wrote(last, events, claimable, woken);
            return Ok(());
        }
        let text = "other servers kept writing in between; nothing was written";
        Err(StoreError::Overloaded(text.into()).into())
    }

    /// Reads until everything is there that the decision needs; `None` if the store has changed
    /// meanwhile. What was wanted is kept, so that another attempt reads it in one go.
    async fn settle(
        &mut self,
        group: &mut Vec<Box<dyn Call>>,
        wanted: &mut Vec<Read>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<Decided>, Fault> {
        let mut reads = wanted.clone();
        loop {
            let Some(catalog) = self.shared.load(Way::Writing, reads, snapshot).await? else {
                return Ok(None);
            };
            if snapshot.meta.epoch == 0 {
                // Redis has nothing of the store (any more).
                epoch::begin(&self.shared.link, &mut self.random).await?;
                return Ok(None);
            }
            self.note_epoch(&snapshot.meta);
            match self.decide(group, snapshot, catalog) {
                Outcome::Decided(decided) => return Ok(Some(*decided)),
                Outcome::Missing(missing) => {
                    wanted.extend(missing.iter().filter(|read| read.is_timeless()).cloned());
                    reads = missing;
                }
            }
        }
    }

    /// What was remembered in another epoch is worth nothing.
    fn note_epoch(&mut self, meta: &Meta) {
        if self.epoch != meta.epoch {
            (self.epoch, self.memory) = (meta.epoch, Memory::default());
            self.shared.signals.begin(Position(meta.last.0));
        }
    }

    fn decide(
        &mut self,
        group: &mut Vec<Box<dyn Call>>,
        snapshot: &Snapshot,
        catalog: Arc<Catalog>,
    ) -> Outcome {
        loop {
            let (memory, rules) = (self.memory.clone(), self.shared.rules);
            let floor = snapshot.meta.floor.max(self.shared.link.past.floor());
            let catalog = Arc::clone(&catalog);
            let mut session =
                Session::new(snapshot, catalog, memory, &rules, floor, &mut self.random);
            let mut failed = None;
            for (position, call) in group.iter_mut().enumerate() {
                if let Err(fault) = call.run(&mut session)
                    && !session.is_missing()
                {
                    failed = Some((position, fault));
                    break;
                }
            }
            match failed {
                None => return session.finish(),
                Some((position, fault)) => {
                    group.remove(position).answer(Err(fault.to_store_error()));
                }
            }
        }
    }

    /// Waits a little before another attempt; after several asks for a turn.
    async fn give_way(&mut self, attempt: u32) -> Result<(), Fault> {
        if attempt == 0 {
            return Ok(());
        }
        if attempt.is_multiple_of(ATTEMPTS_BEFORE_TURN) {
            self.shared.link.take_turn().await?;
            return Ok(());
        }
        let micros = self.random.next_u64() % PAUSE_MICROS_MAX;
        tokio::time::sleep(Duration::from_micros(micros)).await;
        Ok(())
    }
}
