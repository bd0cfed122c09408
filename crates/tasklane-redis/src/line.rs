//! A connection that is made anew once it has broken. What was under way on it is not sent again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};
use tasklane_store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fault::{Fault, refused};
use crate::place::Place;
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
    /// Where it leads, if sentinels or nodes were asked for that.
    place: Option<Place>,
    _driver: Option<Driver>,
}

impl Slot {
    /// An attempt has succeeded; whether it will last is to be seen.
    fn begin(&mut self) {
        (self.since, self.failed) = (Some(Instant::now()), None);
    }

    /// A connection broke, or led to the wrong server. One that had lasted may be made anew at once.
    fn close(&mut self, why: StoreError) {
        self.open = None;
        if self.has_lasted() {
            (self.since, self.failures) = (None, 0);
        } else {
            self.fail(why);
        }
    }

    /// An attempt failed, or has led to where none should lead: the next comes later.
    fn fail(&mut self, why: StoreError) {
        if self.has_lasted() {
            self.failures = 0;
        }
        self.since = None;
        self.failures = self.failures.saturating_add(1);
        self.failed = Some((Instant::now(), why));
    }

    fn has_lasted(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() > PAUSE_MAX)
    }

    /// When the next attempt may be made, if not now.
    fn paused_until(&self) -> Option<Instant> {
        self.failed.as_ref().map(|(at, _)| *at + pause(self.failures))
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
                (None, _) => slot.paused_until(),
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
            Ok(Connected { connection, driver, place }) => {
                let open = Open { connection, number: slot.attempts, place, _driver: driver };
                slot.begin();
                slot.open = Some(open.clone());
                Ok(open)
            }
            Err(fault) => {
                slot.fail(fault.to_store_error());
                Err(fault)
            }
        }
    }

    /// Takes note of an error: where the connection, or the server behind it, is no longer the
    /// right one, the next call makes another. At once if this one had lasted; otherwise later each
    /// time, because a node that is not up to date may lead to the same again.
    pub(crate) fn note(&self, used: &Open, error: &RedisError) {
        let elsewhere = matches!(error.code(), Some("READONLY" | "MOVED" | "MASTERDOWN" | "ASK"));
        if elsewhere || error.is_io_error() || error.is_unrecoverable_error() {
            let mut slot = self.slot();
            if slot.open.as_ref().is_some_and(|open| open.number == used.number) {
                slot.close(refused(error));
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

    /// Where the server that takes writes is, if most of those who are asked for it agree.
    pub(crate) async fn agreed(&self) -> Option<Place> {
        self.source.agreed(&self.config, self.connect_time_max).await
    }

    /// Leaves a server that is at another place than this. Says whether it was.
    pub(crate) fn leave_unless_at(&self, place: &Place) -> bool {
        let open = self.slot().open.clone();
        let elsewhere =
            open.and_then(|open| open.place).is_some_and(|connected| connected != *place);
        if elsewhere {
            self.leave(StoreError::Unavailable("Redis: the primary is elsewhere now".into()));
        }
        elsewhere
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

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> StoreError {
        StoreError::Unavailable("broken".into())
    }

    fn paused(slot: &Slot) -> Duration {
        slot.paused_until().map_or(Duration::ZERO, |until| until.duration_since(Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_do_not_last_are_made_later_each_time() {
        let mut slot = Slot::default();
        for millis in [50, 100, 200, 400, 800, 1_000, 1_000] {
            slot.begin();
            assert_eq!(paused(&slot), Duration::ZERO);
            slot.close(broken());
            assert_eq!(paused(&slot), Duration::from_millis(millis));
            tokio::time::advance(paused(&slot)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_lasted_is_made_anew_at_once_and_forgives_those_before_it() {
        let mut slot = Slot::default();
        for _ in 0..5 {
            slot.begin();
            slot.close(broken());
        }
        slot.begin();
        tokio::time::advance(2 * PAUSE_MAX).await;
        slot.close(broken());
        assert_eq!(paused(&slot), Duration::ZERO);
        slot.begin();
        slot.close(broken());
        assert_eq!(paused(&slot), PAUSE_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_fail_are_made_later_each_time_whatever_came_before() {
        let mut slot = Slot::default();
        slot.begin();
        tokio::time::advance(2 * PAUSE_MAX).await;
        slot.close(broken());
        for millis in [50, 100, 200] {
            slot.fail(broken());
            assert_eq!(paused(&slot), Duration::from_millis(millis));
        }
    }
}
