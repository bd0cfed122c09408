//! All connections, and which of them have something.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use mio::{Events, Interest, Poll, Token, Waker};
use tasklane_client::Error;

use super::alarm::Alarm;
use super::connection::{Answer, Connection};
use super::socket::Route;

/// How long a call may take before the run is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Who waits longer than that does not mind a millisecond.
const PRECISE_BELOW: Duration = Duration::from_secs(1);
/// The rest is waited for awake: what wakes a thread takes as long.
const AWAKE: Duration = Duration::from_micros(150);
/// No connection has this number.
const ALARM: Token = Token(usize::MAX);

pub(crate) struct Pool {
    route: Route,
    poll: Poll,
    alarm: Alarm,
    events: Events,
    connections: Vec<Connection>,
    /// Which connection is a stream: ready whenever bytes came.
    stream: Option<usize>,
    ready: VecDeque<usize>,
}

impl Pool {
    pub(crate) fn new(route: &Route) -> anyhow::Result<Self> {
        let poll = Poll::new().context("cannot wait for sockets")?;
        let alarm = Alarm::new(Waker::new(poll.registry(), ALARM)?);
        Ok(Self {
            route: route.clone(),
            poll,
            alarm,
            events: Events::with_capacity(1024),
            connections: Vec::new(),
            stream: None,
            ready: VecDeque::new(),
        })
    }

    /// Opens a connection and gives its number.
    pub(crate) fn open(&mut self) -> anyhow::Result<usize> {
        let index = self.connections.len();
        let connection = self.connect(index)?;
        self.connections.push(connection);
        Ok(index)
    }

    /// Opens as many.
    pub(crate) fn open_all(&mut self, count: usize) -> anyhow::Result<Vec<usize>> {
        (0..count).map(|_| self.open()).collect()
    }

    fn connect(&self, index: usize) -> anyhow::Result<Connection> {
        let away = |error| Error::Unreachable(format!("{}: {error}", self.route.server));
        let mut connection = Connection::open(&self.route).map_err(away)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        registry.register(connection.socket.stream(), Token(index), interest)?;
        Ok(connection)
    }

    /// From now on this connection is ready whenever bytes came.
    pub(crate) fn make_stream(&mut self, index: usize) {
        self.stream = Some(index);
    }

    /// Moves all bytes of a stream that came.
    pub(crate) fn take_bytes(&mut self, index: usize, into: &mut Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(index) {
            connection.take_bytes(into);
        }
    }

    /// Begins a call, on a new connection if the server has closed the old one.
    pub(crate) fn send(&mut self, index: usize, request: &[u8]) -> anyhow::Result<()> {
        if self.connections.get(index).is_none_or(Connection::is_lost) {
            let fresh = self.connect(index)?;
            *self.connections.get_mut(index).ok_or_else(|| anyhow!("no connection"))? = fresh;
        }
        if let Some(connection) = self.connections.get_mut(index) {
            connection.send(request);
            if connection.is_lost() && connection.ends() {
                self.ready.push_back(index);
            }
        }
        Ok(())
    }

    /// The answer of a call that has ended.
    pub(crate) fn answer(&self, index: usize) -> anyhow::Result<Answer<'_>> {
        let connection = self.connections.get(index);
        connection.map(Connection::answer).ok_or_else(|| anyhow!("no connection"))
    }

    /// The next connection whose call has ended.
    pub(crate) fn next_answered(&mut self) -> anyhow::Result<usize> {
        let ready = self.next_ready(ANSWER_WITHIN)?;
        ready.ok_or_else(|| anyhow!("no call was answered for {ANSWER_WITHIN:?}"))
    }

    /// The same, if there is one within `patience`.
    pub(crate) fn next_ready(&mut self, patience: Duration) -> anyhow::Result<Option<usize>> {
        let until = Instant::now() + patience;
        let mut left = patience;
        while self.ready.is_empty() {
            let asleep = left.saturating_sub(AWAKE);
            if left < PRECISE_BELOW && !asleep.is_zero() {
                self.alarm.set(Instant::now() + asleep);
            }
            self.look(asleep)?;
            left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Moves bytes as far as they go. What wakes it may be room to write, or half an answer.
    fn look(&mut self, patience: Duration) -> anyhow::Result<()> {
        match self.poll.poll(&mut self.events, Some(patience)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for event in &self.events {
            let index = event.token().0;
            let Some(connection) = self.connections.get_mut(index) else { continue };
            if event.is_writable() {
                connection.flush();
            }
            // What TLS could not read while it had to write comes without a word from the system.
            if event.is_readable() || connection.socket.has_buffers() {
                connection.read();
                let ready = self.stream == Some(index) || connection.ends();
                self.ready.extend(ready.then_some(index));
            }
        }
        Ok(())
    }

    /// One call by itself, for what is not measured.
    pub(crate) fn call(&mut self, index: usize, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        self.send(index, request)?;
        self.wait_for(index)?;
        let answer = self.answer(index)?;
        Ok((answer.status, answer.body.to_vec()))
    }

    /// Waits for one answer. Those on other connections are of calls that no longer matter.
    pub(crate) fn wait_for(&mut self, index: usize) -> anyhow::Result<()> {
        while self.next_answered()? != index {}
        Ok(())
    }
}
