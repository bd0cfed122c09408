//! Decides on what is known, writes, and begins again with what is there if somebody else has
//! written meanwhile.
//!
//! While Redis carries out one write, the next group of calls is decided on what will be there
//! after it, and sent behind it: program and server work side by side. Each write names the one that
//! it was decided on, so where one was not made, those behind it are refused too, and all of them are
//! decided again in their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use tasklane_core::Random;
use tasklane_store::{Position, StoreError};

use crate::catalog::Catalog;
use crate::epoch;
use crate::fault::Fault;
use crate::flight::{Flight, Group, Landed, Trip, land, sent};
use crate::link::{Committed, Way};
use crate::read::Read;
use crate::session::{Decided, Memory, Outcome, Session};
use crate::shared::Shared;
use crate::snapshot::{Meta, Snapshot};
use crate::system::SystemRandom;

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

/// Writes under way at once: one that Redis carries out, and others that wait there for their turn.
const FLIGHTS_MAX: usize = 3;

/// Decides and writes, group by group, until the store is closed.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    memory: Memory,
    /// In which epoch it was remembered.
    epoch: u64,
    random: SystemRandom,
    /// What will be there once the writes that are under way have succeeded.
    known: Snapshot,
    catalog: Arc<Catalog>,
    /// What the last write leads to.
    expected: Meta,
    /// Groups in a row between which nobody else has written.
    alone: u32,
    /// Writes that are under way, each decided on what the one before it leads to.
    flights: VecDeque<Flight>,
    /// Calls that have to be decided again, before any others.
    again: VecDeque<Trip>,
    /// Whether the last writes were not made, or nobody knows: then every group writes something,
    /// until one write is confirmed. What writes nothing would succeed, and say that all is well.
    unconfirmed: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            memory: Memory::default(),
            epoch: 0,
            random: SystemRandom::default(),
            known: Snapshot::default(),
            catalog: shared.catalog(),
            expected: Meta::default(),
            alone: 0,
            flights: VecDeque::new(),
            again: VecDeque::new(),
            unconfirmed: false,
            shared,
        }
    }

    pub(crate) async fn run(mut self) {
        while let Some(trip) = self.next().await {
            self.carry_out(trip).await;
        }
    }

    /// The next calls to decide together; while a write is under way, only if they are many and
    /// nobody else seems to write.
    async fn next(&mut self) -> Option<Trip> {
        let shared = Arc::clone(&self.shared);
        loop {
            let alone = self.alone >= ALONE_MIN && self.again.is_empty();
            let room = alone && self.flights.len() < self.flights_max();
            let Some(first) = self.flights.front_mut() else { break };
            tokio::select! {
                biased;
                landed = land(first) => self.landed(landed).await,
                group = shared.inbox.take_many(), if room => return Some(Trip::new(group)),
            }
        }
        match self.again.pop_front() {
            Some(trip) => Some(trip),
            None => shared.inbox.take().await.map(Trip::new),
        }
    }

    /// Behind a write that waits for replicas or a file, Redis does nothing else on the connection: the
    /// next would be carried out long after it was decided.
    fn flights_max(&self) -> usize {
        if self.shared.link.waits() { 1 } else { FLIGHTS_MAX }
    }

    /// Decides and sends the write on its way.
    async fn carry_out(&mut self, mut trip: Trip) {
        match self.prepare(&mut trip).await {
            Ok(Some(decided)) => self.launch(trip, *decided).await,
            Ok(None) => self.again.push_back(trip),
            Err(fault) => self.refuse(trip.group, &fault.to_store_error()),
        }
    }

    /// Decides, and reads whatever that takes: behind the writes that are under way. `None` if one of
    /// these was not made; then its calls come first.
    async fn prepare(&mut self, trip: &mut Trip) -> Result<Option<Box<Decided>>, Fault> {
        if self.alone < ALONE_MIN {
            self.forget();
        }
        let mut wanted = HashSet::new();
        while trip.attempt < ATTEMPTS_MAX {
            self.give_way(trip.attempt).await?;
            if let Some(decided) = self.settle(&mut trip.group, &mut wanted).await? {
                let same = self.known.meta.is_same_write(&self.expected);
                self.alone = if same { self.alone.saturating_add(1) } else { 0 };
                return Ok(Some(decided));
            }
            if !self.flights.is_empty() {
                self.land().await;
                self.forget();
                self.alone = 0;
                return Ok(None);
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
        let must_write = self.unconfirmed
            || self.shared.link.waits() && group.iter().any(|call| call.promises());
        Ok(session.finish(must_write))
    }

    /// Sends a write on its way, and goes on with what will be there after it.
    async fn launch(&mut self, trip: Trip, decided: Decided) {
        let Decided { writes, left, kind, catalog, memory, news } = decided;
        let (decided_on, mark) = (self.known.meta, left.meta.mark);
        self.catalog = Arc::clone(&catalog);
        let before = std::mem::replace(&mut self.memory, memory);
        self.expected = left.meta;
        if !self.known.advance(&writes, left) {
            self.forget();
        }
        self.shared.signals.launched();
        let mut landing = None;
        if !writes.is_empty() {
            // A write that is under way holds nothing that another has to wait for.
            let sending = self.shared.link.ready().await;
            let shared = Arc::clone(&self.shared);
            landing = Some(
                sent(Box::pin(async move {
                    shared.link.commit(sending?, decided_on, mark, writes, kind).await
                }))
                .await,
            );
        }
        self.flights.push_back(Flight { trip, landing, catalog, before, news });
    }

    /// Waits for the writes that are under way.
    async fn land(&mut self) {
        while let Some(first) = self.flights.front_mut() {
            let landed = land(first).await;
            self.landed(landed).await;
        }
    }

    /// The first write that is under way has ended.
    async fn landed(&mut self, landed: Landed) {
        let Some(flight) = self.flights.pop_front() else { return };
        match landed {
            Ok(Committed::Done) => self.succeeded(flight),
            other => self.failed(flight, other).await,
        }
    }

    /// Tells those who wait for a write.
    fn succeeded(&mut self, flight: Flight) {
        let Flight { trip, landing, catalog, news, .. } = flight;
        self.shared.measured(trip.started.elapsed(), news.events);
        self.shared.set_catalog(&catalog);
        self.shared.signals.wrote(news);
        self.shared.signals.landed();
        self.unconfirmed &= landing.is_none();
        if !self.unconfirmed {
            self.shared.note_trouble(trip.trouble);
        }
        trip.group.into_iter().for_each(|call| call.answer(Ok(())));
    }

    /// A write was not made, as far as is known. What was decided on it counts for nothing either.
    async fn failed(&mut self, flight: Flight, landed: Landed) {
        self.shared.signals.landed();
        self.memory = flight.before;
        let mut failed = vec![(flight.trip, landed)];
        while let Some(mut later) = self.flights.pop_front() {
            let landed = match later.landing {
                Some(_) => land(&mut later).await,
                None => Ok(Committed::Conflict),
            };
            match landed {
                // The first was made after all, but not as it should be.
                Ok(Committed::Done) => self.succeeded(later),
                other => {
                    self.shared.signals.landed();
                    failed.push((later.trip, other));
                }
            }
        }
        self.forget();
        self.alone = 0;
        let elsewhere = |(_, landed): &(Trip, Landed)| matches!(landed, Ok(Committed::Elsewhere));
        let mut begun = Ok(());
        if failed.iter().any(elsewhere) {
            begun = epoch::begin(&self.shared.link, &mut self.random).await;
        }
        // The first of them is the first again.
        for (mut trip, landed) in failed.into_iter().rev() {
            let error = match (landed, &begun) {
                (Ok(Committed::Elsewhere), Err(fault)) => Some(fault.to_store_error()),
                (Ok(_), _) => None,
                (Err(fault), _) => Some(fault.to_store_error()),
            };
            if let Some(error) = error {
                self.refuse_what_cannot(&mut trip, &error);
            }
            if !trip.group.is_empty() {
                trip.attempt += 1;
                self.again.push_front(trip);
            }
        }
    }

    /// Refuses the calls of a write that failed. But where there is no room, what ends tasks goes on,
    /// and makes some in time.
    fn refuse_what_cannot(&mut self, trip: &mut Trip, error: &StoreError) {
        let group = std::mem::take(&mut trip.group);
        let (refused, kept): (Group, Group) = group.into_iter().partition(|call| call.admits());
        if !matches!(error, StoreError::Full(_)) || refused.is_empty() {
            self.refuse(kept, error);
        } else {
            trip.group = kept;
            trip.trouble = Some(error.to_string());
        }
        self.refuse(refused, error);
    }

    fn refuse(&mut self, group: Group, error: &StoreError) {
        self.forget();
        self.unconfirmed |=
            matches!(error, StoreError::OutcomeUnknown(_) | StoreError::Unavailable(_));
        if let StoreError::Corrupt(_) = error {
            self.shared.note_damage(&error.to_string());
        }
        self.shared.note_trouble(Some(error.to_string()));
        group.into_iter().for_each(|call| call.answer(Err(error.clone())));
    }

    fn forget(&mut self) {
        (self.known, self.catalog) = (Snapshot::default(), self.shared.catalog());
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
