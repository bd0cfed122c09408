//! Where the server of a test keeps its tasks: in memory, or where `TASKLANE_TEST_STORE` says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tasklane_core::lifecycle::Rules;
use tasklane_postgres::PostgresStore;
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_sqlite::SqliteStore;
use tasklane_store::Store;
use tasklane_store::conformance::ManualClock;
use tokio::runtime::Runtime;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Memory,
    Postgres,
}

impl Kept {
    /// What the tests of this run are about.
    pub(crate) fn chosen() -> Self {
        match std::env::var("TASKLANE_TEST_STORE").as_deref() {
            Err(_) | Ok("memory") => Self::Memory,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("TASKLANE_TEST_STORE={other}: give memory or postgres"),
        }
    }

    /// What a write is answered with in the header `Durability`.
    pub(crate) const fn durability(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Postgres => "committed",
        }
    }

    /// A store that nobody has used. It outlives the server of its test.
    pub(crate) fn open(self, rules: Rules, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        match self {
            Self::Memory => {
                let options = tasklane_sqlite::Options { rules, clock, ..Default::default() };
                Arc::new(SqliteStore::in_memory(&options).unwrap())
            }
            Self::Postgres => {
                static NUMBER: AtomicU64 = AtomicU64::new(0);
                let options = tasklane_postgres::Options {
                    rules,
                    schema: format!("site {}", NUMBER.fetch_add(1, Ordering::Relaxed)),
                    clock: Some(clock),
                    ..Default::default()
                };
                let address = postgres().address("postgres");
                let store = PostgresStore::open(&address, &options);
                Arc::new(runtime().block_on(store).unwrap())
            }
        }
    }
}

/// What stores live on that need a runtime.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn postgres() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| TestServer::start(Care::Fast).unwrap())
}
