//! A server process, and what is said to it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Wrong, broken, json};
use crate::Failure;
use crate::http::site::Site;

/// Without an answer for so long, something hangs.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// No answer to a call that asked for a wait is looked for beyond this.
const WAIT_PATIENCE: Duration = Duration::from_millis(30);
/// Answers are no longer than this, or they have no end.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Nothing here is about the disk.
const SETTINGS: [(&str, &str); 1] = [("TASKLANE_DURABILITY", "none")];

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Of HTTP.
    pub status: u16,
    /// Status line and headers, in small letters.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A member of the body that is text.
    pub fn text(&self, name: &str) -> Option<String> {
        // Not as numbers and all: a payload may hold some that fit nowhere.
        serde_json::from_slice(json::member(&self.body, &[name])?).ok()
    }

    /// Whether it was taken.
    pub fn is_taken(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What every answer must be: no fault, and each refusal in the form of refusals.
    pub fn check(&self) -> Result<(), Wrong> {
        let shown = || format!("{}: {}", self.status, self.body.escape_ascii());
        match self.status {
            200..=399 => return Ok(()),
            400..=499 | 501 => {}
            503 if self.header("retry-after").is_some() => {}
            _ => return broken(format!("answered {}", shown())),
        }
        if self.status == 429 && self.header("retry-after").is_none() {
            return broken(format!("no Retry-After: {}", shown()));
        }
        let problem = self.json();
        let is_text = |name: &str| problem.get(name).is_some_and(Value::is_string);
        let whole = self.header("content-type") == Some("application/problem+json")
            && ["type", "title", "detail", "instance", "request_id"].into_iter().all(is_text)
            && problem.get("status").and_then(Value::as_u64) == Some(self.status.into());
        if whole { Ok(()) } else { broken(format!("a refusal in another form, {}", shown())) }
    }
}

/// How a call ended.
#[derive(Debug)]
pub enum Heard {
    /// With an answer.
    Reply(Reply),
    /// With a stream that has no end; its beginning.
    Stream(Reply),
    /// It waits, as it had asked.
    Waits,
}

/// A server, and somebody who talks to it.
pub struct Peer {
    site: Site,
    stream: Option<TcpStream>,
    /// Bytes of its log that have been read.
    read: u64,
    worker: Option<String>,
    lease: Option<(String, String)>,
    fresh: u64,
    furnished: bool,
    longest: Duration,
}

impl Peer {
    /// Starts one.
    pub fn start(program: &Path) -> Result<Self, Failure> {
        let site = Site::start(program, &SETTINGS)?;
        let read = site.log_bytes();
        Ok(Self {
            site,
            stream: None,
            read,
            worker: None,
            lease: None,
            fresh: 0,
            furnished: false,
            longest: Duration::ZERO,
        })
    }

    /// Whether it has been given tasks to look for; from now on it has.
    pub fn furnish(&mut self) -> bool {
        std::mem::replace(&mut self.furnished, true)
    }

    /// The id of its process.
    pub fn process(&self) -> u32 {
        self.site.process()
    }

    /// That it is there, unharmed: nothing in its log tells of a panic or a fault.
    pub fn check(&mut self) -> Result<(), Wrong> {
        let bytes = self.site.log_bytes();
        if bytes == self.read {
            return Ok(());
        }
        let new = self.site.log_beyond(self.read);
        self.read = bytes;
        match new.lines().find(|line| line.contains("panicked at") || line.contains(" ERROR ")) {
            Some(line) => broken(format!("the server's log: {line}")),
            None => Ok(()),
        }
    }

