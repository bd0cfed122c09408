//! Connections and requests that are not as they should be.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;

use crate::listener::connect_narrow;
use crate::site::{PATIENCE, Reply, Site};
use crate::stall::assert_within;

#[test]
fn bodies_that_are_being_sent_are_bounded_together() {
    let site = Site::with(|settings, _| settings.reading_bytes_max = 100_000);
    let filler = " ".repeat(90_000);
    let mut slow = site.connect();
    let head = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
                content-type: application/json\r\ncontent-length: 90012\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    slow.write_all(filler.as_bytes()).unwrap();
    site.eventually("most of it is there", || site.engine.being_read() == filler.len());
    let large = format!(r#"{}{{"type":"a"}}"#, " ".repeat(20_000));
    site.post_text("/api/v1/tasks", &large).refused(503, "overloaded");
    site.submit(json!({}));
    slow.write_all(br#"{"type":"a"}"#).unwrap();
    assert_eq!(Reply::read(&mut slow).status, 201);
    assert_eq!(site.post_text("/api/v1/tasks", &large).status, 201, "there is room again");
}

#[test]
fn a_request_id_of_the_clients_own_comes_back() {
    let site = Site::new();
    let reply = site.send("GET", "/api/v1/tasks/x", &[("x-request-id", "mine-1")], b"");
    assert_eq!(reply.header("x-request-id"), Some("mine-1"));
    let long = "x".repeat(200);
    let reply = site.send("GET", "/api/v1/tasks/x", &[("x-request-id", &long)], b"");
    assert_ne!(reply.header("x-request-id"), Some(long.as_str()));
}

#[test]
fn an_unknown_route_and_a_wrong_method_are_told_apart() {
    let site = Site::new();
    site.get("/api/v2/tasks").refused(404, "not-found");
    let reply = site.send("PUT", "/api/v1/tasks/batch", &[], b"");
    reply.refused(405, "method-not-allowed");
    assert_eq!(reply.header("allow"), Some("post"));
}

#[test]
fn a_long_target_and_large_headers_are_refused() {
    let site = Site::new();
    let path = format!("/api/v1/tasks/{}", "x".repeat(9_000));
    site.get(&path).refused(414, "uri-too-long");
    let large = "x".repeat(17_000);
    site.send("GET", "/api/v1/tasks/x", &[("x-large", &large)], b"")
        .refused(431, "headers-too-large");
}

#[test]
fn what_cannot_be_read_as_a_request_gets_a_bare_answer() {
    let site = Site::new();
    let large = format!("GET / HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\nhost: t\r\n{}\r\n", "x: y\r\n".repeat(101));
    for (sent, status) in [(&large, 431), (&many, 431), (&"NONSENSE\r\n\r\n".to_owned(), 400)] {
        let reply = site.raw(sent.as_bytes());
        assert_eq!((reply.status, &*reply.text), (status, ""), "{reply:?}");
    }
}

#[test]
fn a_body_over_the_limit_is_refused_declared_or_not() {
    let site = Site::new();
    let head = "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let declared = format!("{head}content-length: 99999999\r\n\r\n");
    site.raw(declared.as_bytes()).refused(413, "payload-too-large");
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..17 {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(&piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    site.raw(&chunked).refused(413, "payload-too-large");
}

#[test]
fn a_payload_over_its_limit_is_refused() {
    let site = Site::new();
    let body = json!({"type": "a", "payload": "x".repeat(256 * 1024)});
    site.post("/api/v1/tasks", &body).refused(413, "payload-too-large");
    let batch = json!({"tasks": [body]});
    site.post("/api/v1/tasks/batch", &batch).refused(413, "payload-too-large");
}

#[test]
fn two_requests_on_one_connection_are_both_answered() {
    let site = Site::new();
    let mut stream = site.connect();
    let body = r#"{"type":"a"}"#;
    let request = |close: &str| {
        format!(
            "POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n{close}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    stream.write_all(request("").as_bytes()).unwrap();
    stream.write_all(request("connection: close\r\n").as_bytes()).unwrap();
    let reply = Reply::read(&mut stream);
    assert_eq!(reply.text.matches("HTTP/1.1 201").count() + usize::from(reply.status == 201), 2);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let site = Site::with(|settings, _| settings.headers_within = Duration::from_millis(100));
    for sent in [&b""[..], b"P", b"PRI * HTTP", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = site.connect();
        stream.write_all(sent).unwrap();
        let started = std::time::Instant::now();
        let reply = Reply::read(&mut stream);
        assert_within(started, Duration::from_secs(5));
        assert_eq!(reply.status, 0, "{sent:?}: nothing was asked");
    }
}

#[test]
fn headers_that_come_too_slowly_are_refused() {
    let site = Site::with(|settings, _| settings.headers_within = Duration::from_secs(1));
    let whole = "GET /livez HTTP/1.1\r\nhost: t\r\n\r\n";
    for sent in ["GET /livez HTTP/1.1\r\nhost:", "G"] {
        let mut stream = site.connect();
        stream.write_all(sent.as_bytes()).unwrap();
        Reply::read(&mut stream).refused(408, "request-timeout");
        // On a connection that has had an answer before, too.
        let mut stream = site.connect();
        stream.write_all(whole.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        let reply = Reply::read(&mut stream);
        let (_, last) = reply.text.split_once("HTTP/1.1 ").unwrap();
        assert!(last.starts_with("408 Request Timeout"), "{reply:?}");
    }
    // One that had its answer and asks nothing more is just closed.
    let mut stream = site.connect();
    stream.write_all(whole.as_bytes()).unwrap();
    assert!(!Reply::read(&mut stream).text.contains("408"));
}

#[test]
fn a_connection_that_falls_silent_is_closed_and_one_that_waits_for_an_answer_is_not() {
    let site = Site::with(|settings, _| settings.headers_within = Duration::from_secs(1));
    let mut idle = site.connect();
    idle.write_all(b"GET /livez HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
    let worker = site.worker();
    let mut waits = site.connect();
    let body = r#"{"available_capacity":1,"wait_ms":4000}"#;
    let request = format!(
        "POST /internal/workers/{}/poll HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        worker.id,
        body.len()
    );
    let started = std::time::Instant::now();
    waits.write_all(request.as_bytes()).unwrap();
    assert_eq!(Reply::read(&mut idle).status, 200);
    assert!(started.elapsed() < PATIENCE, "it was not closed");
    assert_eq!(Reply::read(&mut waits).status, 200);
    assert!(started.elapsed() >= Duration::from_millis(3_900), "it was not closed before");
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_is_closed() {
    let site = Site::with(|settings, _| settings.stall_after = Duration::from_millis(300));
    let payload = "x".repeat(200_000);
    for _ in 0..100 {
        site.submit(json!({ "payload": payload }));
    }
    // Far more than the system keeps for a client: 20 MB of tasks.
    let worker = site.worker();
    let body = r#"{"available_capacity":100}"#;
    let request = format!(
        "POST /internal/workers/{}/poll HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        worker.id,
        body.len()
    );
    let mut greedy = connect_narrow(site.address);
    greedy.write_all(request.as_bytes()).unwrap();
    site.eventually("it is given up", || {
        // What it had not taken is thrown away, and that is told by a reset.
        (&greedy).write_all(b"G").is_err()
    });
    assert_eq!(site.get("/livez").status, 200);
}

#[test]
fn a_path_that_is_no_text_is_not_found() {
    let site = Site::new();
    for path in ["/api/v1/tasks/%FF", "/admin/queues/%C3%28", "/internal/workers/%80/poll"] {
        site.get(path).refused(404, "not-found");
    }
}

#[test]
fn what_is_submitted_beyond_a_bound_is_refused_unread_and_workers_go_on() {
    let site = Site::new();
    let worker = site.worker();
    let half = "x".repeat(512 * 1024);
    let large: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = site.connect();
            let head = "POST /api/v1/tasks/batch HTTP/1.1\r\nhost: t\r\n\
                content-type: application/json\r\ncontent-length: 1048576\r\n\r\n";
            stream.write_all(format!("{head}{half}").as_bytes()).unwrap();
            stream
        })
        .collect();
    // Each of them is known to be under way once half of it has been read.
    site.eventually("all are read", || site.engine.being_read() >= 8 * half.len());
    let single = json!({"type": "a", "payload": "small"});
    site.post("/api/v1/tasks", &single).refused(503, "overloaded");
    site.post("/api/v1/tasks/batch", &json!({"tasks": [single]})).refused(503, "overloaded");
    assert_eq!(worker.call("heartbeat", &json!({})).status, 200);
    assert_eq!(site.get("/api/v1/tasks").status, 200);
    drop(large);
    site.eventually("there is room again", || site.post("/api/v1/tasks", &single).status == 201);
}
