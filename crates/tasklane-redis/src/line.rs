//! A connection that is made anew once it has broken. What was under way on it is not sent again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};
use tasklane_store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::source::{Connected, Driver, Source};

/// How long to wait after a failed attempt: this, then twice as long, and so on up to the other.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Line {
    source: Arc<Source>,
    config: AsyncConnectionConfig,
    connect_time_max: Duration,
    slot: Mutex<Slot>,
    /// One connects; the others take what comes of it.
    connecting: Semaphore,
}

#[derive(Default)]
struct Slot {
    open: Option<Open>,
    /// Attempts so far.
    attempts: u64,
    /// When the last one succeeded, unless one failed since.
    since: Option<Instant>,
    /// Those in a row that failed or did not last, when the last one did, and why.
    failures: u32,
    failed: Option<(Instant, StoreError)>,
}

/// A connection that is open, as far as is known.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) connection: MultiplexedConnection,
    /// Which of all that were made: no other has this number.
    pub(crate) number: u64,
    _driver: Option<Driver>,
}

impl Slot {
    fn fail(&mut self, why: StoreError) {
        if self.since.take().is_some_and(|since| since.elapsed() > PAUSE_MAX) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((Instant::now(), why));
    }
}

impl Line {
    pub(crate) fn new(
        source: Arc<Source>,
        connect_time_max: Duration,
        answer_time_max: Duration,
    ) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_time_max))
            .set_response_timeout(Some(answer_time_max));
        let (slot, connecting) = (Mutex::default(), Semaphore::new(1));
        Self { source, config, connect_time_max, slot, connecting }
    }

    /// The connection; another one if the last has broken.
    pub(crate) async fn open(&self) -> Result<Open, Fault> {
        let attempts = {
            let slot = self.slot();
            if let Some(open) = &slot.open {
                return Ok(open.clone());
            }
            slot.attempts
        };
        let _alone = self.connecting.acquire().await;
        let pause_until = {
            let slot = self.slot();
            match (&slot.open, &slot.failed) {
                (Some(open), _) => return Ok(open.clone()),
                // Somebody has tried while this one waited.
                (None, Some((_, error))) if slot.attempts != attempts => {
                    return Err(error.clone().into());
                }
                (None, Some((at, _))) => Some(*at + pause(slot.failures)),
                (None, None) => None,
            }
        };
        if let Some(until) = pause_until {
            tokio::time::sleep_until(until).await;
        }
        self.connect().await
    }

    async fn connect(&self) -> Result<Open, Fault> {
        let connected = self.source.connect(&self.config, self.connect_time_max).await;
        let mut slot = self.slot();
        slot.attempts += 1;
        match connected {
            Ok(Connected { connection, driver }) => {
                let open = Open { connection, number: slot.attempts, _driver: driver };
                slot.since = Some(Instant::now());
                (slot.open, slot.failed) = (Some(open.clone()), None);
                Ok(open)
            }
            Err(fault) => {
                slot.fail(fault.to_store_error());
                Err(fault)
            }
        }
    }

    /// Takes note of an error: where the connection, or the server behind it, is no longer the
    /// right one, the next call makes another.
    pub(crate) fn note(&self, used: &Open, error: &RedisError) {
        let elsewhere = matches!(error.code(), Some("READONLY" | "MOVED" | "MASTERDOWN" | "ASK"));
        if elsewhere || error.is_io_error() || error.is_unrecoverable_error() {
            let mut slot = self.slot();
            if slot.open.as_ref().is_some_and(|open| open.number == used.number) {
                slot.open = None;
            }
        }
    }

    /// Leaves a server that is no longer the right one: the next call makes another connection, after
    /// a moment, because it may lead to the same.
    pub(crate) fn leave(&self, why: StoreError) {
        let mut slot = self.slot();
        slot.open = None;
        slot.fail(why);
    }

    /// The next call makes another connection.
    pub(crate) fn renew(&self) {
        self.slot().open = None;
    }

    /// Which connection is open.
    pub(crate) fn number(&self) -> Option<u64> {
        self.slot().open.as_ref().map(|open| open.number)
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX)
}
