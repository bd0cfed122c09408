//! Where an operator's command goes: to a running server, or straight into its store.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use tasklane_store::{Store, StoreError};

use crate::config::{self, Effective, Sources};
use crate::remote::{Remote, Secure};
use crate::store;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A running server, for example http://127.0.0.1:7170 or https://queue.example.org; its key is taken from the environment
    /// variable TASKLANE_API_KEY.
    #[arg(long, env = "TASKLANE_SERVER", value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    secure: Secure,
    /// Without a server: the store itself, while no server has it open. As the server's own setting,
    /// it can also stand in a file or in TASKLANE_STORE.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// The server's file of settings, for the store it names [env: TASKLANE_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
            Some(server) => Ok(Place::Server(Remote::new(server, &self.secure)?)),
            None => Ok(Place::Store(self.open_store()?)),
        }
    }

    /// The store itself.
    pub(crate) fn open_store(&self) -> anyhow::Result<Arc<dyn Store>> {
        let given = self.store.iter().map(|store| ("store".to_owned(), store.clone())).collect();
        let loaded = config::load(&Sources::new(self.config.as_deref(), given))?;
        let Effective { store: place, options, .. } = loaded.effective;
        if place.starts_with("memory:") {
            bail!(
                "a store in memory lives in its server: give --server URL, and start it with\n  \
                 tasklane serve --store memory: --auth keys\n\
                 which makes a first key and shows it"
            );
        }
        let opened = store::open(&place, &options);
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
