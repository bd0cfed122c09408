//! Where the server of a test keeps its tasks: in memory, or where `TASKLANE_TEST_STORE` says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_postgres::PostgresStore;
use tasklane_postgres::test_server::{Care, TestServer as Postgres};
use tasklane_redis::RedisStore;
use tasklane_redis::test_server::TestServer as Redis;
use tasklane_sqlite::SqliteStore;
use tasklane_store::Store;
use tasklane_store::conformance::ManualClock;
use tokio::runtime::Runtime;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Memory,
    Postgres,
    Redis,
}

impl Kept {
    /// What the tests of this run are about.
    pub(crate) fn chosen() -> Self {
        match std::env::var("TASKLANE_TEST_STORE").as_deref() {
            Err(_) | Ok("memory") => Self::Memory,
            Ok("postgres") => Self::Postgres,
            Ok("redis") => Self::Redis,
            Ok(other) => panic!("TASKLANE_TEST_STORE={other}: give memory, postgres or redis"),
        }
    }

    /// What a write is answered with in the header `Durability`.
    pub(crate) const fn durability(self) -> &'static str {
        match self {
            Self::Memory | Self::Redis => "memory",
            Self::Postgres => "committed",
        }
    }

    /// A store that nobody has used. It outlives the server of its test.
    pub(crate) fn open(self, rules: Rules, clock: Arc<ManualClock>) -> Arc<dyn Store> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("site {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        match self {
            Self::Memory => {
                let options = tasklane_sqlite::Options { rules, clock, ..Default::default() };
                Arc::new(SqliteStore::in_memory(&options).unwrap())
            }
            Self::Postgres => {
                let options = tasklane_postgres::Options {
                    rules,
                    schema: name,
                    clock: Some(clock),
                    ..Default::default()
                };
                let address = postgres().address("postgres");
                let store = PostgresStore::open(&address, &options);
                Arc::new(runtime().block_on(store).unwrap())
            }
            Self::Redis => {
                let options = tasklane_redis::Options {
                    rules,
                    namespace: name.replace(' ', "-"),
                    mode: tasklane_redis::Mode::Fast,
                    command_time_max: Duration::from_secs(60),
                    clock: Some(clock),
                    ..Default::default()
                };
                let address = redis().address();
                Arc::new(runtime().block_on(RedisStore::open(&address, &options)).unwrap())
            }
        }
    }
}

/// What stores live on that need a runtime.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start(Care::Fast).unwrap())
}

fn redis() -> &'static Redis {
    static SERVER: OnceLock<Redis> = OnceLock::new();
    SERVER.get_or_init(|| Redis::start(&["--appendonly", "no"]).unwrap())
}
