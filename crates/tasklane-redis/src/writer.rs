//! Decides on what is known, writes, and begins again with what is there if somebody else has
//! written meanwhile.
//!
//! While Redis carries out one write, the next group of calls is decided on what will be there
//! after it: program and server work side by side. It is sent when the one before has succeeded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashSet;
use tasklane_core::Random;
use tasklane_store::{Position, StoreError};
use tokio::sync::OwnedMutexGuard;
use tokio::task::{JoinError, JoinHandle};

use crate::catalog::Catalog;
use crate::epoch;
use crate::fault::Fault;
use crate::inbox::Call;
use crate::link::{Committed, Way};
use crate::read::Read;
use crate::session::{Decided, Memory, Outcome, Session};
use crate::shared::Shared;
use crate::signal::News;
use crate::snapshot::Snapshot;
use crate::system::SystemRandom;
use crate::told::TIME_AGE_MAX;

/// Attempts after which a server asks the others to hold back.
const ATTEMPTS_BEFORE_TURN: u32 = 3;
/// Attempts after which a group of calls is given up; nothing was written then.
const ATTEMPTS_MAX: u32 = 200;
/// How long to wait, at most, before the first attempts are repeated.
const PAUSE_MICROS_MAX: u64 = 2_000;

/// Groups in a row between which nobody else may have written, before the next are decided without
/// reading. Where several servers write all the time, what is known is mostly no longer true, and to
/// learn that by a write that is refused costs more than to read first.
const ALONE_MIN: u32 = 2;

/// Calls that are decided together.
type Group = Vec<Box<dyn Call>>;

/// Decides and writes, group by group, until the store is closed.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    memory: Memory,
    /// In which epoch it was remembered.
    epoch: u64,
    random: SystemRandom,
    /// What will be there once the write that is under way has succeeded.
    known: Snapshot,
    catalog: Arc<Catalog>,
    /// How often all that was known has been forgotten.
    forgotten: u64,
    /// Groups in a row between which nobody else has written.
    alone: u32,
    flight: Option<Flight>,
}

/// Calls on their way to Redis.
struct Trip {
    group: Group,
    /// How often this was tried before.
    attempt: u32,
    started: Instant,
    /// What is wrong even if it succeeds.
    trouble: Option<String>,
}

/// A write that is under way.
struct Flight {
    trip: Trip,
    landing: JoinHandle<Result<Committed, Fault>>,
    catalog: Arc<Catalog>,
    /// What was remembered before it was decided.
    before: Memory,
    news: News,
    /// Until what was written has been told.
    writing: OwnedMutexGuard<()>,
}

