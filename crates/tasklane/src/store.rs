//! Which store to open, from its address.

use std::sync::Arc;

use anyhow::{Context, bail};
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::Store;

/// Opens `sqlite:FOLDER` or `memory:`.
pub(crate) fn open(address: &str, options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    let store = match address.split_once(':') {
        Some(("sqlite", folder)) if !folder.is_empty() => {
            SqliteStore::open(folder, options).with_context(|| format!("cannot open {address}"))?
        }
        Some(("memory", "")) => SqliteStore::in_memory(options)?,
        _ => bail!("--store {address}: give sqlite:FOLDER or memory:"),
    };
    Ok(Arc::new(store))
}
