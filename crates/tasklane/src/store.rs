//! Which store to open, from its address.

use std::sync::Arc;

use anyhow::{Context, bail};
use tasklane_postgres::PostgresStore;
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::Store;

use crate::config::shown_address;

const KNOWN: &str = "give sqlite:FOLDER, memory: or postgres://USER:PASSWORD@HOST/DATABASE";

/// What an address means.
enum Kind<'a> {
    Folder(&'a str),
    Memory,
    Postgres,
}

fn kind(address: &str) -> Option<Kind<'_>> {
    match address.split_once(':')? {
        ("sqlite", folder) if !folder.is_empty() => Some(Kind::Folder(folder)),
        ("memory", "") => Some(Kind::Memory),
        ("postgres" | "postgresql", rest) if rest.starts_with("//") => Some(Kind::Postgres),
        _ => None,
    }
}

/// Whether an address is one of a store that is known.
pub(crate) fn check(address: &str) -> Result<(), &'static str> {
    kind(address).map(|_| ()).ok_or(KNOWN)
}

/// Opens the store at an address. One on PostgreSQL lives on the runtime that this is called on.
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
        None => bail!("store: {KNOWN}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores_are_known_by_their_beginning() {
        for good in ["sqlite:./data", "memory:", "postgres://me@db/x", "postgresql://db/x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", "sqlite:", "memory:x", "postgres:db", "mysql://me@db/x"] {
            assert_eq!(check(bad), Err(KNOWN), "{bad}");
        }
    }
}
