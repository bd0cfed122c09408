//! Connections over TLS, and whom to trust with that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::error::Error;

/// Names another file with the authorities of the system, by a convention of many programs.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";
/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A connection that nobody can overhear.
pub(super) type Secured = TlsStream<TcpStream>;

/// Speaks TLS with servers that are who they say they are.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    within: Duration,
}

impl Tls {
    /// Trusts the authorities in a file; without one, those of the system.
    pub(super) fn new(authorities: Option<&Path>, within: Duration) -> Result<Self, Error> {
        let file = authorities.map_or_else(system_file, Path::to_owned);
        let wrong = |reason: String| {
            Error::Usage(format!("the authorities to trust in {}: {reason}", file.display()))
        };
        let mut roots = RootCertStore::empty();
        let read =
            CertificateDer::pem_file_iter(&file).map_err(|error| wrong(error.to_string()))?;
        // One that is not understood is no reason to do without the others.
        roots.add_parsable_certificates(read.filter_map(Result::ok));
        if roots.is_empty() {
            return Err(wrong("there is no certificate".into()));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), within })
    }

    /// Speaks TLS with a server that must be called `host`.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Secured> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let handshake = timeout(self.within, self.connector.connect(name, stream));
        handshake.await.map_err(|_| io::Error::other("no TLS within the time"))?
    }
}

fn system_file() -> PathBuf {
    if let Some(named) = std::env::var_os(SYSTEM_VARIABLE).filter(|named| !named.is_empty()) {
        return named.into();
    }
    let there = SYSTEM_FILES.into_iter().find(|file| Path::new(file).exists());
    there.or(SYSTEM_FILES.first().copied()).unwrap_or_default().into()
}
