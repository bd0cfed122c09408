//! Live events on a WebSocket.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::events::{flood, flow, load, submit_many};
use crate::listener::{Received, Socket, connect_narrow};
use crate::site::Site;
use crate::stall::assert_within;

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
fn who_comes_back_again_and_again_misses_nothing() {
    let site = Site::new();
    let (tasks, reconnects) = load();
    // Submitted, claimed, completed; and one worker that joined.
    let expected = 3 * tasks + 1;
    let mut socket = Socket::open(&site, "/ws", "").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| flow(&site, tasks));
        let (mut heard, mut last) = (0, None);
        while heard < expected {
            let event = socket.expect();
            if event["cursor"].is_null() || event["type"].as_str().unwrap().starts_with("system.") {
                continue;
            }
            let seq = event["seq"].as_u64().unwrap();
            assert!(last.is_none_or(|last| seq == last + 1), "{last:?}: {event}");
            (heard, last) = (heard + 1, Some(seq));
            if heard % (expected / reconnects) == 0 {
                let cursor = event["cursor"].as_str().unwrap();
                socket = Socket::open(&site, &format!("/ws?cursor={cursor}"), "").unwrap();
            }
        }
    });
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
fn a_client_that_talks_now_and_then_outlives_the_time_that_headers_have() {
    let headers_within = Duration::from_secs(1);
    let site = Site::with(|settings, _| settings.headers_within = headers_within);
    let mut socket = Socket::open(&site, "/ws?kinds=task.submitted", "").unwrap();
    socket.expect();
    socket.send(9, b"hello");
    assert_eq!(socket.next(), Received::Pong(b"hello".to_vec()));
    let started = Instant::now();
    while started.elapsed() < headers_within * 3 {
        let id = site.submit(json!({}));
        assert_eq!(socket.expect()["data"]["task_id"], id);
    }
}

#[test]
fn a_client_that_closes_is_answered_with_its_own_code() {
    let site = Site::new();
    for code in [1000u16, 1001] {
        let mut socket = Socket::open(&site, "/ws", "").unwrap();
        socket.expect();
        socket.send(8, &[&code.to_be_bytes(), b"bye".as_slice()].concat());
        assert_eq!(socket.next(), Received::Closed(Some(code)));
        assert_eq!(socket.next(), Received::Closed(None));
    }
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
    assert_within(started, Duration::from_secs(2));
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

/// Whether a reader in whose way the end came was told so; then by where it is.
fn is_told_of_the_end_in_the_middle() -> bool {
    let site = Site::new();
    let path = "/ws?kinds=task.*";
    let mut socket = Socket::on(connect_narrow(site.address), path, "").unwrap();
    let mut last = socket.expect();
    for _ in 0..5 {
        submit_many(&site, 2_000, &"n".repeat(128), &"n".repeat(128));
    }
    site.begin_shutdown();
    let mut received = 0;
    while let Received::Event(event) = socket.next() {
        if event["type"] == "system.shutdown" {
            assert_eq!(event["cursor"], last["cursor"], "behind what came, after {received}");
            return received < 10_000;
        }
        (last, received) = (event, received + 1);
    }
    false
}

#[test]
fn who_is_told_of_the_end_goes_on_where_it_was() {
    // One that does not read in time is not told, and one that has everything was not in the middle.
    assert!((0..5).any(|_| is_told_of_the_end_in_the_middle()));
}

#[test]
fn who_falls_too_far_behind_is_told_and_dropped() {
    let site = Site::with(|settings, _| settings.slow_reader_behind = 1_000);
    let path = "/ws?kinds=task.*";
    let mut socket = Socket::on(connect_narrow(site.address), path, "").unwrap();
    assert_eq!(socket.expect()["type"], "system.hello");
    site.submit(json!({}));
    assert_eq!(socket.expect()["type"], "task.submitted");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&site, || over.load(Ordering::Relaxed)));
        let (mut before, mut last) = (None, None);
        let code = loop {
            // Reads on, but not as fast as it comes.
            std::thread::sleep(Duration::from_millis(1));
            match socket.next() {
                Received::Event(event) => before = last.replace(event),
                Received::Closed(code) => break code,
                Received::Pong(_) => {}
            }
        };
        over.store(true, Ordering::Relaxed);
        let (before, gap) = (before.unwrap(), last.unwrap());
        assert_eq!(gap["cursor"], before["cursor"]);
        assert_eq!(
            (&gap["type"], &gap["data"]["gap"]),
            (&json!("system.gap"), &json!("slow_reader"))
        );
        assert_eq!(code, Some(1013));
        let cursor = gap["cursor"].as_str().unwrap();
        let mut again = Socket::open(&site, &format!("/ws?cursor={cursor}"), "").unwrap();
        assert_eq!(again.expect()["type"], "task.submitted", "its cursor is where it left off");
    });
}

#[test]
fn who_takes_nothing_any_more_is_dropped() {
    let site = Site::with(|settings, _| {
        settings.slow_reader_after = Duration::from_millis(200);
    });
    let mut socket = Socket::on(connect_narrow(site.address), "/ws", "").unwrap();
    assert_eq!(socket.expect()["type"], "system.hello");
    let started = Instant::now();
    flood(&site, || {
        assert_within(started, Duration::from_secs(20));
        site.engine.feed().readers() == 0
    });
    assert_eq!(site.engine.feed().sockets(), 0);
}
