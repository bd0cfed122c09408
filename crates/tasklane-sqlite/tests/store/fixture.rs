//! The store on a clock that stands still, in memory or in a folder of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Timestamp};
use tasklane_sqlite::{Durability, Options, SqliteStore};
use tasklane_store::Store;
use tasklane_store::conformance::{Differences, Fixture, ManualClock, block_on};
use tempfile::TempDir;

pub(crate) struct Embedded {
    clock: Arc<ManualClock>,
    options: Options,
    folder: Option<TempDir>,
    store: Option<Arc<SqliteStore>>,
}

impl Embedded {
    pub(crate) fn in_memory(rules: Rules) -> Self {
        Self::new(rules, Durability::Fsync, None)
    }

    pub(crate) fn on_disk(rules: Rules) -> Self {
        Self::new(rules, Durability::Fsync, Some(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn on_disk_unsynced(rules: Rules) -> Self {
        Self::new(rules, Durability::None, Some(tempfile::tempdir().unwrap()))
    }

    fn new(rules: Rules, durability: Durability, folder: Option<TempDir>) -> Self {
        let clock = Arc::new(ManualClock::default());
        let options =
            Options { clock: clock.clone(), rules, durability, readers: 1, ..Options::default() };
        let mut fixture = Self { clock, options, folder, store: None };
        fixture.reopen();
        fixture
    }
}

impl Fixture for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn set_wall(&self, wall: Timestamp) {
        self.clock.set_wall(wall);
    }

    fn reopen(&mut self) {
        self.store = None;
        let store = match &self.folder {
            Some(folder) => SqliteStore::open(folder.path(), &self.options),
            None => SqliteStore::in_memory(&self.options),
        };
        self.store = Some(Arc::new(store.unwrap()));
    }

    fn differences(&self) -> Differences {
        Differences {
            survives_reopen: self.folder.is_some(),
            leases_restart: true,
            exact_depth: true,
            numbers_have_gaps: false,
            backs_up: self.folder.is_some(),
        }
    }

    fn run<T>(&self, answer: impl Future<Output = T>) -> T {
        block_on(answer)
    }
}
