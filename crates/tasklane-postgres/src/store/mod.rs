//! The store itself: a handle that runs each call as a transaction of its own.

mod contract;
mod floors;
mod ids;
mod listen;
mod partitions;
mod passed;
mod remembered;
mod sequence;
mod signal;
mod trouble;
mod turn;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Rotation, Timestamp};
use tasklane_store::{Answer, StoreError, Tally};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::connection::{Pool, Transaction};
use crate::fault::Fault;
use crate::floor::Floors;
use crate::gauge::Gauges;
use crate::held::Held;
use crate::lanes::{Lanes, Takers};
use crate::options::Options;
use crate::rows::time;
use crate::schema;
use crate::session::{LastPut, Looked, RowTypes, Session};
use crate::system::{self, SharedRandom};
use crate::timeline::Timeline;
use crate::view::View;
use floors::keep_floors;
use listen::keep_listening;
use partitions::Partitions;
use passed::Passed;
use sequence::keep_sequencing;
use signal::Signals;
use trouble::{Troubles, keep_probing};
use turn::{Kind, Turns};

/// How often a call is tried that another transaction gets in the way of.
const TRIES: u32 = 12;
/// How often a call of one unit is tried that has to wait for a lock.
const LOCK_TRIES: u32 = 4;
/// How often something is looked at whose connection is lost meanwhile.
pub(super) const LOOK_TRIES: u32 = 4;

/// What all calls share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    /// Of the rows that are written.
    pub(crate) types: RowTypes,
    /// That of which everything is that is remembered.
    pub(crate) timeline: Arc<Timeline>,
    pub(crate) lanes: Lanes,
    pub(crate) rules: Rules,
    pub(crate) random: SharedRandom,
    clock: Option<Arc<dyn Clock>>,
    /// Microseconds from this machine's clock to the database's.
    ahead: AtomicI64,
    /// Millisecond and counter of the last id made here.
    last_id: Mutex<(u64, u64)>,
    rotation: Mutex<Rotation<i32>>,
    looked: Mutex<Looked>,
    /// Which server wrote an event: this one, as long as it runs.
    pub(crate) origin: i64,
    pub(crate) signals: Signals,
    /// One look at the feed at a time: each goes on from the last.
    looks: tokio::sync::Mutex<()>,
    turns: Turns,
    pub(crate) floors: Floors,
    pub(crate) gauges: Gauges,
    pub(crate) held: Held,
    pub(crate) takers: Takers,
    /// Which rows of the outbox have been numbered.
    pub(crate) numbered: Passed,
    /// Which requests of applications have been admitted.
    pub(crate) requested: Passed,
    partitions: Partitions,
    commit_micros: Tally,
    commit_events: Tally,
    troubles: Troubles,
}

/// What a call does inside its transaction. It may be done again, on what another has left.
pub(crate) type Call<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

impl Shared {
    /// The database's clock when a transaction began, or the test's.
    pub(crate) fn clock_of(&self, transaction: &Transaction) -> Timestamp {
        let now = match &self.clock {
            Some(clock) => clock.wall(),
            None => time(transaction.begun_at),
        };
        let ahead = now.as_micros().saturating_sub(system::wall().as_micros());
        self.ahead.store(ahead, Ordering::Relaxed);
        self.floors.note_clock(now);
        now
    }

    /// The database's time, as near as it can be told from here.
    pub(crate) fn now(&self) -> Timestamp {
        match &self.clock {
            Some(clock) => clock.wall(),
            None => {
                let here = system::wall().as_micros();
                time(here.saturating_add(self.ahead.load(Ordering::Relaxed)))
            }
        }
    }

