//! The store in a PostgreSQL schema of its own, on a clock that stands still.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Timestamp};
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_postgres::{Options, PostgresStore};
use tasklane_store::Store;
use tasklane_store::conformance::{Differences, Fixture, ManualClock};
use tokio::runtime::Runtime;

/// The server of this process, started when it is first asked for.
pub(crate) fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| TestServer::start(Care::Fast).unwrap())
}

/// How to reach it, straight.
pub(crate) fn straight() -> String {
    server().address("postgres")
}

/// Whether PgBouncer stands in between, as `TASKLANE_TEST_POOLER` wishes.
pub(crate) fn is_pooled() -> bool {
    std::env::var_os("TASKLANE_TEST_POOLER").is_some()
}

/// How stores reach it.
pub(crate) fn address() -> String {
    static POOLER: OnceLock<String> = OnceLock::new();
    if !is_pooled() {
        return straight();
    }
    let pooler = POOLER.get_or_init(|| server().pool().unwrap());
    format!("postgres:///postgres?user=postgres&host={pooler}")
}

pub(crate) struct OnPostgres {
    clock: Arc<ManualClock>,
    options: Options,
    store: Option<Arc<PostgresStore>>,
}

/// The runtime on which all stores of this process live.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

impl OnPostgres {
    pub(crate) fn new(rules: Rules) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let clock = Arc::new(ManualClock::default());
        let options = Options {
            rules,
            schema: format!("case {}", NUMBER.fetch_add(1, Ordering::Relaxed)),
            connections: 4,
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let mut fixture = Self { clock, options, store: None };
        fixture.reopen();
        fixture
    }
}

impl Fixture for OnPostgres {
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
        let address = address();
        let store = PostgresStore::open(&address, &self.options);
        self.store = Some(Arc::new(runtime().block_on(store).unwrap()));
    }

    fn differences(&self) -> Differences {
        Differences {
            survives_reopen: true,
            leases_restart: false,
            exact_depth: false,
            numbers_have_gaps: true,
            backs_up: false,
        }
    }

    fn run<T>(&self, answer: impl Future<Output = T>) -> T {
        runtime().block_on(answer)
    }
}
