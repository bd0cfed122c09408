//! Which store to open, from its address.

use std::sync::Arc;

use anyhow::{Context, bail};
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::Store;

const KNOWN: &str = "give sqlite:FOLDER or memory:";

/// Whether an address is one of a store that is known.
pub(crate) fn check(address: &str) -> Result<(), &'static str> {
    match address.split_once(':') {
        Some(("sqlite", folder)) if !folder.is_empty() => Ok(()),
        Some(("memory", "")) => Ok(()),
        _ => Err(KNOWN),
    }
}

/// Opens `sqlite:FOLDER` or `memory:`.
pub(crate) fn open(address: &str, options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    let store = match address.split_once(':') {
        Some(("sqlite", folder)) if !folder.is_empty() => {
            SqliteStore::open(folder, options).with_context(|| format!("cannot open {address}"))?
        }
        Some(("memory", "")) => SqliteStore::in_memory(options)?,
        _ => bail!("store: {KNOWN}"),
    };
    Ok(Arc::new(store))
}
