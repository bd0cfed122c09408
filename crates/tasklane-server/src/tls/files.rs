//! The files of a certificate and its key, in PEM.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// What is spoken over TLS, the preferred first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// Larger files hold no certificate.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Where certificate and key are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// The certificate, then those between it and one that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Whether clients are asked for certificates too.
    pub clients: Option<ClientFiles>,
}

/// How clients are asked for certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities whose certificates count.
    pub authorities: PathBuf,
    /// Without one there is no connection.
    pub required: bool,
}

/// What is wrong with them, in words for whoever has put them there.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there, or not for us.
    #[error("cannot read {what} {}", .file.display())]
    Read {
        /// What should be in it.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {what}: it should have a block in PEM that begins with -----BEGIN {label}-----", .file.display())]
    Missing {
        /// What should be in it.
        what: &'static str,
        /// How such a block begins.
        label: &'static str,
        /// Which file.
        file: PathBuf,
    },
    /// A file is damaged.
    #[error("{} is not readable as PEM", .file.display())]
    Malformed {
        /// Which file.
        file: PathBuf,
        /// Where it went wrong.
        source: pem::Error,
    },
    /// The key is another's.
    #[error("the key in {} is not that of the certificate in {}: check that both were renewed together", .key.display(), .certificate.display())]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// They fit, but cannot be used.
    #[error("the certificate in {} cannot be used", .file.display())]
    Unusable {
        /// The file of the certificate.
        file: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
    /// A new certificate is over already.
    #[error("the certificate in {} has expired", .0.display())]
    Expired(PathBuf),
}

/// What the files hold.
#[derive(Hash)]
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
}

type Chain = Vec<CertificateDer<'static>>;

impl TlsFiles {
    pub(super) fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents {
            certificate: read("the certificate", &self.certificate)?,
            key: read("the private key", &self.key)?,
            authorities: match &self.clients {
                Some(clients) => read("the authorities of clients", &clients.authorities)?,
                None => Vec::new(),
            },
        })
    }

    /// What the files mean, and the certificates that are shown.
    pub(super) fn config(&self, contents: &Contents) -> Result<(ServerConfig, Chain), TlsError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let key = private_key(&self.key, &contents.key)?;
        let unusable = |source| TlsError::Unusable { file: self.certificate.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &self.clients {
            Some(clients) => {
                builder.with_client_cert_verifier(clients.verifier(&contents.authorities)?)
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain.clone(), key);
        let mut config = config.map_err(|error| self.unfit(error))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        if self.clients.is_some() {
            // A session that goes on is not checked again: who comes back shows the certificate anew.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((config, chain))
    }

    /// What is wrong with a certificate and a key that can be read.
    fn unfit(&self, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            source => TlsError::Unusable { file: self.certificate.clone(), source },
        }
    }
}

impl ClientFiles {
    fn verifier(&self, contents: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let roots = Arc::new(roots(&self.authorities, contents)?);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| {
            let source = rustls::Error::General(error.to_string());
            TlsError::Unusable { file: self.authorities.clone(), source }
        })
    }
}

/// The authorities in a file.
fn roots(file: &Path, contents: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certificates(file, contents)?);
    if taken > 0 {
        return Ok(roots);
    }
    let (what, label) = ("certificate that can be trusted", "CERTIFICATE");
    Err(TlsError::Missing { what, label, file: file.to_owned() })
}

fn read(what: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    let whole = || {
        let length = std::fs::metadata(file)?.len();
        if length > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!("it has {length} bytes")));
        }
        std::fs::read(file)
    };
    whole().map_err(|source| TlsError::Read { what, file: file.to_owned(), source })
}

/// The first private key in a file.
fn private_key(file: &Path, contents: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(contents).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let (what, label) = ("private key", "PRIVATE KEY");
            TlsError::Missing { what, label, file: file.to_owned() }
        }
        source => TlsError::Malformed { file: file.to_owned(), source },
    })
}

fn certificates(file: &Path, contents: &[u8]) -> Result<Chain, TlsError> {
    let chain: Result<Chain, _> = CertificateDer::pem_slice_iter(contents).collect();
    let chain = chain.map_err(|source| TlsError::Malformed { file: file.to_owned(), source })?;
    if chain.is_empty() {
        let (what, label, file) = ("certificate", "CERTIFICATE", file.to_owned());
        return Err(TlsError::Missing { what, label, file });
    }
    Ok(chain)
}
