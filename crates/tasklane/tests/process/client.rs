//! The smallest HTTP client that will do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long what must come may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request; gives the status and the body.
pub(crate) fn call(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    try_call(address, method, path, body).expect("an answer")
}

/// The same with a key.
pub(crate) fn call_with(
    address: SocketAddr,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let key = format!("authorization: Bearer {key}\r\n");
    exchange(address, &key, method, path, body).expect("an answer")
}

pub(crate) fn try_call(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &Value,
) -> std::io::Result<(u16, Value)> {
    exchange(address, "", method, path, body)
}

fn exchange(
    address: SocketAddr,
    headers: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> std::io::Result<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(90)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
