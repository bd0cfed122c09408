//! TLS towards servers: whom to believe, and what to show them. For everything that calls: the client,
//! and others with connections of their own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Names another file with the authorities of the system, by a convention of many programs.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";
/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Authorities whose certificates are believed.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

/// What is wrong with the files, in words for whoever has put them there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// Nobody could be believed.
    #[error("the authorities to trust in {}: {reason}", .file.display())]
    Authorities {
        /// Which file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is nothing to show.
    #[error("the certificate to show, in {}: {reason}", .file.display())]
    Certificate {
        /// Which file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Trust {
    /// Trusts the authorities in a file; without one, those of the system. Shows its own certificate,
    /// which comes with its key, to servers that ask for one.
    pub fn new(
        authorities: Option<&Path>,
        own: Option<(&Path, &Path)>,
    ) -> Result<Self, TrustError> {
        let file = authorities.map_or_else(system_file, Path::to_owned);
        let wrong = |reason| TrustError::Authorities { file: file.clone(), reason };
        let mut roots = RootCertStore::empty();
        let read =
            CertificateDer::pem_file_iter(&file).map_err(|error| wrong(error.to_string()))?;
        // One that is not understood is no reason to do without the others.
        roots.add_parsable_certificates(read.filter_map(Result::ok));
        if roots.is_empty() {
            return Err(wrong("there is no certificate".into()));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((file, key)) => {
                let wrong = |reason| TrustError::Certificate { file: file.to_owned(), reason };
                let chain = chain(file).map_err(|error| wrong(error.to_string()))?;
                let key = PrivateKeyDer::from_pem_file(key);
                let key = key.map_err(|error| wrong(format!("its key: {error}")))?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| wrong(error.to_string()))?
            }
        };
        Ok(Self { config: Arc::new(config) })
    }

    /// The same, for who speaks TLS in a way of their own.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Speaks TLS with a server that must be called `host`.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        TlsConnector::from(self.config()).connect(name, stream).await
    }
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
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
