//! Connections over TLS.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::connect::TlsFiles;
use super::error::Error;
use crate::trust::Trust;

/// A connection that nobody can overhear.
pub(super) type Secured = TlsStream<TcpStream>;

/// Speaks TLS with servers that are who they say they are.
#[derive(Clone)]
pub(super) struct Tls {
    trust: Trust,
    within: Duration,
}

impl Tls {
    pub(super) fn new(files: &TlsFiles, within: Duration) -> Result<Self, Error> {
        Ok(Self { trust: trust(files)?, within })
    }

    /// Speaks TLS with a server that must be called `host`.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Secured> {
        let handshake = timeout(self.within, self.trust.connect(host, stream));
        handshake.await.map_err(|_| io::Error::other("no TLS within the time"))?
    }
}

pub(super) fn trust(files: &TlsFiles) -> Result<Trust, Error> {
    let own = files.certificate.as_ref();
    let own = own.map(|(certificate, key): &(PathBuf, PathBuf)| (&**certificate, &**key));
    Trust::new(files.authorities.as_deref(), own).map_err(|wrong| Error::Usage(wrong.to_string()))
}
