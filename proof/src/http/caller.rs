//! A client with one connection, which measures how long answers take.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Failure;

/// Longer than any answer may take here: what takes longer is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection, kept.
#[derive(Debug)]
pub struct Caller {
    stream: BufReader<TcpStream>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// From the first byte of the request to the last of the answer.
    pub took: Duration,
}

impl Caller {
    /// Connects.
    pub fn new(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Posts a body and waits for the answer.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.call(&request(path, &body.to_string()))
    }

    /// Gets what is there.
    pub fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.call(&bare("GET", path))
    }

    /// Takes away what is there.
    pub fn delete(&mut self, path: &str) -> Result<Answer, Failure> {
        self.call(&bare("DELETE", path))
    }

    /// Makes a worker known; its id.
    pub fn register(&mut self, worker: &Value) -> Result<String, Failure> {
        let answer = self.post("/internal/workers/register", worker)?;
        let id = answer.body.get("worker_id").and_then(Value::as_str);
        let refused = || format!("a registration got {}: {}", answer.status, answer.body);
        Ok(id.ok_or_else(refused)?.to_owned())
    }

    /// Sends a request as it is and waits for the answer.
    pub fn call(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        let began = Instant::now();
        self.stream.get_mut().write_all(request)?;
        let Head { status, length, .. } = read_head(&mut self.stream)?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        let took = began.elapsed();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, body, took })
    }
}

/// What comes before a body.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// Of HTTP.
    pub(crate) status: u16,
    /// Of the body, in bytes.
    pub(crate) length: usize,
    /// Whether it is the answer to something that was sent before.
    pub(crate) replayed: bool,
}

/// Reads what comes before a body.
pub(crate) fn read_head(stream: &mut impl BufRead) -> Result<Head, Failure> {
    let (mut head, mut line) = (Head::default(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("http/1.") {
            head.status = rest.split(' ').nth(1).unwrap_or_default().parse()?;
        } else if let Some(rest) = text.strip_prefix("content-length: ") {
            head.length = rest.parse()?;
        } else if text == "idempotent-replayed: true" {
            head.replayed = true;
        } else if text.is_empty() {
            return Ok(head);
        }
    }
}

/// A request as it goes over the wire.
pub fn request(path: &str, body: &str) -> Vec<u8> {
    request_with("", path, body)
}

/// The same with headers of its own, each with the end of its line.
pub fn request_with(headers: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: proof\r\ncontent-type: application/json\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A request without a body.
fn bare(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: proof\r\n\r\n").into_bytes()
}
