//! The end of a server.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;
use tasklane_core::StateName;
use tasklane_server::ServerError;
use tasklane_server::engine::Poll;
use tasklane_store::conformance::block_on;

use crate::site::{Reply, Site};
use crate::stall::assert_within;

#[test]
fn a_waiting_poll_is_answered_and_the_server_ends() {
    let site = Site::new();
    let worker = site.worker();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| worker.call("poll", &json!({"available_capacity": 1, "wait_ms": 60_000})));
        site.await_parked(1);
        site.begin_shutdown();
        let reply = waiting.join().unwrap();
        assert_eq!((reply.status, reply.json()["tasks"].clone()), (200, json!([])));
        assert_eq!(reply.header("retry-after"), Some("1"));
    });
    drop(worker);
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(5));
}

#[test]
fn who_comes_while_it_ends_is_told_so() {
    let site = Site::new();
    site.engine.drain();
    for path in ["/events", "/readyz"] {
        let reply = site.get(path);
        reply.refused(503, "shutting-down");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

#[test]
fn idle_connections_do_not_hold_it_up() {
    let site = Site::new();
    let idle: Vec<_> = (0..10).map(|_| site.connect()).collect();
    let started = Instant::now();
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(5));
    drop(idle);
}

#[test]
fn requests_that_have_only_begun_do_not_hold_it_up() {
    let site = Site::new();
    let begin = |sent: &[u8]| {
        let mut stream = site.connect();
        stream.write_all(sent).unwrap();
        stream
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let begun = [&b"G"[..], b"GET /livez HTTP/1.1\r\nhost:", b"PRI * HT", preface].map(begin);
    // Those behind them were answered, so that they were read.
    assert!((0..20).all(|_| site.get("/livez").status == 200));
    let started = Instant::now();
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(5));
    drop(begun);
}

#[test]
fn a_request_whose_last_byte_comes_while_it_ends_is_answered() {
    let site = Site::new();
    let mut stream = site.connect();
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r").unwrap();
    assert!((0..20).all(|_| site.get("/livez").status == 200));
    site.begin_shutdown();
    stream.write_all(b"\n").unwrap();
    assert_eq!(Reply::read(&mut stream).status, 200);
    assert!(site.ended().is_ok());
}

#[test]
fn what_does_not_end_in_time_is_cut_off() {
    let site = Site::with(|settings, _| settings.shutdown_within = Duration::from_millis(300));
    let mut endless = site.connect();
    let head = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
        content-length: 50\r\n\r\n{";
    endless.write_all(head.as_bytes()).unwrap();
    site.eventually("its body is read", || site.engine.being_read() > 0);
    let started = Instant::now();
    assert!(matches!(site.ended(), Err(ServerError::CutOff(1))));
    assert_within(started, Duration::from_secs(5));
}

#[test]
fn what_was_begun_for_a_caller_that_has_gone_is_finished() {
    let site = Site::new();
    let worker = site.worker().id.parse().unwrap();
    let (engine, store) = (site.engine.clone(), site.store.clone());
    let wait = Duration::ZERO;
    let poll = Poll { worker, count: 1, auto_start: true, narrowed: None, wait };
    // Looks once and goes: now and then the answer is there already.
    let left = || {
        let id = site.submit(json!({}));
        let has_left = site.run(async {
            tokio::select! {
                biased;
                _ = engine.poll(poll.clone()) => false,
                () = std::future::ready(()) => true,
            }
        });
        has_left.then(|| id.parse().unwrap())
    };
    let id = (0..50).find_map(|_| left()).expect("one answer takes a moment");
    assert!(site.ended().is_ok());
    let stored = block_on(store.get(vec![id])).unwrap().remove(0).unwrap();
    assert_eq!(stored.task.state.name(), StateName::Pending);
    assert_eq!(stored.task.counts.deliveries, 1, "it was claimed and given back");
}
