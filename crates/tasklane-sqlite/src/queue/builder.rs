//! How to open a queue.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, DepthLimits, Invalid, Policies, Problem, Retention, limits};
use tasklane_store::Prune;

use super::error::QueueError;
use super::maintenance::Maintenance;
use super::settings::Settings;
use super::{Core, Notes, Queue};
use crate::options::{Durability, Options};
use crate::store::SqliteStore;

/// Options of a [`Queue`]; the defaults are the safe ones.
#[derive(Debug, Clone)]
pub struct Builder {
    options: Options,
    policies: Policies,
    retention: Retention,
    depth: Option<u64>,
    clean_up_every: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options::default(),
            policies: Policies::default(),
            retention: Retention::default(),
            depth: None,
            clean_up_every: Duration::from_secs(60),
        }
    }
}

impl Builder {
    /// How many tasks may wait in each queue, whatever their priority; more are refused as
    /// [`QueueError::Full`]. Applies to every queue from the opening on, until [`Queue::configure`]
    /// says otherwise for one of them. Without it the limits are those of S20, or as stored.
    pub fn depth_limit(mut self, tasks: u64) -> Self {
        self.depth = Some(tasks);
        self
    }

    /// How long ended tasks are kept, by state, where their queue does not say otherwise.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// What tasks get that leave members out, and the largest payload.
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Leases, time-outs and retries.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.options.rules = rules;
        self
    }

    /// When a write is answered.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = durability;
        self
    }

    /// How often retention is applied; every minute by default.
    pub fn clean_up_every(mut self, interval: Duration) -> Self {
        self.clean_up_every = interval;
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = clock;
        self
    }

    /// Opens the queue in a folder, which is made if it is not there. One process at a time: a
    /// second one gets [`StoreError::Locked`](tasklane_store::StoreError::Locked).
    pub fn open(self, path: impl AsRef<Path>) -> Result<Queue, QueueError> {
        self.check()?;
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(Invalid::new("path", Problem::Empty).into());
        }
        if path.exists() && !path.is_dir() {
            return Err(QueueError::malformed("path", "a folder"));
        }
        let store = SqliteStore::open(path, &self.options)?;
        self.start(store)
    }

    /// Opens a queue that is gone when its last handle is dropped.
    pub fn in_memory(self) -> Result<Queue, QueueError> {
        self.check()?;
        let store = SqliteStore::in_memory(&self.options)?;
        self.start(store)
    }

    fn start(self, store: SqliteStore) -> Result<Queue, QueueError> {
        let store = Arc::new(store);
        let settings = Settings::load(&store, self.depth.map(DepthLimits::flat))?;
        let prune = Prune { retention: self.retention, ..Prune::default() };
        let notes = Arc::new(Notes::default());
        let maintenance =
            Maintenance::start(store.clone(), notes.clone(), prune, self.clean_up_every)?;
        let (policies, rules) = (self.policies, self.options.rules);
        let core =
            Core { _maintenance: maintenance, store, policies, rules, prune, settings, notes };
        Ok(Queue { core: Arc::new(core) })
    }

    fn check(&self) -> Result<(), Invalid> {
        let require = |fits: bool, field, expected| {
            if fits { Ok(()) } else { Err(Invalid::out_of_range(field, expected)) }
        };
        require(self.depth != Some(0), "depth_limit", "at least 1")?;
        require(!self.clean_up_every.is_zero(), "clean_up_every", "longer than nothing")?;
        self.options.rules.check()?;
        let payload = self.policies.payload_bytes_max <= limits::PAYLOAD_BYTES_MAX;
        require(payload, "policies.payload_bytes_max", "up to 16777216")
    }
}
