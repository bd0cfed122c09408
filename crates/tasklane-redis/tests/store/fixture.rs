//! The store on a clock that stands still, in a namespace of its own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Timestamp};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::Store;
use tasklane_store::conformance::{Differences, Fixture, ManualClock};
use tokio::runtime::Runtime;

use crate::cluster;
use crate::work::shared;

pub(crate) struct OnRedis {
    address: String,
    clock: Arc<ManualClock>,
    options: Options,
    runtime: Runtime,
    store: Option<Arc<RedisStore>>,
}

impl OnRedis {
    pub(crate) fn new(rules: Rules) -> Self {
        Self::at(shared().address(), rules)
    }

    pub(crate) fn in_cluster(rules: Rules) -> Self {
        Self::at(cluster::shared().address(), rules)
    }

    fn at(address: String, rules: Rules) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let clock = Arc::new(ManualClock::default());
        let namespace = format!("case-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let (mode, time) = (Mode::Fast, Some(clock.clone() as Arc<dyn Clock>));
        let command_time_max = Duration::from_secs(60);
        let options =
            Options { namespace, rules, mode, clock: time, command_time_max, ..Options::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut fixture = Self { address, clock, options, runtime, store: None };
        fixture.reopen();
        fixture
    }
}

impl Fixture for OnRedis {
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
        let opened = self.runtime.block_on(RedisStore::open(&self.address, &self.options));
        self.store = Some(Arc::new(opened.unwrap()));
    }

    fn differences(&self) -> Differences {
        Differences {
            survives_reopen: true,
            leases_restart: false,
            exact_depth: true,
            numbers_have_gaps: false,
            backs_up: false,
        }
    }

    fn run<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }
}
