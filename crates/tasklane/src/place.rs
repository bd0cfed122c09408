//! Where an operator's command goes: to a running server, or straight into its store.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use tasklane_sqlite::Options;
use tasklane_store::{Store, StoreError};

use crate::remote::Remote;
use crate::store;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A running server, for example http://127.0.0.1:7170; its key is taken from the environment
    /// variable TASKLANE_API_KEY.
    #[arg(long, env = "TASKLANE_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Without a server: the store itself, while no server has it open.
    #[arg(
        long,
        env = "TASKLANE_STORE",
        default_value = "sqlite:./tasklane-data",
        value_name = "STORE"
    )]
    store: String,
}

/// What a command works on.
pub(crate) enum Place {
    /// A server.
    Server(Remote),
    /// A store that nobody else has open.
    Store(Arc<dyn Store>),
}

impl Arguments {
    pub(crate) fn open(&self) -> anyhow::Result<Place> {
        match &self.server {
            Some(server) => Ok(Place::Server(Remote::new(server)?)),
            None => Ok(Place::Store(self.open_store()?)),
        }
    }

    /// The store itself.
    pub(crate) fn open_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        if self.store.starts_with("memory:") {
            bail!(
                "a store in memory lives in its server: give --server URL, and start it with\n  \
                 tasklane serve --store memory: --auth keys\n\
                 which makes a first key and shows it"
            );
        }
        let opened = store::open(&self.store, &Options::default());
        opened.map_err(|error| match error.downcast_ref::<StoreError>() {
            Some(StoreError::Locked(_)) => error.context(
                "a server has the store open: ask it instead, with --server http://127.0.0.1:7170 \
                 and a key with the scope admin in TASKLANE_API_KEY, or stop it first",
            ),
            _ => error,
        })
    }
}

/// Runs what a command has to wait for.
pub(crate) fn wait<T>(call: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start a runtime")?.block_on(call)
}
