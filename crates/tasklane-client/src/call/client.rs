//! The client itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper_util::client::legacy;

use super::backoff::Retries;
use super::builder::ClientBuilder;
use super::connect::Connector;
use super::error::Error;

/// Where a server is when nobody says otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7170";
const SERVER_VARIABLE: &str = "TASKLANE_SERVER";
const KEY_VARIABLE: &str = "TASKLANE_API_KEY";
const AUTHORITIES_VARIABLE: &str = "TASKLANE_CA";

/// Calls a server. Cheap to clone; clones share their connections.
///
/// Every method is one call of the interface. What the server refuses for now (429, 503) is tried
/// again as [`Retries`] has it; so is what did not reach it. See [`Error`] for the rest.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// Scheme, host and path, without a slash at the end.
    pub(super) base: String,
    pub(super) key: Option<HeaderValue>,
    pub(super) pool: legacy::Client<Connector, Full<Bytes>>,
    pub(super) call_within: Duration,
    pub(super) retries: Retries,
}

impl Client {
    /// A client of the server at this address, for example `http://127.0.0.1:7170`.
    pub fn connect_to(server: impl Into<String>) -> Result<Self, Error> {
        Self::builder(server).build()
    }

    /// The server that `TASKLANE_SERVER` names, or one on this machine, with the key in
    /// `TASKLANE_API_KEY` and the authorities in the file `TASKLANE_CA`, if there are any.
    pub fn from_env() -> Result<Self, Error> {
        let given = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let server = given(SERVER_VARIABLE).unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let mut builder = Self::builder(server);
        if let Some(key) = given(KEY_VARIABLE) {
            builder = builder.api_key(key);
        }
        if let Some(file) = given(AUTHORITIES_VARIABLE) {
            builder = builder.authorities(file);
        }
        builder.build()
    }

    /// Options first.
    pub fn builder(server: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(server)
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        &self.inner.base
    }

    /// The same connections; each call is tried once and may take this long.
    pub(crate) fn once(&self, call_within: Duration) -> Self {
        let (base, key, pool) =
            (self.inner.base.clone(), self.inner.key.clone(), self.inner.pool.clone());
        Self::new(Inner { base, key, pool, call_within, retries: Retries::NONE })
    }

    pub(super) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.inner.base).finish_non_exhaustive()
    }
}
