//! Certificates for one test, and clients that trust them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use tasklane_server::tls::TlsFiles;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::site::{PATIENCE, Site};

/// A connection over TLS.
pub(crate) type Secured = StreamOwned<ClientConnection, TcpStream>;

/// Whoever signs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority for a test");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for a server on this machine.
    pub(crate) fn issue(&self) -> Issued {
        self.sign(|_| {})
    }

    /// One that is over.
    pub(crate) fn issue_expired(&self) -> Issued {
        self.sign(|params| params.not_after = date_time_ymd(2020, 1, 1))
    }

    /// One for a client, with a common name and alternative ones.
    pub(crate) fn issue_for(&self, name: &str, others: &[SanType]) -> Issued {
        self.sign(|params| {
            params.subject_alt_names = others.to_vec();
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }

    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// A client that trusts this authority and shows a certificate, if it has one.
    pub(crate) fn client(&self, protocols: &[&str], own: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = protocols.iter().map(|word| word.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Connects; the handshake happens with the first bytes.
    pub(crate) fn connect(&self, site: &Site, own: Option<&Issued>) -> Secured {
        let stream = site.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let client = self.client(&["http/1.1"], own);
        StreamOwned::new(ClientConnection::new(client, localhost()).unwrap(), stream)
    }
}

impl Issued {
    /// The certificate as it goes over the wire.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }

    /// Writes both into a folder, over what is there.
    pub(crate) fn write(&self, folder: &Path) -> TlsFiles {
        let files = TlsFiles {
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
            ..TlsFiles::default()
        };
        std::fs::write(&files.certificate, &self.certificate).unwrap();
        std::fs::write(&files.key, &self.key).unwrap();
        files
    }
}

pub(crate) fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Writes a file; gives its path.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}
