//! Calls over TLS.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tasklane_client::call::Retries;
use tasklane_client::{Client, Error, ErrorClass};
use tasklane_server::tls::{Tls, TlsFiles, TlsSettings};
use tasklane_server::{Server, Settings};
use tasklane_sqlite::{Options, SqliteStore};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Writes an authority, and a certificate of it for `localhost`, into a folder.
fn certify(folder: &Path) -> TlsFiles {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("authority.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let files = TlsFiles {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        ..TlsFiles::default()
    };
    std::fs::write(&files.certificate, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_is_called_and_another_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Tls::open(TlsSettings::new(certify(folder.path()))).unwrap();
    let store = Arc::new(SqliteStore::in_memory(&Options::default()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::new(store, Settings::default()).with_tls(tls);
    tokio::spawn(server.run(listener, CancellationToken::new()));

    let client = |host: &str, authority: &Path| {
        let client = Client::builder(format!("https://{host}:{port}"));
        client.retries(Retries::NONE).authorities(authority).build()
    };
    let trusting = client("localhost", &folder.path().join("authority.pem")).unwrap();
    assert_eq!(trusting.get_health().await.unwrap().status, "ok");
    // Certified for another name than the one it is called by.
    let misled = client("127.0.0.1", &folder.path().join("authority.pem")).unwrap();
    let error = misled.get_health().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unreachable);
    assert!(error.to_string().contains("certificate"), "{error}");
    // Signed by somebody else than the one that is trusted.
    let other = tempfile::tempdir().unwrap();
    certify(other.path());
    let distrustful = client("localhost", &other.path().join("authority.pem")).unwrap();
    let error = distrustful.get_health().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    let nobody = client("localhost", &folder.path().join("server.key")).unwrap_err();
    assert_eq!(nobody.class(), ErrorClass::Usage);
}
