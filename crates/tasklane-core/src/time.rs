//! Instants and the clock that stores read. Core never asks for the time: it is handed `now`.

use std::fmt;
use std::time::Duration;

/// Wall time in microseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch itself.
    pub const EPOCH: Self = Self(0);
    /// Later than every other timestamp.
    pub const MAX: Self = Self(i64::MAX);

    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the epoch, saturating.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This instant moved forward, saturating.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }

    /// This instant moved back, saturating.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }

    /// Time from `earlier` to this instant; zero when the clock stepped back between the two.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The two clocks of a store (S7). A store reads its clock inside the call and decides with what
/// it read; tests pass a clock that stands still until it is moved.
pub trait Clock: Send + Sync + 'static {
    /// Wall time: schedules, backoff, expiry, aging, retention.
    fn wall(&self) -> Timestamp;
    /// Time that never steps: leases and execution timeouts. The origin means nothing.
    fn monotonic(&self) -> Duration;
}
