//! TLS from the command line.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::server::Server;

/// Writes a certificate for this machine and its key; the certificate vouches for itself.
fn certify(folder: &Path) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.join("server.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("server.key"), made.signing_key.serialize_pem()).unwrap();
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

fn ask(server: &Server, ca: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["keys", "list", "--server", &format!("https://{}", server.address), "--ca"])
        .arg(ca)
        .output()
        .unwrap()
}

#[test]
fn a_server_speaks_tls_and_takes_a_new_certificate_by_signal() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let (store, ca) = (folder.path().join("store"), folder.path().join("first.pem"));
    std::fs::copy(folder.path().join("server.pem"), &ca).unwrap();
    let file = folder.path().join("tasklane.toml");
    let text = format!(
        "[tls]\nlook_every_ms = 86400000\ncertificate = {:?}\nkey = {:?}\n",
        path(folder.path(), "server.pem"),
        path(folder.path(), "server.key")
    );
    std::fs::write(&file, text).unwrap();
    let server = Server::start(&store, &["--config", file.to_str().unwrap()]);
    let answer = ask(&server, &ca);
    assert!(answer.status.success(), "{answer:?}");

    certify(folder.path());
    assert!(ask(&server, &ca).status.success(), "nobody has looked yet");
    server.signal("HUP");
    let started = Instant::now();
    while !ask(&server, &folder.path().join("server.pem")).status.success() {
        assert!(started.elapsed() < Duration::from_secs(10), "the new one is not used");
    }
    let refused = ask(&server, &ca);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("--ca FILE"), "{text}");
}

#[test]
fn what_cannot_be_used_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let other = tempfile::tempdir().unwrap();
    certify(other.path());
    let start = |certificate: &str, key: &str, listen: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tasklane"))
            .args(["serve", "--store", "memory:", "--listen", listen])
            .args(["--tls-certificate", certificate, "--tls-key", key])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (certificate, key) = (path(folder.path(), "server.pem"), path(folder.path(), "server.key"));
    let text = start("nowhere.pem", &key, "127.0.0.1:0");
    assert!(text.contains("cannot read the certificate nowhere.pem: No such file"), "{text}");
    let text = start(&certificate, &path(other.path(), "server.key"), "127.0.0.1:0");
    assert!(text.contains("is not that of the certificate"), "{text}");
    let text = start(&certificate, &key, "0.0.0.0:0");
    assert!(text.contains("without keys"), "{text}");
}
