//! TLS from the command line.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::server::Server;

/// Writes a certificate for this machine and its key; the certificate vouches for itself.
fn certify(folder: &Path) {
    certify_as(folder, "server", &["localhost", "127.0.0.1"]);
}

fn certify_as(folder: &Path, file: &str, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(folder.join(format!("{file}.pem")), made.cert.pem()).unwrap();
    std::fs::write(folder.join(format!("{file}.key")), made.signing_key.serialize_pem()).unwrap();
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

#[test]
fn who_shows_a_certificate_that_the_file_names_needs_no_key() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    certify_as(folder.path(), "operator", &["operator.example.org"]);
    let file = folder.path().join("tasklane.toml");
    let text = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nclient_certificates = \"required\"\n\
         [[client_certificates]]\nname = \"operator.example.org\"\nscopes = [\"read\", \"admin\"]\n",
        path(folder.path(), "server.pem"),
        path(folder.path(), "server.key"),
        path(folder.path(), "operator.pem"),
    );
    std::fs::write(&file, text).unwrap();
    let server = Server::start(&folder.path().join("store"), &["--config", file.to_str().unwrap()]);
    let ask = |own: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasklane"));
        command.args(["doctor", "-o", "json", "--server", &format!("https://{}", server.address)]);
        command.env("TASKLANE_CA", path(folder.path(), "server.pem"));
        for (name, file) in own {
            command.env(name, path(folder.path(), file));
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = ask(&[
        ("TASKLANE_CLIENT_CERTIFICATE", "operator.pem"),
        ("TASKLANE_CLIENT_KEY", "operator.key"),
    ]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("who calls is asked") && text.contains("certificate"), "{text}");
    let (code, text) = ask(&[]);
    assert_eq!(code, Some(4), "{text}");
}
