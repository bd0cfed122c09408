//! How to reach a server.

use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
#[cfg(feature = "tls")]
use tokio_rustls::rustls::ClientConfig;

use super::backoff::Retries;
use super::client::{Client, Inner};
use super::connect::{Connector, TlsFiles};
use super::error::Error;
#[cfg(feature = "tls")]
use super::tls;
use crate::limits::{CALL_WITHIN, CONNECT_WITHIN, IDLE_MAX};

/// Options of a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    server: String,
    api_key: Option<String>,
    tls: TlsFiles,
    call_within: Duration,
    connect_within: Duration,
    retries: Retries,
}

impl ClientBuilder {
    pub(super) fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            api_key: None,
            tls: TlsFiles::default(),
            call_within: CALL_WITHIN,
            connect_within: CONNECT_WITHIN,
            retries: Retries::default(),
        }
    }

    /// The key that every call shows.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// A file with the authorities to trust, in PEM, for a server with `https`; those of the
    /// system if absent. Needs the feature `tls`.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls.authorities = Some(file.into());
        self
    }

    /// A certificate to show to a server that asks for one, and its private key, in PEM. Needs the
    /// feature `tls`.
    pub fn certificate(mut self, file: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.certificate = Some((file.into(), key.into()));
        self
    }

    /// How long one call may take, beyond the time that it asks the server to wait; 30 s if absent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call_within = timeout;
        self
    }

    /// How long connecting may take; 5 s if absent.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_within = timeout;
        self
    }

    /// How often a call is tried again.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// What a program with connections of its own speaks TLS with; nothing for a server without it.
    #[cfg(feature = "tls")]
    pub fn tls(&self) -> Result<Option<Arc<ClientConfig>>, Error> {
        let secure = base(&self.server)?.scheme_str() == Some("https");
        Ok(secure.then(|| tls::trust(&self.tls)).transpose()?.map(|trust| trust.config()))
    }

    /// The client. Connects only when it is used.
    pub fn build(self) -> Result<Client, Error> {
        let base = base(&self.server)?;
        let key = self.api_key.as_deref().map(bearer).transpose()?;
        let connector = Connector::new(&base, &self.tls, self.connect_within)?;
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let base = base.to_string().trim_end_matches('/').to_owned();
        let (call_within, retries) = (self.call_within, self.retries);
        Ok(Client::new(Inner { base, key, pool, call_within, retries }))
    }
}

/// Without the key, which must not end in a log.
impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("server", &self.server).finish_non_exhaustive()
    }
}

fn bearer(key: &str) -> Result<HeaderValue, Error> {
    let wrong = |_| Error::Usage("the API key has characters that no key has".into());
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.trim())).map_err(wrong)?;
    value.set_sensitive(true);
    Ok(value)
}

fn base(server: &str) -> Result<Uri, Error> {
    let wrong =
        |why: &str| Err(Error::Usage(format!("{server:?} is no address of a server: {why}")));
    let Ok(base) = server.trim().parse::<Uri>() else { return wrong("it is no URL") };
    if !matches!(base.scheme_str(), Some("http" | "https")) {
        return wrong("it must begin with http:// or https://");
    }
    match base.authority() {
        None => wrong("it has no host"),
        Some(authority) if authority.as_str().contains('@') => {
            wrong("keys are given apart from it")
        }
        Some(_) if base.query().is_some() => wrong("it has a query"),
        Some(_) => Ok(base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_checked_before_any_call() {
        for good in ["http://127.0.0.1:7170", "http://[::1]:7170/", "http://queue.example.org/a/"] {
            assert!(base(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:7170",
            "ftp://example.org",
            "http://",
            "http://a:b@example.org",
            "http://example.org?x=1",
            "not a url",
        ] {
            assert_eq!(base(bad).unwrap_err().class(), super::super::ErrorClass::Usage, "{bad}");
        }
    }
}
