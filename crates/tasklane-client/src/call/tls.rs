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
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::connect::TlsFiles;
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
    pub(super) fn new(files: &TlsFiles, within: Duration) -> Result<Self, Error> {
        Ok(Self { connector: TlsConnector::from(config(files)?), within })
    }

    /// Speaks TLS with a server that must be called `host`.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Secured> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let handshake = timeout(self.within, self.connector.connect(name, stream));
        handshake.await.map_err(|_| io::Error::other("no TLS within the time"))?
    }
}

/// Trusts the authorities in a file; without one, those of the system. Shows a certificate to servers
/// that ask for one, if it has one.
pub(super) fn config(files: &TlsFiles) -> Result<Arc<ClientConfig>, Error> {
    let authorities = files.authorities.as_deref();
    let file = authorities.map_or_else(system_file, Path::to_owned);
    let wrong = |reason: String| {
        Error::Usage(format!("the authorities to trust in {}: {reason}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(&file).map_err(|error| wrong(error.to_string()))?;
    // One that is not understood is no reason to do without the others.
    roots.add_parsable_certificates(read.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(wrong("there is no certificate".into()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots);
    let config = match &files.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let wrong = |file: &Path, reason: String| {
                let file = file.display();
                Error::Usage(format!("the certificate to show, in {file}: {reason}"))
            };
            let (chain, key) = (chain(certificate), PrivateKeyDer::from_pem_file(key));
            let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
            let key = key.map_err(|error| wrong(certificate, format!("its key: {error}")))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| wrong(certificate, error.to_string()))?
        }
    };
    Ok(Arc::new(config))
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(file)?.collect()
}

fn system_file() -> PathBuf {
    if let Some(named) = std::env::var_os(SYSTEM_VARIABLE).filter(|named| !named.is_empty()) {
        return named.into();
    }
    let there = SYSTEM_FILES.into_iter().find(|file| Path::new(file).exists());
    there.or(SYSTEM_FILES.first().copied()).unwrap_or_default().into()
}
