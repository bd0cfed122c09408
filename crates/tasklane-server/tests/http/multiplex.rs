//! Live events over HTTP/2, beside other calls on the same connection.

use std::time::{Duration, Instant};

use axum::http::Request;
use axum::http::response::Parts;
use h2::RecvStream;
use h2::client::SendRequest;
use serde_json::{Value, json};

use crate::site::{PATIENCE, Site};
use crate::stall::assert_within;

type Client = SendRequest<bytes::Bytes>;
type Headers<'a> = &'a [(&'a str, &'a str)];
/// Method, path, headers and content of a request; status and kind of its refusal.
type Case<'a> = (&'a str, &'a str, Headers<'a>, &'static str, u16, &'a str);

async fn connect(site: &Site) -> Client {
    let stream = tokio::net::TcpStream::connect(site.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        // Ends with the server.
        let _ = connection.await;
    });
    client
}

/// Sends a request without a body; gives its status and what follows.
async fn ask(client: &Client, path: &str) -> (u16, RecvStream) {
    let (head, body) = send(client, "GET", path, &[], "").await;
    (head.status.as_u16(), body)
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    headers: Headers<'_>,
    content: &'static str,
) -> (Parts, RecvStream) {
    let mut request = Request::builder().method(method).uri(format!("http://test{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut client = client.clone().ready().await.unwrap();
    let request = request.body(()).unwrap();
    let (answer, mut sending) = client.send_request(request, content.is_empty()).unwrap();
    if !content.is_empty() {
        // Who refuses early need not take it.
        let _ = sending.send_data(content.into(), true);
    }
    answer.await.unwrap().into_parts()
}

/// What a request is refused as: its status, and its problem document.
async fn refused(
    client: &Client,
    method: &str,
    path: &str,
    headers: Headers<'_>,
    content: &'static str,
) -> (u16, Value) {
    let (head, mut body) = send(client, method, path, headers, content).await;
    let text = read_until(&mut body, None).await;
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("content-type"), Some("application/problem+json"), "{head:?} {text}");
    let problem: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problem["request_id"].as_str(), header("x-request-id"), "{head:?}");
    assert_eq!(problem["status"], head.status.as_u16());
    (head.status.as_u16(), problem["type"].clone())
}

/// Reads until the text holds `word`, or to the end where there is none.
async fn read_until(body: &mut RecvStream, word: Option<&str>) -> String {
    let mut text = String::new();
    let reading = async {
        while word.is_none_or(|word| !text.contains(word)) {
            let Some(chunk) = body.data().await else { break };
            let chunk = chunk.unwrap();
            body.flow_control().release_capacity(chunk.len()).unwrap();
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, reading).await;
    assert!(in_time.is_ok(), "did not come: {word:?} in {text}");
    text
}

#[test]
fn a_stream_lives_beside_other_calls_and_ends_with_the_server() {
    let site = Site::new();
    let (client, mut events) = site.run(async {
        let client = connect(&site).await;
        let (status, mut events) = ask(&client, "/api/v1/events?kinds=task.*").await;
        assert_eq!(status, 200);
        read_until(&mut events, Some("system.hello")).await;
        (client, events)
    });
    let id = site.submit(json!({}));
    site.run(async {
        let heard = read_until(&mut events, Some(&id)).await;
        assert!(heard.contains("event: task.submitted"), "{heard}");
        let (status, mut body) = ask(&client, &format!("/api/v1/tasks/{id}")).await;
        assert_eq!(status, 200);
        assert!(read_until(&mut body, None).await.contains(&id));
    });
    let started = Instant::now();
    site.begin_shutdown();
    let last = site.run(read_until(&mut events, None));
    assert!(last.contains("event: system.shutdown"), "{last}");
    drop((client, events));
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(2));
}

#[test]
fn an_idle_connection_is_closed_unless_something_is_under_way() {
    let site = Site::with(|settings, _| settings.headers_within = Duration::from_secs(1));
    site.run(async {
        let idle = connect(&site).await;
        let (status, _) = ask(&idle, "/livez").await;
        assert_eq!(status, 200);
        let busy = connect(&site).await;
        let (status, mut events) = ask(&busy, "/api/v1/events").await;
        assert_eq!(status, 200);
        read_until(&mut events, Some("system.hello")).await;
        let closed = async {
            // Who may not send any more has been told to go.
            while idle.clone().ready().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, closed).await;
        assert!(in_time.is_ok(), "the idle connection was not closed");
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (status, _) = ask(&busy, "/livez").await;
        assert_eq!(status, 200, "the one with a stream on it was not");
    });
}

#[test]
fn what_is_refused_is_a_problem_document_as_over_one_call_at_a_time() {
    let site = Site::new();
    let (large, long) = ("x".repeat(17_000), format!("/api/v1/tasks/{}", "x".repeat(20_000)));
    // 21 KiB, and 40 KiB as HTTP/2 counts: 32 bytes more for each.
    let many: Vec<(String, String)> =
        (0..600).map(|index| (format!("x-{index}"), "x".repeat(30))).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let json = ("content-type", "application/json");
    let tasks = "/api/v1/tasks";
    let deep = Box::leak(format!("{}{}", "[".repeat(65), "]".repeat(65)).into_boxed_str());
    site.run(async {
        let client = connect(&site).await;
        let cases: [Case<'_>; 11] = [
            ("GET", "/livez", &[("x-large", &large)], "", 431, "headers-too-large"),
            ("GET", "/livez", &many, "", 431, "headers-too-large"),
            ("GET", &long, &[], "", 414, "uri-too-long"),
            ("GET", "/api/v2/tasks", &[], "", 404, "not-found"),
            ("PUT", tasks, &[], "", 405, "method-not-allowed"),
            ("POST", tasks, &[json], "{", 400, "malformed-json"),
            ("POST", tasks, &[json], deep, 400, "json-too-deep"),
            ("POST", tasks, &[], "{}", 415, "unsupported-media-type"),
            ("POST", tasks, &[json], "{\"type\":\"a\",\"x\":1}", 422, "validation-failed"),
            ("POST", tasks, &[json], "{\"type\":\"a\",\"priority\":7}", 422, "out-of-range"),
            ("GET", "/api/v1/tasks?cursor=x", &[], "", 400, "invalid-cursor"),
        ];
        for (method, path, headers, content, status, kind) in cases {
            let found = refused(&client, method, path, headers, content).await;
            assert_eq!(found, (status, json!(kind)), "{method} {kind}");
        }
    });
    assert!(site.get("/api/v1/tasks").json()["tasks"].as_array().unwrap().is_empty());
}
