//! How a command reaches a server.

use anyhow::bail;
use clap::Args;
use tasklane_client::Client;
use tasklane_client::call::ClientBuilder;

const KEY: &str = "TASKLANE_API_KEY";

#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// The server; its key is taken from the environment variable TASKLANE_API_KEY.
    #[arg(
        long,
        env = "TASKLANE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7170"
    )]
    server: String,
}

impl Reach {
    pub(crate) fn url(&self) -> &str {
        &self.server
    }

    pub(crate) fn key(&self) -> anyhow::Result<Option<String>> {
        let key = std::env::var(KEY).ok().filter(|key| !key.is_empty());
        if key.as_ref().is_some_and(|key| key.contains(['\r', '\n'])) {
            bail!("{KEY} holds more than one line");
        }
        Ok(key)
    }

    pub(crate) fn client(&self) -> anyhow::Result<ClientBuilder> {
        let builder = Client::builder(&self.server);
        Ok(match self.key()? {
            Some(key) => builder.api_key(key),
            None => builder,
        })
    }
}
