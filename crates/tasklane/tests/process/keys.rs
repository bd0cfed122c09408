//! Keys and the audit log from the command line.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::client::{call, call_with};
use crate::server::Server;

/// Runs the binary on the store in `folder`, or on a server with a key.
fn tasklane(folder: &Path, server: Option<(&Server, &str)>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tasklane"));
    command.args(arguments).env("TASKLANE_STORE", format!("sqlite:{}", folder.display()));
    if let Some((server, key)) = server {
        command.env("TASKLANE_SERVER", format!("http://{}", server.address));
        command.env("TASKLANE_API_KEY", key);
    }
    command.output().unwrap()
}

#[track_caller]
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_first_key_closes_the_server_and_makes_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = text(&tasklane(folder.path(), None, &["keys", "bootstrap"]));
    let again = refused(&tasklane(folder.path(), None, &["keys", "bootstrap"]));
    assert!(again.contains("keys create") && again.contains(&root[..15]), "{again}");

    let server = Server::start(folder.path(), &[]);
    let (status, _) = call(server.address, "GET", "/api/v1/tasks", &Value::Null);
    assert_eq!(status, 401);
    let in_use = refused(&tasklane(folder.path(), None, &["keys", "list"]));
    assert!(in_use.contains("--server"), "{in_use}");

    let with_root = Some((&server, root.as_str()));
    let create = ["keys", "create", "--name", "reader", "--scope", "read", "--queue", "mail*"];
    let key = text(&tasklane(folder.path(), with_root, &create));
    let (status, _) = call_with(server.address, &key, "GET", "/api/v1/tasks", &Value::Null);
    assert_eq!(status, 200);
    let listed = text(&tasklane(folder.path(), with_root, &["keys", "list"]));
    assert!(listed.contains("read in mail*") && !listed.contains(&key), "{listed}");
    let forbidden =
        refused(&tasklane(folder.path(), Some((&server, key.as_str())), &["keys", "list"]));
    assert!(forbidden.contains("scope admin"), "{forbidden}");

    text(&tasklane(folder.path(), with_root, &["keys", "revoke", "--yes", &key[..15]]));
    let (status, _) = call_with(server.address, &key, "GET", "/api/v1/tasks", &Value::Null);
    assert_eq!(status, 401);

    let verified = text(&tasklane(folder.path(), with_root, &["audit", "verify"]));
    assert!(verified.starts_with("whole: records 1 to "), "{verified}");
    drop(server);
    let noted = verified.rsplit(' ').next().unwrap();
    let arguments = ["audit", "verify", "--noted", noted];
    text(&tasklane(folder.path(), None, &arguments));
    let log = text(&tasklane(folder.path(), None, &["audit", "list"]));
    let bootstrap = |line: &str| line.contains(" machine ") && line.contains("keys bootstrap tl_");
    assert!(log.lines().any(bootstrap), "{log}");
    assert!(log.contains(&format!("DELETE /admin/keys/{}", &key[..15])), "{log}");
    assert!(!log.contains(&root[16..]) && !log.contains(&key[16..]), "a secret is in {log}");
}

#[test]
fn a_reload_neither_opens_a_server_nor_closes_it_and_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let root = text(&tasklane(&store, None, &["keys", "bootstrap"]));
    let file = folder.path().join("tasklane.toml");
    std::fs::write(&file, "").unwrap();
    let server = Server::start(&store, &["--config", file.to_str().unwrap()]);
    std::fs::write(&file, "auth = \"off\"\nguard_metrics = true\n").unwrap();
    let reload = |key: &str| call_with(server.address, key, "POST", "/admin/reload", &Value::Null);
    assert_eq!(reload("tl_nonsense").0, 401);
    let (status, answer) = reload(&root);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer, json!({"applied": ["guard_metrics"], "needs_restart": ["auth"]}));
    for path in ["/api/v1/tasks", "/metrics"] {
        assert_eq!(call(server.address, "GET", path, &Value::Null).0, 401, "{path}");
    }
    let log = text(&tasklane(&store, Some((&server, &root)), &["audit", "list"]));
    assert!(log.contains("POST /admin/reload"), "{log}");
}

#[test]
fn keys_are_made_in_the_store_that_the_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("store"), folder.path().join("tasklane.toml"));
    std::fs::write(&file, format!("store = \"sqlite:{}\"\n", store.display())).unwrap();
    let bootstrap = ["keys", "bootstrap", "--config", file.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_tasklane")).args(bootstrap).output().unwrap();
    text(&output);
    let listed = text(&tasklane(&store, None, &["keys", "list"]));
    assert!(listed.contains("admin"), "{listed}");
}

#[test]
fn an_open_server_is_not_for_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--auth", "off"]] {
        let mut arguments = vec!["serve", "--listen", "0.0.0.0:0"];
        arguments.extend(more);
        let message = refused(&tasklane(folder.path(), None, &arguments));
        assert!(message.contains("tasklane keys bootstrap --store"), "{message}");
        assert!(message.contains("127.0.0.1"), "{message}");
    }
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--auth", "keys"];
    let message = refused(&tasklane(folder.path(), None, &arguments));
    assert!(message.contains("tasklane keys bootstrap"), "{message}");
}

#[test]
fn help_shows_how_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let help = text(&tasklane(folder.path(), None, &["keys", "--help"]));
    assert!(help.contains("tasklane keys bootstrap") && help.contains("--scope"), "{help}");
}
