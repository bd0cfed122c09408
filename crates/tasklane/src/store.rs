//! Which store to open, from its address.

use std::sync::Arc;

use anyhow::{Context, bail};
use tasklane_postgres::PostgresStore;
use tasklane_redis::{Mode, RedisStore};
use tasklane_sqlite::{Durability, Options, SqliteStore};
use tasklane_store::Store;

use crate::config::shown_address;

const KNOWN: &str = "give sqlite:FOLDER, memory:, postgres://USER:PASSWORD@HOST/DATABASE or \
                     redis://USER:PASSWORD@HOST:PORT/ (docs/redis.md has its other forms)";

/// What an address means.
enum Kind<'a> {
    Folder(&'a str),
    Memory,
    Postgres,
    Redis,
}

fn kind(address: &str) -> Option<Kind<'_>> {
    match address.split_once(':')? {
        ("sqlite", folder) if !folder.is_empty() => Some(Kind::Folder(folder)),
        ("memory", "") => Some(Kind::Memory),
        ("postgres" | "postgresql", rest) if rest.starts_with("//") => Some(Kind::Postgres),
        _ if address.parse::<tasklane_redis::Address>().is_ok() => Some(Kind::Redis),
        _ => None,
    }
}

/// Whether an address is one of a store that is known.
pub(crate) fn check(address: &str) -> Result<(), &'static str> {
    kind(address).map(|_| ()).ok_or(KNOWN)
}

/// Opens the store at an address. One on another server lives on the runtime that this is called
/// on.
pub(crate) async fn open(address: &str, options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    let cannot = || format!("cannot open {}", shown_address(address));
    match kind(address) {
        Some(Kind::Folder(folder)) => {
            Ok(Arc::new(SqliteStore::open(folder, options).with_context(cannot)?))
        }
        Some(Kind::Memory) => Ok(Arc::new(SqliteStore::in_memory(options)?)),
        Some(Kind::Postgres) => {
            let options = tasklane_postgres::Options { rules: options.rules, ..Default::default() };
            let store = PostgresStore::open(address, &options).await;
            Ok(Arc::new(store.with_context(cannot)?))
        }
        Some(Kind::Redis) => {
            let store = RedisStore::open(address, &of_redis(options)).await;
            Ok(Arc::new(store.with_context(cannot)?))
        }
        None => bail!("store: {KNOWN}"),
    }
}

/// On Redis a write is in its synced file before it is answered, or in memory alone.
fn of_redis(options: &Options) -> tasklane_redis::Options {
    let mode = match options.durability {
        Durability::Fsync => Mode::Durable,
        Durability::Interval(_) | Durability::None => Mode::Fast,
    };
    tasklane_redis::Options { rules: options.rules, mode, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores_are_known_by_their_beginning() {
        for good in [
            "sqlite:./data",
            "memory:",
            "postgres://me@db/x",
            "postgresql://db/x",
            "redis://:pw@cache:6379/1?namespace=mail&replicas=1",
            "rediss://cache/",
            "redis+sentinel://one,two/main",
            "valkey+cluster://one:1,two:2/",
            "unix:///run/redis.sock",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "sqlite:",
            "memory:x",
            "postgres:db",
            "redis:cache",
            "redis://cache?x=1",
            "mysql://db/x",
        ] {
            assert_eq!(check(bad), Err(KNOWN), "{bad}");
        }
    }
}
