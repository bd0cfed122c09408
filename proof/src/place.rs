//! Where a store is, and how it is opened: safe, on its own clock, with leases so short that many
//! end inside the short lives of the child.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tasklane_core::lifecycle::Rules;
use tasklane_postgres::PostgresStore;
use tasklane_redis::RedisStore;
use tasklane_sqlite::{Durability, SqliteStore};
use tasklane_store::{Store, StoreError};
use tokio::runtime::Runtime;

use crate::Failure;

/// How long a database may be away when somebody wants to open a store in it.
const AWAY_MAX: Duration = Duration::from_secs(60);
const AWAY_PAUSE: Duration = Duration::from_millis(50);

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In files, of one process at a time.
    Folder(PathBuf),
    /// In a database that several processes share, and that may be away for a while.
    Postgres(String),
    /// The same on Redis.
    Redis(String),
}

impl Place {
    /// What an argument means.
    pub fn parse(text: &str) -> Self {
        match text.split_once("://") {
            Some(("postgres", _)) => Self::Postgres(text.to_owned()),
            Some(_) => Self::Redis(text.to_owned()),
            None => Self::Folder(text.into()),
        }
    }

    /// As an argument.
    pub fn argument(&self) -> &Path {
        match self {
            Self::Folder(folder) => folder,
            Self::Postgres(address) | Self::Redis(address) => Path::new(address),
        }
    }

    /// Opens the store, as soon as it can be reached.
    pub fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        match self {
            Self::Folder(folder) => Ok(Arc::new(SqliteStore::open(folder, &options())?)),
            Self::Postgres(address) => {
                let options =
                    tasklane_postgres::Options { rules: self.rules(), ..Default::default() };
                Ok(Arc::new(self.reach(|| PostgresStore::open(address, &options))?))
            }
            Self::Redis(address) => {
                let options = tasklane_redis::Options { rules: self.rules(), ..Default::default() };
                Ok(Arc::new(self.reach(|| RedisStore::open(address, &options))?))
            }
        }
    }

    fn reach<S, F>(&self, open: impl Fn() -> F) -> Result<S, Failure>
    where
        F: Future<Output = Result<S, StoreError>>,
    {
        let begun = Instant::now();
        loop {
            match runtime()?.block_on(open()) {
                Err(error) if self.is_away(&error) && begun.elapsed() < AWAY_MAX => {
                    std::thread::sleep(AWAY_PAUSE);
                }
                opened => return Ok(opened?),
            }
        }
    }

    /// An error that only says that the database cannot be reached for now, or was not at the end
    /// of a call: then nothing is known of it. A store in files is never away.
    pub fn is_away(&self, error: &StoreError) -> bool {
        let away = matches!(
            error,
            StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) | StoreError::Overloaded(_)
        );
        away && !matches!(self, Self::Folder(_))
    }

    /// The numbers that transitions follow. A call on a database takes several round trips.
    fn rules(&self) -> Rules {
        let unit = match self {
            Self::Folder(_) => Duration::from_millis(5),
            Self::Postgres(_) | Self::Redis(_) => Duration::from_millis(200),
        };
        Rules { lease: unit * 5, assignment: unit * 8, withhold: unit * 2, ..Rules::default() }
    }
}

fn options() -> tasklane_sqlite::Options {
    let rules = Place::Folder(PathBuf::new()).rules();
    tasklane_sqlite::Options { durability: Durability::Fsync, rules, ..Default::default() }
}

/// What stores in databases live on.
fn runtime() -> Result<&'static Runtime, Failure> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().ok());
    runtime.as_ref().ok_or_else(|| "there is no runtime".into())
}