    pub(crate) fn rotation(&self) -> Rotation<i32> {
        self.rotation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_rotation(&self, rotation: Rotation<i32>) {
        *self.rotation.lock().unwrap_or_else(PoisonError::into_inner) = rotation;
    }

    pub(crate) fn looked(&self) -> Looked {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_looked(&self, looked: Looked) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = looked;
    }

    /// Runs a call of so many units until it is committed, or cannot be. Where one unit may be in
    /// the way of the others, that is said soon: its caller sends them apart.
    async fn write<T, C>(&self, units: usize, call: C) -> Result<T, StoreError>
    where
        C: for<'s, 'c> Fn(&'c mut Session<'s>) -> Call<'c, T>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.write_once(units, &call).await {
                Ok(value) => return Ok(value),
                Err(fault) if fault.may_pass() && tries < tries_max(&fault, units) => {
                    tracing::debug!(%fault, tries, "a transaction is tried again");
                    // A little later each time, and not all at once.
                    let mut random = &self.random;
                    let most = 1 << tries.min(7);
                    let wait = tasklane_core::Random::next_u64(&mut random) % most;
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
                Err(fault) => {
                    self.troubles.note_failed(&fault);
                    return Err(match units > 1 && fault.may_be_of_one_unit() {
                        true => StoreError::Obstructed(fault.to_string()),
                        false => fault.to_store_error(),
                    });
                }
            }
        }
    }

    async fn write_once<T, C>(&self, units: usize, call: &C) -> Result<T, Fault>
    where
        C: for<'s, 'c> Fn(&'c mut Session<'s>) -> Call<'c, T>,
    {
        let asked = Instant::now();
        let transaction = self.pool.write_for(units).await?;
        let begun = Instant::now();
        self.recognize(&transaction);
        let timeline = transaction.timeline;
        let outcome = async {
            let mut session = Session::open(&transaction, self);
            let value = call(&mut session).await?;
            Ok::<_, Fault>((value, session.finish().await?))
        };
        match outcome.await {
            // What it took for known may have been of another one.
            _ if !self.timeline.is(timeline) => {
                transaction.roll_back().await;
                Err(Fault::Overtaken)
            }
            Ok((value, (written, last))) => {
                self.signals.commits();
                let parameters = last.as_ref().map(|last| last.parameters(&self.types));
                let last = parameters.as_deref().map(|parameters| (LastPut::sql(), parameters));
                if let Err(fault) = transaction.commit_with(last).await {
                    self.signals.failed();
                    return Err(fault);
                }
                // A look that changed nothing says nothing of writes.
                if written.events > 0 {
                    let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    self.commit_micros.add(micros);
                    self.commit_events.add(written.events);
                    self.troubles.note_written(asked);
                }
                self.note_written(timeline, written);
                Ok(value)
            }
            Err(fault) => {
                if !fault.is_useless_connection() {
                    transaction.roll_back().await;
                }
                Err(fault)
            }
        }
    }

    /// Runs a look at one moment.
    async fn read<T, C>(&self, call: C) -> Result<T, StoreError>
    where
        C: for<'s, 'c> Fn(&'c View<'s>) -> Call<'c, T>,
    {
        let mut outcome = self.read_once(&call).await;
        for _ in 1..LOOK_TRIES {
            match &outcome {
                Err(fault) if fault.may_look_again() => {
                    tracing::debug!(%fault, "a look is tried again");
                    outcome = self.read_once(&call).await;
                }
                _ => break,
            }
        }
        self.troubles.note_look(outcome.as_ref().err());
        outcome.map_err(|fault| fault.to_store_error())
    }

    async fn read_once<T, C>(&self, call: &C) -> Result<T, Fault>
    where
        C: for<'s, 'c> Fn(&'c View<'s>) -> Call<'c, T>,
    {
        let transaction = self.pool.read().await?;
        self.recognize(&transaction);
        let timeline = transaction.timeline;
        let view = View { transaction: &transaction, shared: self };
        let value = call(&view).await;
        transaction.roll_back().await;
        if self.timeline.is(timeline) { value } else { Err(Fault::Overtaken) }
    }

    /// Which life of the store.
    async fn epoch(&self) -> Result<u64, StoreError> {
        self.read(|view| Box::pin(async move { view.epoch().await })).await
    }
}

