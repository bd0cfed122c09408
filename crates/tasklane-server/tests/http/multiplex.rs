//! Live events over HTTP/2, beside other calls on the same connection.

use std::time::{Duration, Instant};

use axum::http::{Method, Request};
use h2::RecvStream;
use h2::client::SendRequest;
use serde_json::json;

use crate::site::{PATIENCE, Site};
use crate::stall::assert_within;

type Client = SendRequest<bytes::Bytes>;

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
    let request =
        Request::builder().method(Method::GET).uri(format!("http://test{path}")).body(()).unwrap();
    let mut client = client.clone().ready().await.unwrap();
    let (answer, _) = client.send_request(request, true).unwrap();
    let (head, body) = answer.await.unwrap().into_parts();
    (head.status.as_u16(), body)
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
