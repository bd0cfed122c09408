//! Where an operator's command goes: to a running server, or straight into its store.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use tasklane_client::Client;
use tasklane_sqlite::Options;
use tasklane_store::{Store, StoreError};

use crate::config::{self, Effective, Sources};
use crate::connection::Connection;
use crate::ending::usage;
use crate::store;

const ASK_THE_SERVER: &str = "a server has the store open: ask it instead, with --server \
    http://127.0.0.1:7170 and a key with the scope admin in TASKLANE_API_KEY, or stop it first";
const LOOK_AT_A_COPY: &str = "a server has the store open: stop it first, or make a copy while it \
    serves (tasklane backup), a store of that (tasklane restore), and take that one";

#[derive(Debug, Args)]
pub(crate) struct Where {
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    store: StorePlace,
}

#[derive(Debug, Args)]
pub(crate) struct StorePlace {
    /// Without a server: the store itself; one in files only while no server has it open. As the server's own setting,
    /// it can also stand in a file or in TASKLANE_STORE.
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    store: Option<String>,
    /// The server's file of settings, for the store it names [env: TASKLANE_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    config: Option<PathBuf>,
}

/// What a command works on.
pub(crate) enum Place {
    /// A server.
    Server(Client),
    /// A store, opened here.
    Store(Arc<dyn Store>),
}

impl Where {
    /// The store if it is named by a flag; else the server that is named; else the store.
    pub(crate) async fn open(&self) -> anyhow::Result<Place> {
        if self.store.is_named() && self.server.is_given() {
            return Err(usage("give a server or a store, not both"));
        }
        if self.store.is_named() {
            return self.store.open().await.map(Place::Store);
        }
        match self.server.named()? {
            Some(target) => target.client().map(Place::Server),
            None => self.store.open().await.map(Place::Store),
        }
    }
}

impl StorePlace {
    const fn is_named(&self) -> bool {
        self.store.is_some() || self.config.is_some()
    }

    /// Its address, and how it is opened.
    pub(crate) fn address(&self) -> anyhow::Result<(String, Options)> {
        let given = self.store.iter().map(|store| ("store".to_owned(), store.clone())).collect();
        let loaded = config::load(&Sources::new(self.config.as_deref(), given))?;
        let Effective { store, options, .. } = loaded.effective;
        Ok((store, options))
    }

    /// The store itself.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.open_or(ASK_THE_SERVER).await
    }

    /// The same for what no server can do.
    pub(crate) async fn open_alone(&self) -> anyhow::Result<Arc<dyn Store>> {
        self.open_or(LOOK_AT_A_COPY).await
    }

    async fn open_or(&self, instead: &'static str) -> anyhow::Result<Arc<dyn Store>> {
        let (place, options) = self.address()?;
        if place.starts_with("memory:") {
            bail!(
                "a store in memory lives in its server: give --server URL, and start it with\n  \
                 tasklane serve --store memory: --auth keys\n\
                 which makes a first key and shows it"
            );
        }
        let opened = store::open(&place, &options).await;
        opened.map_err(|error| match error.downcast_ref::<StoreError>() {
            Some(StoreError::Locked(_)) => error.context(instead),
            _ => error,
        })
    }
}