/// A store on PostgreSQL.
pub struct PostgresStore {
    shared: Arc<Shared>,
    runtime: Handle,
    /// What runs beside the calls, until the store is dropped.
    beside: [JoinHandle<()>; 4],
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the store in a database, `postgres://user:password@host/database`, and brings its
    /// tables to this version. To be called on a runtime, on which the store then lives.
    pub async fn open(address: &str, options: &Options) -> Result<Self, StoreError> {
        options.rules.check()?;
        let opened = Self::start(Address::read(address)?, options).await;
        opened.map_err(|fault| fault.to_store_error())
    }

    async fn start(address: Address, options: &Options) -> Result<Self, Fault> {
        let random = SharedRandom::default();
        let origin = (tasklane_core::Random::next_u64(&mut &random) >> 1) as i64;
        let pool = Pool::open(&address, options).await?;
        let types = schema::migrate(&pool, &options.schema, &random).await?;
        let timeline = Arc::<Timeline>::default();
        let shared = Arc::new(Shared {
            pool,
            types,
            lanes: Lanes::new(Arc::clone(&timeline)),
            timeline,
            rules: options.rules,
            random,
            clock: options.clock.clone(),
            ahead: AtomicI64::new(0),
            last_id: Mutex::new((0, 0)),
            rotation: Mutex::default(),
            looked: Mutex::default(),
            origin,
            signals: Signals::default(),
            looks: tokio::sync::Mutex::default(),
            turns: Turns::default(),
            floors: Floors::default(),
            gauges: Gauges::default(),
            held: Held::default(),
            takers: Takers::default(),
            numbered: Passed::default(),
            requested: Passed::default(),
            partitions: Partitions::default(),
            commit_micros: Tally::default(),
            commit_events: Tally::default(),
            troubles: Troubles::default(),
        });
        shared.find_last_id().await?;
        shared.write(1, |session| Box::pin(async move { session.begin_life().await })).await?;
        shared.sequence_all().await?;
        let beside = [
            tokio::spawn(keep_sequencing(Arc::clone(&shared), options.look_every)),
            tokio::spawn(keep_floors(Arc::clone(&shared))),
            tokio::spawn(keep_probing(Arc::clone(&shared), options.look_every)),
            tokio::spawn(keep_listening(Arc::clone(&shared), address, options.schema.clone())),
        ];
        Ok(Self { shared, runtime: Handle::current(), beside })
    }

    /// Begins a call now, in its turn; the answer is awaited later, or not at all.
    fn write<T, C>(&self, kind: Kind, units: usize, call: C) -> Answer<'_, T>
    where
        T: Send + 'static,
        C: for<'s, 'c> Fn(&'c mut Session<'s>) -> Call<'c, T> + Send + Sync + 'static,
    {
        let turn = self.shared.turns.take(kind);
        let shared = Arc::clone(&self.shared);
        self.spawn(async move {
            turn.comes().await;
            let outcome = shared.write(units, call).await;
            drop(turn);
            outcome
        })
    }

    fn read<T, C>(&self, call: C) -> Answer<'_, T>
    where
        T: Send + 'static,
        C: for<'s, 'c> Fn(&'c View<'s>) -> Call<'c, T> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.spawn(async move { shared.read(call).await })
    }

    fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Answer<'_, T> {
        let (reply, answer) = oneshot::channel();
        self.runtime.spawn(async move {
            let _ = reply.send(call.await);
        });
        let lost = || StoreError::OutcomeUnknown("the call was not finished".into());
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(lost())) })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.beside.iter().for_each(JoinHandle::abort);
    }
}

/// How often a call is tried that another transaction got in the way of.
fn tries_max(fault: &Fault, units: usize) -> u32 {
    match fault.is_lock() {
        true if units > 1 => 1,
        true => LOCK_TRIES,
        false => TRIES,
    }
}
