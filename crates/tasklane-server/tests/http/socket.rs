//! Live events on a WebSocket.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::listener::{Received, Socket};
use crate::site::Site;

#[test]
fn each_event_is_one_text() {
    let site = Site::new();
    for path in ["/ws", "/api/v1/ws"] {
        let mut socket = Socket::open(&site, &format!("{path}?kinds=task.*"), "").unwrap();
        assert_eq!(socket.expect()["type"], "system.hello");
        let id = site.submit(json!({}));
        let event = socket.expect();
        assert_eq!(
            (&event["type"], &event["data"]["task_id"]),
            (&json!("task.submitted"), &json!(id))
        );
    }
}

#[test]
fn a_cursor_resumes() {
    let site = Site::new();
    let mut socket = Socket::open(&site, "/ws", "").unwrap();
    let cursor = socket.expect()["cursor"].as_str().unwrap().to_owned();
    drop(socket);
    let ids: Vec<_> = (0..3).map(|_| site.submit(json!({}))).collect();
    let mut socket = Socket::open(&site, &format!("/ws?cursor={cursor}"), "").unwrap();
    for id in ids {
        assert_eq!(socket.expect()["data"]["task_id"], id);
    }
}

#[test]
fn pages_of_other_hosts_are_refused() {
    let site = Site::new();
    for own in ["", "origin: http://test\r\n", "origin: https://TEST\r\n"] {
        assert!(Socket::open(&site, "/ws", own).is_ok(), "{own}");
    }
    for foreign in ["http://evil.example", "null", "http://test:8080"] {
        let refused = Socket::open(&site, "/ws", &format!("origin: {foreign}\r\n"));
        assert!(refused.err().unwrap().starts_with("http/1.1 403"), "{foreign}");
    }
    let reply = site.send("GET", "/ws", &[("origin", "http://evil.example")], b"");
    reply.refused(403, "origin-forbidden");
}

#[test]
fn a_plain_request_is_told_what_to_ask_for() {
    let site = Site::new();
    site.get("/ws").refused(422, "validation-failed");
}

#[test]
fn pings_are_answered_and_talk_is_ignored() {
    let site = Site::new();
    let mut socket = Socket::open(&site, "/ws", "").unwrap();
    socket.expect();
    socket.send(1, b"is anybody there?");
    socket.send(9, b"hello");
    assert_eq!(socket.next(), Received::Pong(b"hello".to_vec()));
    site.submit(json!({}));
    assert_eq!(socket.expect()["type"], "task.submitted");
    socket.send(1, &[b'x'; 10_000]);
    while !matches!(socket.next(), Received::Closed(_)) {}
}

#[test]
fn the_end_of_the_server_closes_with_its_code() {
    let site = Site::new();
    let mut socket = Socket::open(&site, "/ws", "").unwrap();
    socket.expect();
    let started = Instant::now();
    site.begin_shutdown();
    let last = socket.expect();
    assert_eq!(last["type"], "system.shutdown");
    assert_eq!(last["data"]["retry_after_ms"], 1_000);
    assert_eq!(socket.next(), Received::Closed(Some(1012)));
    socket.send(8, &1012u16.to_be_bytes());
    assert!(site.ended().is_ok());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn a_socket_that_is_left_frees_its_place() {
    let site = Site::new();
    let mut socket = Socket::open(&site, "/ws", "").unwrap();
    socket.expect();
    assert_eq!((site.engine.feed().sockets(), site.engine.feed().readers()), (1, 1));
    drop(socket);
    site.eventually("the place is free", || site.engine.feed().readers() == 0);
}