type Landed = Result<Result<Committed, Fault>, JoinError>;

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            memory: Memory::default(),
            epoch: 0,
            random: SystemRandom::default(),
            known: Snapshot::default(),
            catalog: shared.catalog(),
            forgotten: 0,
            alone: 0,
            flight: None,
            shared,
        }
    }

    pub(crate) async fn run(mut self) {
        while let Some(mut group) = self.next().await {
            let started = Instant::now();
            let (ahead, forgotten) = (self.decide_ahead(&mut group), self.forgotten);
            self.land().await;
            let trip = Trip { group, attempt: 0, started, trouble: None };
            match ahead {
                // Its time must not be past: leases begin with it.
                Some(decided)
                    if forgotten == self.forgotten && started.elapsed() < TIME_AGE_MAX =>
                {
                    self.launch(trip, *decided).await;
                }
                _ => self.carry_out(trip).await,
            }
        }
    }

    /// The next calls to decide together; while a write is under way, only if they are many.
    async fn next(&mut self) -> Option<Group> {
        let shared = Arc::clone(&self.shared);
        while let Some(mut flight) = self.flight.take() {
            tokio::select! {
                biased;
                landed = &mut flight.landing => self.landed(flight, landed).await,
                group = shared.inbox.take_many() => {
                    self.flight = Some(flight);
                    return Some(group);
                }
            }
        }
        shared.inbox.take().await
    }

    /// Decides and sends the write on its way.
    async fn carry_out(&mut self, mut trip: Trip) {
        match self.prepare(&mut trip).await {
            Ok(decided) => self.launch(trip, *decided).await,
            Err(fault) => self.refuse(trip.group, &fault.to_store_error()),
        }
    }

    /// Decides beside a write that is under way, if everything is known that it takes.
    fn decide_ahead(&mut self, group: &mut Group) -> Option<Box<Decided>> {
        let known = self.known.meta.epoch != 0;
        if self.flight.is_none() || !known || self.alone < ALONE_MIN {
            return None;
        }
        self.known.set_time(self.shared.link.time());
        match self.decide(group) {
            // What writes nothing is compared with nothing: it has to be read.
            Ok(Outcome::Decided(decided)) if !decided.writes.is_empty() => Some(decided),
            _ => None,
        }
    }

    /// Decides, and reads whatever that takes.
    async fn prepare(&mut self, trip: &mut Trip) -> Result<Box<Decided>, Fault> {
        let before = self.known.meta;
        if self.alone < ALONE_MIN {
            self.forget();
        }
        let mut wanted = HashSet::new();
        while trip.attempt < ATTEMPTS_MAX {
            self.give_way(trip.attempt).await?;
            if let Some(decided) = self.settle(&mut trip.group, &mut wanted).await? {
                let meta = self.known.meta;
                let same = (before.epoch, before.version) == (meta.epoch, meta.version);
                self.alone = if same { self.alone.saturating_add(1) } else { 0 };
                return Ok(decided);
            }
            self.forget();
            trip.attempt += 1;
        }
        let text = "other servers kept writing in between; nothing was written";
        Err(StoreError::Overloaded(text.into()).into())
    }

    /// Reads until everything is there that the decision needs; `None` if the store has changed
    /// meanwhile. What was wanted is kept, so that another attempt reads it in one go. Calls that
    /// fail by themselves are answered and left out.
    async fn settle(
        &mut self,
        group: &mut Group,
        wanted: &mut HashSet<Read>,
    ) -> Result<Option<Box<Decided>>, Fault> {
        let known = self.known.meta.epoch != 0;
        self.known.set_time(self.shared.link.time().filter(|_| known));
        let mut again = wanted.clone();
        let mut compared = false;
        loop {
            let mut reads = Vec::new();
            match self.decide(group) {
                Ok(Outcome::Decided(decided)) if compared || !decided.writes.is_empty() => {
                    return Ok(Some(decided));
                }
                Err((position, fault)) if compared => {
                    group.remove(position).answer(Err(fault.to_store_error()));
                    continue;
                }
                // What writes nothing, and what failed, may be so because of what is no longer true.
                Ok(Outcome::Decided(_)) | Err(_) => {}
                Ok(Outcome::Missing(missing)) => {
                    wanted.extend(missing.iter().filter(|read| read.is_timeless()).cloned());
                    let fronts: HashSet<_> = missing.iter().filter_map(Read::front).collect();
                    again.retain(|read| read.front().is_none_or(|key| !fronts.contains(key)));
                    drop(fronts);
                    again.extend(missing);
                    reads.extend(again.drain());
                }
            }
            let loaded = self.shared.load(Way::Writing, reads, &mut self.known).await?;
            let Some(catalog) = loaded else { return Ok(None) };
            (self.catalog, compared) = (catalog, true);
            if self.known.meta.epoch == 0 {
                // Redis has nothing of the store (any more).
                epoch::begin(&self.shared.link, &mut self.random).await?;
                return Ok(None);
            }
            self.note_epoch();
        }
    }

    /// What was remembered in another epoch is worth nothing.
    fn note_epoch(&mut self) {
        let meta = &self.known.meta;
        if self.epoch != meta.epoch {
            (self.epoch, self.memory) = (meta.epoch, Memory::default());
            self.shared.signals.begin(Position(meta.last.0));
        }
    }

    /// Lets the calls decide; an error is that of one of them alone.
    fn decide(&mut self, group: &mut Group) -> Result<Outcome, (usize, Fault)> {
        let (memory, rules) = (self.memory.clone(), self.shared.rules);
        let floor = self.known.meta.floor.max(self.shared.link.past.floor());
        let catalog = Arc::clone(&self.catalog);
        let mut session =
            Session::new(&self.known, catalog, memory, &rules, floor, &mut self.random);
        for (position, call) in group.iter_mut().enumerate() {
            if let Err(fault) = call.run(&mut session)
                && !session.is_missing()
            {
                return Err((position, fault));
            }
        }
        Ok(session.finish())
    }

    /// Sends a write on its way, and goes on with what will be there after it.
    async fn launch(&mut self, trip: Trip, decided: Decided) {
        let Decided { writes, left, kind, catalog, memory, news } = decided;
        let (version, epoch) = (self.known.meta.version, self.known.meta.epoch);
        let writing = Arc::clone(&self.shared.signals.writing).lock_owned().await;
        self.catalog = Arc::clone(&catalog);
        let before = std::mem::replace(&mut self.memory, memory);
        if !self.known.advance(&writes, left) {
            self.forget();
        }
        let shared = Arc::clone(&self.shared);
        let landing = tokio::spawn(async move {
            match writes.is_empty() {
                true => Ok(Committed::Done),
                false => shared.link.commit(version, epoch, writes, kind).await,
            }
        });
        self.flight = Some(Flight { trip, landing, catalog, before, news, writing });
    }

    /// Waits for the write that is under way, however often it takes.
    async fn land(&mut self) {
        while let Some(mut flight) = self.flight.take() {
            let landed = (&mut flight.landing).await;
            self.landed(flight, landed).await;
        }
    }

    /// A write has ended: tells those who wait for it, or sends it again.
    async fn landed(&mut self, flight: Flight, landed: Landed) {
        let Flight { mut trip, catalog, before, news, writing, .. } = flight;
        let lost = || StoreError::OutcomeUnknown("a write was not finished".into()).into();
        let landed = landed.unwrap_or_else(|_| Err(lost()));
        if !matches!(landed, Ok(Committed::Done)) {
            self.memory = before;
        }
        match landed {
            Ok(Committed::Done) => {
                self.shared.measured(trip.started.elapsed(), news.events);
                self.shared.set_catalog(&catalog);
                self.shared.signals.wrote(news);
                self.shared.note_trouble(trip.trouble);
                return trip.group.into_iter().for_each(|call| call.answer(Ok(())));
            }
            Ok(Committed::Conflict) => {}
            Ok(Committed::Elsewhere) => {
                if let Err(fault) = epoch::begin(&self.shared.link, &mut self.random).await {
                    return self.refuse(trip.group, &fault.to_store_error());
                }
            }
            Err(fault) => {
                let error = fault.to_store_error();
                let admissions = trip
                    .group
                    .extract_if(.., |call| !matches!(error, StoreError::Full(_)) || call.admits());
                let refused: Group = admissions.collect();
                // Where there is no room, what ends tasks goes on, and makes some in time.
                if refused.is_empty() || trip.group.is_empty() {
                    trip.group.extend(refused);
                    return self.refuse(trip.group, &error);
                }
                self.refuse(refused, &error);
                trip.trouble = Some(error.to_string());
            }
        }
        drop(writing);
        self.forget();
        self.alone = 0;
        trip.attempt += 1;
        self.carry_out(trip).await;
    }

    fn refuse(&mut self, group: Group, error: &StoreError) {
        self.forget();
        self.shared.note_trouble(Some(error.to_string()));
        group.into_iter().for_each(|call| call.answer(Err(error.clone())));
    }

    fn forget(&mut self) {
        (self.known, self.catalog) = (Snapshot::default(), self.shared.catalog());
        self.forgotten += 1;
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
