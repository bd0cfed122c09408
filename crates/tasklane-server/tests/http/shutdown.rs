//! The end of a server.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::site::Site;

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
    });
    drop(worker);
    assert!(site.ended().is_ok());
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn idle_connections_do_not_hold_it_up() {
    let site = Site::new();
    let idle: Vec<_> = (0..10).map(|_| site.connect()).collect();
    let started = Instant::now();
    assert!(site.ended().is_ok());
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(idle);
}
