//! How to open a store.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::Clock;
use tasklane_core::lifecycle::Rules;

use crate::system::SystemClock;

/// As much as the log may grow before it is copied into the database, four times: enough for tens
/// of thousands of settles.
const SPARE_BYTES: u64 = 16 * 1024 * 1024;

/// When an answer may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the commit is synced to disk.
    #[default]
    Fsync,
    /// After the commit; synced at most this long later. A power cut may lose that much, a crash
    /// of the process nothing.
    Interval(Duration),
    /// After the commit; synced when the system sees fit.
    None,
}

/// Settings of a store; the defaults are the safe ones.
#[derive(Clone)]
pub struct Options {
    /// When an answer may be given.
    pub durability: Durability,
    /// The numbers that transitions follow.
    pub rules: Rules,
    /// Threads for reads.
    pub readers: usize,
    /// How long a read may take.
    pub read_time_max: Duration,
    /// Room on the disk that is kept for settles: when the disk is full they go on with it, while
    /// submissions are refused. 0 keeps none.
    pub spare_bytes: u64,
    /// The store's clock; another one in tests.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            rules: Rules::default(),
            readers: 2,
            read_time_max: Duration::from_secs(2),
            spare_bytes: SPARE_BYTES,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("durability", &self.durability)
            .field("rules", &self.rules)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
