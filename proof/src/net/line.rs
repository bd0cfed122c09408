//! A client with one connection that gives up when nothing comes back, and does not know then what
//! has happened.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::Failure;
use crate::http::caller::{Head, read_head};

/// How long making a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_millis(1_500);
/// How long an answer may take beyond what it was asked to wait.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(2_000);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// Whether it is the answer to something that was sent before.
    pub replayed: bool,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// It says to come again, or that nothing is known.
    pub const fn is_for_now(&self) -> bool {
        matches!(self.status, 429 | 503)
    }
}

/// A way to one server, made anew after each failure.
#[derive(Debug)]
pub struct Line {
    /// Where it leads.
    pub address: SocketAddr,
    key: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Line {
    /// Nothing is connected before it is needed.
    pub fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned(), stream: None }
    }

    /// Leads elsewhere from now on.
    pub fn turn_to(&mut self, address: SocketAddr) {
        if self.address != address {
            (self.address, self.stream) = (address, None);
        }
    }

    /// Asks for something.
    pub fn get(&mut self, path: &str) -> Result<Answer, Failure> {
        self.call("GET", path, "", ANSWER_WITHIN)
    }

    /// Posts a body and waits for the answer.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.call("POST", path, &body.to_string(), ANSWER_WITHIN)
    }

    /// The same for what was asked to wait.
    pub fn post_and_wait(
        &mut self,
        path: &str,
        body: &Value,
        wait: Duration,
    ) -> Result<Answer, Failure> {
        self.call("POST", path, &body.to_string(), wait + ANSWER_WITHIN)
    }

    fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        within: Duration,
    ) -> Result<Answer, Failure> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: proof\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address)?,
        };
        stream.get_ref().set_read_timeout(Some(within))?;
        stream.get_mut().write_all(request.as_bytes())?;
        let Head { status, length, replayed } = read_head(&mut stream)?;
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        // Kept only when all is well: what comes late is not an answer to the next call.
        self.stream = Some(stream);
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, replayed, body })
    }

    /// Begins to follow the feed after a cursor, on a connection of its own; lines come as they are
    /// sent, for HTTP/1.0 knows no chunks.
    pub fn follow(
        &self,
        cursor: Option<&str>,
        quiet_max: Duration,
    ) -> Result<BufReader<TcpStream>, Failure> {
        let mut stream = connect(self.address)?;
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let request = format!(
            "GET /api/v1/events?kinds=task.*{after} HTTP/1.0\r\nhost: proof\r\nx-api-key: {}\r\n\r\n",
            self.key
        );
        stream.get_ref().set_read_timeout(Some(quiet_max))?;
        stream.get_mut().write_all(request.as_bytes())?;
        match read_head(&mut stream)?.status {
            200 => Ok(stream),
            status => Err(format!("the feed was answered {status}").into()),
        }
    }
}

fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>, Failure> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    Ok(BufReader::new(stream))
}
