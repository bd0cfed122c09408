//! How a server ends.

use std::io::{Read, Write};
use std::net::TcpStream;
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

/// A submission that is under way: its last byte is missing.
fn begin_submission(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
        .write_all(
            b"POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
              content-length: 12\r\nexpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    // It has begun once its body is asked for.
    let mut asked_for = [0; 25];
    stream.read_exact(&mut asked_for).unwrap();
    assert_eq!(&asked_for, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(br#"{"type":"a""#).unwrap();
    stream
}

fn await_the_end_of_accepting(server: &Server) {
    let asked = Instant::now();
    while TcpStream::connect(server.address).is_ok() {
        assert!(asked.elapsed() < Duration::from_secs(20), "it still accepts");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_call_that_is_under_way_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let mut submission = begin_submission(&server);
    server.signal("TERM");
    await_the_end_of_accepting(&server);
    submission.write_all(b"}").unwrap();
    let mut answer = String::new();
    submission.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let mut submission = begin_submission(&server);
    server.signal("TERM");
    await_the_end_of_accepting(&server);
    assert!(server.child.try_wait().unwrap().is_none(), "it waits for the call");
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    let mut answer = String::new();
    let _ = submission.read_to_string(&mut answer);
    assert_eq!(answer, "");
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