    /// Sends a request with a body of JSON.
    pub fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Heard, Wrong> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: proof\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        // Whoever writes of a wait, or of a pace, may get one.
        let waits =
            holds(path.as_bytes(), b"wait") || holds(body, b"wait") || holds(body, b"rate_");
        self.exchange(&[head.as_bytes(), body].concat(), waits)
    }

    /// Asks for something.
    pub fn get(&mut self, target: &str) -> Result<Heard, Wrong> {
        let request = format!("GET {target} HTTP/1.1\r\nhost: proof\r\n\r\n");
        self.exchange(request.as_bytes(), holds(target.as_bytes(), b"wait"))
    }

    /// The same where nothing but an answer is right.
    pub fn ask(&mut self, target: &str) -> Result<Reply, Wrong> {
        match self.get(target)? {
            Heard::Reply(reply) => Ok(reply),
            other => broken(format!("{target}: {other:?}")),
        }
    }

    /// A request and what follows, on a connection that is kept.
    fn exchange(&mut self, request: &[u8], waits: bool) -> Result<Heard, Wrong> {
        for kept in [true, false] {
            let known = self.stream.take().filter(|_| kept);
            let is_known = known.is_some();
            let mut stream = match known {
                Some(stream) => stream,
                None => self.connect()?,
            };
            stream.set_read_timeout(Some(if waits { WAIT_PATIENCE } else { PATIENCE }))?;
            let began = Instant::now();
            // A server that refuses early reads no more: its answer counts.
            let _ = stream.write_all(request);
            let heard = listen(&mut stream);
            self.longest = self.longest.max(began.elapsed());
            match heard {
                Ok(Some(reply)) if reply.header("transfer-encoding").is_some() => {
                    return Ok(Heard::Stream(reply));
                }
                Ok(Some(reply)) => {
                    if reply.header("connection") != Some("close") {
                        self.stream = Some(stream);
                    }
                    return Ok(Heard::Reply(reply));
                }
                // It was closed meanwhile.
                Ok(None) if is_known => {}
                Err(error) if is_known && error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) if is_late(&error) && waits => return Ok(Heard::Waits),
                Err(error) if is_late(&error) => {
                    return broken(format!("no answer within {PATIENCE:?}"));
                }
                other => {
                    self.check()?;
                    return broken(format!("no answer: {other:?}"));
                }
            }
        }
        broken("no answer")
    }

    /// The longest that it took to answer since the last call; `None` if it was not asked.
    pub fn longest(&mut self) -> Option<Duration> {
        Some(std::mem::take(&mut self.longest)).filter(|longest| !longest.is_zero())
    }

    /// Notes an answer on a connection that others hold.
    pub fn note(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
    }

    /// A connection of its own. A server that cannot be reached has not survived what it was sent.
    pub fn connect(&self) -> Result<TcpStream, Wrong> {
        let stream = match TcpStream::connect(self.site.address) {
            Ok(stream) => stream,
            Err(error) => return broken(format!("no connection: {error}")),
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Names of what is there, in the place of words in braces that stand for them.
    pub fn fill(&mut self, template: &[u8]) -> Result<Vec<u8>, Wrong> {
        let mut filled = template.to_vec();
        if holds(&filled, b"{task}") || holds(&filled, b"{token}") {
            let (task, token) = self.held()?;
            filled = replace(
                &replace(&filled, b"{task}", task.as_bytes()),
                b"{token}",
                token.as_bytes(),
            );
        }
        if holds(&filled, b"{worker}") {
            filled = replace(&filled, b"{worker}", self.worker()?.as_bytes());
        }
        if holds(&filled, b"{id}") {
            self.fresh += 1;
            let id = format!("01990000-0000-7000-8000-{:012x}", self.fresh);
            filled = replace(&filled, b"{id}", id.as_bytes());
        }
        Ok(filled)
    }

    /// Forgets the worker and its lease: the next input gets others.
    pub fn renew(&mut self) {
        (self.worker, self.lease) = (None, None);
    }

    /// Forgets the lease: it may have been used.
    pub fn use_up(&mut self) {
        self.lease = None;
    }

    fn worker(&mut self) -> Result<String, Wrong> {
        if let Some(worker) = &self.worker {
            return Ok(worker.clone());
        }
        let reply = self.sure("/internal/workers/register", r#"{"capacity":10000}"#)?;
        let worker = reply.text("worker_id").ok_or("no worker_id")?;
        Ok(self.worker.insert(worker).clone())
    }

    /// A task in the worker's hands, and its token.
    fn held(&mut self) -> Result<(String, String), Wrong> {
        if let Some(lease) = &self.lease {
            return Ok(lease.clone());
        }
        // A worker may have too many, or be paused by what it said of itself: then another one.
        for _ in 0..3 {
            self.sure("/api/v1/tasks", r#"{"type":"held","priority":3,"max_retries":0}"#)?;
            let poll = format!("/internal/workers/{}/poll", self.worker()?);
            let reply = match self.call("POST", &poll, br#"{"available_capacity":1}"#)? {
                Heard::Reply(reply) => reply,
                other => return broken(format!("{poll}: {other:?}")),
            };
            let tasks = json::items(json::member(&reply.body, &["tasks"]).unwrap_or_default());
            let text = |name: &str| -> Option<String> {
                serde_json::from_slice(json::member(tasks.first()?, &[name])?).ok()
            };
            if let (Some(id), Some(token)) = (text("id"), text("lease_token")) {
                return Ok(self.lease.insert((id, token)).clone());
            }
            self.renew();
        }
        Err("there is nothing to claim".into())
    }

    /// A call that the test itself makes.
    fn sure(&mut self, path: &str, body: &str) -> Result<Reply, Wrong> {
        match self.call("POST", path, body.as_bytes())? {
            Heard::Reply(reply) if reply.is_taken() => Ok(reply),
            other => Err(format!("{path}: {other:?}").into()),
        }
    }
}

/// An answer; `None` if the connection ended before it began.
fn listen(stream: &mut TcpStream) -> std::io::Result<Option<Reply>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        if let Some(reply) = reply(&bytes) {
            return Ok(Some(reply));
        }
        let count = stream.read(&mut piece)?;
        if count == 0 || bytes.len() > REPLY_BYTES_MAX {
            return if bytes.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

/// The answer that these bytes begin with, if all of it is there.
pub fn reply(bytes: &[u8]) -> Option<Reply> {
    let ends = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let (head, rest) = bytes.split_at(ends);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let status = head.strip_prefix("http/1.")?.get(2..5)?.parse().ok()?;
    let mut reply = Reply { status, head, body: Vec::new() };
    if reply.header("transfer-encoding").is_none() {
        let length = reply.header("content-length").map_or(Some(0), |text| text.parse().ok())?;
        reply.body = rest.get(..length)?.to_vec();
    }
    Some(reply)
}

/// Whether a read ended because nothing came in time.
pub fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether one stands in the other.
pub fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut replaced, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(from) {
            Some(after) => {
                replaced.extend_from_slice(to);
                rest = after;
            }
            None => {
                replaced.push(*first);
                rest = after;
            }
        }
    }
    replaced
}
