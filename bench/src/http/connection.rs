//! One connection with at most one call under way.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use memchr::memmem;
use mio::net::TcpStream;

/// Most answers fit at the first read; the buffer grows for those that do not.
const BUFFER_BYTES: usize = 16 * 1024;

/// A call's answer.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    /// Just before the request was written.
    pub(crate) sent_at: Instant,
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// What the socket did not take at once.
    unsent: Vec<u8>,
    sent_at: Instant,
    /// Where the answer is in the buffer, once its head has come.
    expected: Option<(u16, Range<usize>)>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = std::net::TcpStream::connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        Self {
            stream: TcpStream::from_std(stream),
            buffer: vec![0; BUFFER_BYTES],
            filled: 0,
            unsent: Vec::new(),
            sent_at: Instant::now(),
            expected: None,
        }
    }

    /// Begins a call; the answer to the last one is gone.
    pub(crate) fn send(&mut self, request: &[u8]) {
        self.filled = 0;
        self.expected = None;
        self.sent_at = Instant::now();
        let sent = self.write(request);
        self.unsent.extend_from_slice(&request[sent..]);
    }

    /// Goes on with what is unsent.
    pub(crate) fn flush(&mut self) {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let sent = self.write(&unsent);
            self.unsent = unsent;
            self.unsent.drain(..sent);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the server went away: {error}"),
            }
        }
        sent
    }

    /// Reads what is there; says how many bytes came.
    pub(crate) fn read(&mut self) -> usize {
        let before = self.filled;
        loop {
            if self.filled == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(count) => {
                    self.filled += count;
                    // A read that leaves room has emptied the socket: no second one to learn that.
                    if self.filled < self.buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the server went away: {error}"),
            }
        }
        self.filled - before
    }

    /// Whether the whole answer is there.
    pub(crate) fn is_answered(&mut self) -> bool {
        if self.expected.is_none() {
            self.expected = head(&self.buffer[..self.filled]);
        }
        self.expected.as_ref().is_some_and(|(_, body)| body.end <= self.filled)
    }

    /// The answer, once it is there.
    pub(crate) fn answer(&self) -> Answer<'_> {
        let (status, body) = self.expected.clone().expect("an answer");
        Answer { status, body: &self.buffer[body], sent_at: self.sent_at }
    }

    /// All that was read and not taken yet: for answers without an end.
    pub(crate) fn take_bytes(&mut self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.buffer[..self.filled]);
        self.filled = 0;
    }
}

/// The status, and where the body is.
fn head(bytes: &[u8]) -> Option<(u16, Range<usize>)> {
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    let head = &bytes[..end];
    let status = std::str::from_utf8(&head[9..12]).unwrap().parse().expect("a status");
    let name = b"content-length: ";
    let length = memmem::find(head, name).map_or(0, |at| {
        let digits = head[at + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
    });
    Some((status, end + 4..end + 4 + length))
}
