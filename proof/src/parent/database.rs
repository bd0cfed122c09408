//! A database of a run's own, which is taken away and given back under its servers.

use std::time::{Duration, Instant};

use tasklane_postgres::test_server::{Care, TestServer as Postgres};
use tasklane_redis::test_server::TestServer as Redis;

use super::Engine;
use super::load::rest;
use crate::Failure;
use crate::place::Place;

/// What killed children had sent is over after this long.
const QUIET_MAX: Duration = Duration::from_secs(60);
/// A write of Redis is in its file, synced, before it is answered.
const SAFE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Of one of the engines that have a server of their own.
pub(crate) enum Database {
    Postgres(Postgres),
    Redis(Redis),
}

impl Database {
    /// A new one, if the engine has any.
    pub(crate) fn start(engine: Engine) -> Result<Option<Self>, Failure> {
        Ok(match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(Self::Postgres(Postgres::start(Care::Durable)?)),
            Engine::Redis => Some(Self::Redis(Redis::start(&SAFE)?)),
        })
    }

    /// A store that nobody has used.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        Ok(match self {
            Self::Postgres(server) => Place::Postgres(server.new_database()?),
            Self::Redis(server) => Place::Redis(server.address()),
        })
    }

    /// Takes it away and gives it back: by a crash, or as an operator does if it can tell the two
    /// apart.
    pub(super) fn restart(&self, crash: bool) -> Result<(), Failure> {
        match self {
            Self::Postgres(server) => {
                if crash {
                    server.crash()?
                } else {
                    server.stop()?
                }
                server.begin()?;
            }
            Self::Redis(server) => {
                server.kill()?;
                server.begin()?;
            }
        }
        Ok(())
    }

    /// Waits until it has done, or given up, all that killed children had asked of it.
    pub(super) fn wait_until_quiet(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.others()? > 0 {
            if begun.elapsed() > QUIET_MAX {
                return Err("the database has sessions of children that are gone".into());
            }
            rest();
        }
        Ok(())
    }

    /// Sessions of children.
    fn others(&self) -> Result<usize, Failure> {
        match self {
            Self::Postgres(server) => {
                let sql = "SELECT count(*) FROM pg_stat_activity
                           WHERE application_name = 'tasklane' AND backend_type = 'client backend'";
                Ok(server.sql("postgres", sql)?.parse()?)
            }
            Self::Redis(server) => {
                let list: String = server.command(&["CLIENT", "LIST", "TYPE", "normal"])?;
                // The one that asks is there too.
                Ok(list.lines().count().saturating_sub(1))
            }
        }
    }
}
