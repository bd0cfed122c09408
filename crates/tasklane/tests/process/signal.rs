//! How a server ends.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{call, try_call};
use crate::server::Server;

#[test]
fn a_signal_ends_it_with_success_and_waiting_polls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let address = server.address;
    let worker = call(address, "POST", "/internal/workers/register", &json!({})).1;
    let path = format!("/internal/workers/{}/poll", worker["worker_id"].as_str().unwrap());
    let waiting = std::thread::spawn(move || {
        call(address, "POST", &path, &json!({"available_capacity": 1, "wait_ms": 60_000}))
    });
    let parked = || call(address, "GET", "/admin/health", &json!(null)).1["parked_polls"] == 1;
    let asked = Instant::now();
    while !parked() {
        assert!(asked.elapsed() < Duration::from_secs(10), "the poll does not wait");
    }
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(waiting.join().unwrap().0, 200);
    assert!(server.child.wait().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(try_call(address, "GET", "/livez", &json!(null)).is_err(), "it accepts no more");
}

#[test]
fn a_second_server_on_the_same_store_says_so_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), &[]);
    let second = Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["serve", "--listen", "127.0.0.1:0", "--store"])
        .arg(format!("sqlite:{}", folder.path().display()))
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let text = String::from_utf8_lossy(&second.stderr);
    assert!(text.contains("another process"), "{text}");
}

#[test]
fn a_store_it_does_not_know_is_refused_with_the_ones_it_does() {
    let output = Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["serve", "--store", "oracle:x"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("sqlite:FOLDER"));
}
