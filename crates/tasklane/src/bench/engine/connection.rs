//! One connection with at most one call under way.

use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::time::Instant;

use memchr::memmem;

use super::socket::{Route, Socket};

/// Most answers fit at the first read; the buffer grows for those that do not.
const BUFFER_BYTES: usize = 16 * 1024;
/// The status of a call whose connection was lost.
pub(crate) const LOST: u16 = 0;

/// A call's answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// [`LOST`] where there is none.
    pub(crate) status: u16,
    /// Status line and headers.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// Just before the request was written.
    pub(crate) sent_at: Instant,
}

pub(crate) struct Connection {
    pub(crate) socket: Socket,
    buffer: Vec<u8>,
    filled: usize,
    /// What the socket did not take at once.
    unsent: Vec<u8>,
    sent_at: Instant,
    /// Where the answer is in the buffer, once its head has come.
    expected: Option<Expected>,
    /// A call is under way.
    waits: bool,
    lost: bool,
}

#[derive(Debug, Clone)]
struct Expected {
    status: u16,
    head: usize,
    body: Range<usize>,
}

impl Connection {
    pub(crate) fn open(route: &Route) -> std::io::Result<Self> {
        Ok(Self {
            socket: Socket::open(route)?,
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            unsent: Vec::new(),
            sent_at: Instant::now(),
            expected: None,
            waits: false,
            lost: false,
        })
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Begins a call; the answer to the last one is gone.
    pub(crate) fn send(&mut self, request: &[u8]) {
        self.filled = 0;
        self.expected = None;
        self.waits = true;
        self.sent_at = Instant::now();
        let sent = self.write(request);
        self.unsent.extend_from_slice(request.get(sent..).unwrap_or_default());
    }

    /// Goes on with what is unsent.
    pub(crate) fn flush(&mut self) {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.write(&unsent);
            self.unsent = unsent;
            self.unsent.drain(..sent);
        }
        match self.socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.lost = true,
            _ => {}
        }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.lost = true;
                    break;
                }
            }
        }
        sent
    }

    /// Reads what is there.
    pub(crate) fn read(&mut self) {
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.socket.read(self.buffer.get_mut(self.filled..).unwrap_or_default()) {
                Ok(0) => self.lost = true,
                Ok(count) => {
                    self.filled += count;
                    // A read that leaves room has emptied a plain socket: no second one to learn
                    // that.
                    if self.socket.has_buffers() || self.filled == self.buffer.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => self.lost = true,
            }
            return;
        }
    }

    /// Whether the call under way has ended: its answer is there, or will not come.
    pub(crate) fn ends(&mut self) -> bool {
        if !self.waits {
            return false;
        }
        if self.expected.is_none() {
            self.expected = self.buffer.get(..self.filled).and_then(expected);
        }
        let came = self.expected.as_ref().is_some_and(|answer| answer.body.end <= self.filled);
        self.waits = !came && !self.lost;
        if self.lost && !came {
            self.expected = None;
        }
        !self.waits
    }

    /// The answer, once the call has ended.
    pub(crate) fn answer(&self) -> Answer<'_> {
        let Some(Expected { status, head, body }) = self.expected.clone() else {
            return Answer { status: LOST, head: &[], body: &[], sent_at: self.sent_at };
        };
        let part = |range| self.buffer.get::<Range<usize>>(range).unwrap_or_default();
        Answer { status, head: part(0..head), body: part(body), sent_at: self.sent_at }
    }

    /// All that was read and not taken yet: for answers without an end.
    pub(crate) fn take_bytes(&mut self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.buffer.get(..self.filled).unwrap_or_default());
        self.filled = 0;
    }
}

/// The status, and where the body is.
fn expected(bytes: &[u8]) -> Option<Expected> {
    let head = memmem::find(bytes, b"\r\n\r\n")?;
    let lines = std::str::from_utf8(bytes.get(..head)?).unwrap_or_default();
    // What is no status is no answer of a server: counted as a wrong one.
    let status = lines.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(1);
    let length = header(lines, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let start = head + 4;
    Some(Expected { status, head, body: start..start + length })
}

/// The value of a header; `name` in lower case.
pub(crate) fn header<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    let pairs = lines.lines().filter_map(|line| line.split_once(':'));
    let mut found = pairs.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_head_however_headers_are_written() {
        let bytes = b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\n{}";
        let answer = expected(bytes).unwrap();
        assert_eq!((answer.status, &bytes[answer.body.clone()]), (429, b"{}".as_slice()));
        let lines = std::str::from_utf8(&bytes[..answer.head]).unwrap();
        assert_eq!(header(lines, "retry-after"), Some("1"));
        assert!(expected(b"HTTP/1.1 200 OK\r\ncontent-le").is_none());
        assert_eq!(expected(b"SSH-2.0\r\n\r\n").unwrap().status, 1);
    }
}
