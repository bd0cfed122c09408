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

    /// Sends a request as it is and waits for the answer.
    pub fn call(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        let began = Instant::now();
        self.stream.get_mut().write_all(request)?;
        let (status, length) = self.head()?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        let took = began.elapsed();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, body, took })
    }

    fn head(&mut self) -> Result<(u16, usize), Failure> {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the server closed the connection".into());
            }
            let text = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = text.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().unwrap_or_default().parse()?;
            } else if let Some(rest) = text.strip_prefix("content-length: ") {
                length = rest.parse()?;
            } else if text.is_empty() {
                return Ok((status, length));
            }
        }
    }
}

/// A request as it goes over the wire.
pub fn request(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: proof\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A request without a body.
fn bare(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: proof\r\n\r\n").into_bytes()
}

/// The duration that 99 of 100 do not pass.
pub fn p99(durations: &mut [Duration]) -> Duration {
    durations.sort_unstable();
    let at = (durations.len() * 99).div_ceil(100).saturating_sub(1);
    durations.get(at).copied().unwrap_or_default()
}
