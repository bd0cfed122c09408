//! TLS from the command line.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::cli::{first_key, printed, said, tasklane};
use crate::server::Server;
use crate::terminal::Terminal;

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

/// A server with TLS and keys, and the profile `closed` for it in a user's home.
fn closed(home: &Path) -> Server {
    certify(home);
    let store = home.join("store");
    let profiles = home.join("tasklane");
    std::fs::create_dir_all(&profiles).unwrap();
    std::fs::write(profiles.join("closed.key"), first_key(&store)).unwrap();
    let (certificate, key) = (path(home, "server.pem"), path(home, "server.key"));
    let server = Server::start(&store, &["--tls-certificate", &certificate, "--tls-key", &key]);
    let profile = format!(
        "[profiles.closed]\nserver = \"https://{}\"\napi_key_file = \"closed.key\"\nca = {certificate:?}\n",
        server.address
    );
    std::fs::write(profiles.join("profiles.toml"), profile).unwrap();
    server
}

#[test]
fn a_load_goes_through_tls_with_the_key_of_a_profile() {
    let home = tempfile::tempdir().unwrap();
    let server = closed(home.path());
    let bench = |arguments: &[&str]| {
        let flags = ["--profile", "closed", "-o", "json"];
        let output = tasklane(home.path(), &[&["bench"], arguments, &flags].concat()).output();
        let report = printed(&output.unwrap(), 0);
        serde_json::from_str::<serde_json::Value>(&report).unwrap()
    };
    // A batch of a megabyte is more than a socket and TLS take at once.
    let batches = ["submit", "--tasks", "4000", "--batch", "1000", "--payload", "1000"];
    let seen = bench(&[&batches[..], &["--connections", "3"]].concat());
    let measure = &seen["measures"][0];
    assert_eq!((measure["tasks"].as_u64(), measure["wrong"].as_u64()), (Some(4_000), Some(0)));
    assert_eq!(seen["server"], format!("https://{}", server.address));
    let seen = bench(&["drain", "--filled", "--tasks", "4000", "--workers", "3"]);
    assert_eq!(seen["left"]["ended"], 4_000, "{seen}");
    let seen = bench(&["latency", "--rate", "50", "--seconds", "0.5", "--events", "--clean"]);
    for measure in seen["measures"].as_array().unwrap() {
        let counts = (measure["tasks"].as_u64(), measure["wrong"].as_u64());
        assert_eq!(counts, (Some(24), Some(0)), "{measure}");
    }

    let url = format!("https://{}", server.address);
    let certificate = path(home.path(), "server.pem");
    let run = |arguments: &[&str]| tasklane(home.path(), arguments).output().unwrap();
    let text = said(&run(&["bench", "submit", "--server", &url, "--ca", &certificate]), 1);
    assert!(text.contains("401 unauthenticated"), "{text}");
    certify_as(home.path(), "stranger", &["127.0.0.1"]);
    let stranger = path(home.path(), "stranger.pem");
    let text = said(&run(&["bench", "submit", "--server", &url, "--ca", &stranger]), 4);
    assert!(text.contains("--ca FILE"), "{text}");
}

#[test]
fn the_dashboard_watches_through_tls_with_the_key_of_a_profile() {
    let home = tempfile::tempdir().unwrap();
    let _server = closed(home.path());
    let submit = ["submit", "a", "--queue", "mail", "--profile", "closed"];
    printed(&tasklane(home.path(), &submit).output().unwrap(), 0);
    let terminal = Terminal::start(home.path(), "top --profile closed --every 0.2");
    terminal.shows(&["https://127.0.0.1", "Queues 1", "mail"]);
    terminal.press("q");
    terminal.has_ended();
}
