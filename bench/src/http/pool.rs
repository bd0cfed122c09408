//! All connections, and which of them have something.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::connection::{Answer, Connection};

pub(crate) struct Pool {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    /// Which connections are streams: ready whenever bytes came.
    streams: Vec<bool>,
    ready: VecDeque<usize>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            poll: Poll::new().unwrap(),
            events: Events::with_capacity(1024),
            connections: Vec::new(),
            streams: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// Opens a connection and gives its number.
    pub(crate) fn open(&mut self, address: SocketAddr) -> usize {
        let index = self.connections.len();
        let mut connection = Connection::open(address);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, Token(index), interest).unwrap();
        self.connections.push(connection);
        self.streams.push(false);
        index
    }

    /// From now on this connection is ready whenever bytes came.
    pub(crate) fn make_stream(&mut self, index: usize) {
        self.streams[index] = true;
    }

    pub(crate) fn connection(&mut self, index: usize) -> &mut Connection {
        &mut self.connections[index]
    }

    pub(crate) fn send(&mut self, index: usize, request: &[u8]) {
        self.connections[index].send(request);
    }

    pub(crate) fn answer(&self, index: usize) -> Answer<'_> {
        self.connections[index].answer()
    }

    /// The next connection with an answer, if there is one within `patience`.
    pub(crate) fn next_ready(&mut self, patience: Duration) -> Option<usize> {
        let until = Instant::now() + patience;
        let mut left = patience;
        while self.ready.is_empty() {
            self.look(left);
            left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
        }
        self.ready.pop_front()
    }

    /// Moves bytes as far as they go. What wakes it may be room to write, or half an answer.
    fn look(&mut self, patience: Duration) {
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => panic!("{error}"),
            _ => {}
        }
        for event in &self.events {
            let index = event.token().0;
            let connection = &mut self.connections[index];
            if event.is_writable() {
                connection.flush();
            }
            if event.is_readable() && connection.read() > 0 {
                let ready = self.streams[index] || connection.is_answered();
                self.ready.extend(ready.then_some(index));
            }
        }
    }

    /// One call by itself, for what is not measured.
    pub(crate) fn call(&mut self, index: usize, request: &[u8]) -> (u16, Vec<u8>) {
        self.send(index, request);
        self.wait_for(index);
        let answer = self.answer(index);
        (answer.status, answer.body.to_vec())
    }

    /// Waits for one answer. Those on other connections are of calls that no longer matter.
    pub(crate) fn wait_for(&mut self, index: usize) {
        while self.next_ready(Duration::from_secs(30)).expect("an answer") != index {}
    }
}
