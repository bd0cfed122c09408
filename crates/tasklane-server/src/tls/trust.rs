//! TLS towards other servers: whom to trust.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;

use super::files::{TlsError, TlsFiles, certificates, private_key, read, roots};

/// Names another file with the authorities of the system, by a convention of many programs.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";
/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Authorities whose certificates are believed.
#[derive(Clone)]
pub struct Trust(TlsConnector);

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Trusts the authorities in `file`; without one, those of the system. Where it is asked for a
    /// certificate, it shows its `own`.
    pub fn new(file: Option<&Path>, own: Option<&TlsFiles>) -> Result<Self, TlsError> {
        let file = file.map_or_else(system_file, Path::to_owned);
        let contents = read("the authorities to trust", &file)?;
        let roots = roots(&file, &contents)?;
        let unusable = |source| TlsError::Unusable { file: file.clone(), source };
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = read("the certificate", &own.certificate)?;
                let chain = certificates(&own.certificate, &chain)?;
                let key = private_key(&own.key, &read("the private key", &own.key)?)?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| own.unfit(error))?
            }
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Speaks TLS with a server that must be called `host`.
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

fn system_file() -> PathBuf {
    if let Some(named) = std::env::var_os(SYSTEM_VARIABLE).filter(|named| !named.is_empty()) {
        return named.into();
    }
    let there = SYSTEM_FILES.into_iter().find(|file| Path::new(file).exists());
    there.or(SYSTEM_FILES.first().copied()).unwrap_or_default().into()
}
