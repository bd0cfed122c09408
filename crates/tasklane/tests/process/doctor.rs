//! `tasklane doctor` on real servers.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cli::first_key;
use crate::client::call;
use crate::server::Server;

fn doctor(url: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["doctor", "--server", url])
        .args(more)
        .env_remove("TASKLANE_API_KEY")
        .output()
        .unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn verdict(report: &Value, check: &str) -> String {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|found| found["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))["verdict"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_server_that_is_well_is_fine_and_one_without_workers_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let url = format!("http://{}", server.address);
    let well = doctor(&url, &["-o", "json"]);
    let seen = report(&well);
    assert_eq!((well.status.code(), &seen["status"]), (Some(0), &json!("fine")), "{seen}");
    for check in ["reachable", "ready", "version", "door", "durability", "clock", "events"] {
        assert_eq!(verdict(&seen, check), "ok", "{seen}");
    }
    for check in ["disk", "files"] {
        // How much there is depends on the machine; that it was looked at does not.
        assert_ne!(verdict(&seen, check), "unknown", "{seen}");
    }
    server.submit(json!({"type": "a"}));
    call(server.address, "POST", "/admin/queues/default/pause", &json!(null));
    let sick = doctor(&url, &["-o", "json"]);
    let seen = report(&sick);
    assert_eq!((sick.status.code(), &seen["status"]), (Some(1), &json!("problems")), "{seen}");
    assert_eq!(verdict(&seen, "workers"), "problem");
    assert_eq!(verdict(&seen, "queues"), "warning");
    let text = String::from_utf8(doctor(&url, &[]).stdout).unwrap();
    assert!(text.contains("PROBLEM  workers: 1 task waiting, and no worker takes any"), "{text}");
    assert!(text.contains("→ start a worker"), "{text}");
}

#[test]
fn nobody_there_and_nobody_known_are_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let gone = doctor(&format!("http://{address}"), &["-o", "json"]);
    let seen = report(&gone);
    assert_eq!((gone.status.code(), &seen["status"]), (Some(4), &json!("unreachable")), "{seen}");

    let folder = tempfile::tempdir().unwrap();
    let key = first_key(folder.path());
    let server = Server::start(folder.path(), &[]);
    let url = format!("http://{}", server.address);
    let refused = doctor(&url, &["-o", "json"]);
    let seen = report(&refused);
    assert_eq!(refused.status.code(), Some(1), "{seen}");
    assert_eq!(verdict(&seen, "key"), "problem");
    let known = Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["doctor", "--server", &url])
        .env("TASKLANE_API_KEY", key)
        .output()
        .unwrap();
    assert!(known.status.success(), "{known:?}");
}
