//! Live events, followed across lost connections.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tasklane_core::TaskId;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::client::Client;
use super::error::Error;
use super::frame::Frames;
use super::request::Call;
use super::send::{Failed, Fate, collect, refused};
use crate::limits::{CALL_WITHIN, EVENTS_SILENT_MAX};
use crate::wire::Event;

/// Which events to follow: those that fit every part. What is empty fits everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Of these kinds, for example `task.completed` or `worker.*`.
    pub kinds: Vec<String>,
    /// Of tasks of these types.
    pub types: Vec<String>,
    /// Of these queues.
    pub queues: Vec<String>,
    /// Of these tasks.
    pub tasks: Vec<TaskId>,
}

/// A stream of events. It goes on by itself where it stopped when a connection is lost or a server
/// restarts, so that none is missed; if some are gone, an event `system.gap` says so.
#[derive(Debug)]
pub struct Events {
    client: Client,
    filter: EventFilter,
    cursor: Option<Box<str>>,
    open: Option<Open>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Open {
    body: Incoming,
    frames: Frames,
}

impl Client {
    /// Follows events from now on, or from after the event with this `cursor`. When this returns,
    /// the server is following.
    pub async fn events(&self, filter: EventFilter, cursor: Option<&str>) -> Result<Events, Error> {
        let backoff = self.inner().retries.begin();
        let cursor = cursor.map(Into::into);
        let mut events = Events { client: self.clone(), filter, cursor, open: None, backoff };
        let mut tries = backoff;
        loop {
            let failed = match events.connect().await {
                Ok(()) => return Ok(events),
                Err(failed) => failed,
            };
            match tries.next(None).filter(|_| failed.fate != Fate::Decided) {
                Some(delay) => sleep(delay).await,
                None => return Err(self.named(failed.error)),
            }
        }
    }
}

impl Events {
    /// The next event. Waits as long as it takes, also for a server that is away; an error means
    /// that the server refuses to go on. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            match self.read().await {
                Ok(event) => {
                    self.backoff.reset();
                    if let Some(event) = self.take(event) {
                        return Ok(event);
                    }
                }
                Err(Failed { error, fate: Fate::Decided }) => return Err(error),
                Err(_) => {
                    self.open = None;
                    sleep(self.backoff.delay()).await;
                }
            }
        }
    }

    /// Where to go on after the last event that [`next`](Self::next) gave.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// What concerns only the stream itself is not for the reader.
    fn take(&mut self, event: Event) -> Option<Event> {
        if event.cursor.is_some() {
            self.cursor.clone_from(&event.cursor);
        }
        match &*event.event_type {
            "system.hello" | "system.cursor" | "system.shutdown" | "system.denied" => None,
            _ => Some(event),
        }
    }

    async fn read(&mut self) -> Result<Event, Failed> {
        if self.open.is_none() {
            self.connect().await?;
        }
        match &mut self.open {
            Some(open) => open.next().await,
            None => Err(broken("no stream".into())),
        }
    }

    async fn connect(&mut self) -> Result<(), Failed> {
        let mut call = Call::get("/api/v1/events")
            .with_all("kinds", &self.filter.kinds)
            .with_all("type", &self.filter.types)
            .with_all("queue", &self.filter.queues)
            .with_all("task_id", &self.filter.tasks);
        if let Some(cursor) = &self.cursor {
            call = call.header("last-event-id", cursor.to_string());
        }
        let late = |_| broken("no answer".into());
        let begun = timeout(CALL_WITHIN, self.client.begin(&call)).await.map_err(late)?;
        let (head, body) = begun?.into_parts();
        if !head.status.is_success() {
            let body = timeout(CALL_WITHIN, collect(body)).await.map_err(late)??;
            return Err(refused(head.status, &head.headers, &body));
        }
        let mut open = Open { body, frames: Frames::default() };
        if self.cursor.is_none() {
            // Without a cursor the server begins with where it is: lost before that, the stream
            // could not be taken up again without missing something.
            let hello = timeout(CALL_WITHIN, open.next()).await.map_err(late)??;
            self.take(hello);
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Open {
    async fn next(&mut self) -> Result<Event, Failed> {
        loop {
            let failed = |error| Failed { error, fate: Fate::Decided };
            if let Some(frame) = self.frames.next().map_err(failed)? {
                let read = serde_json::from_str(&frame);
                return read.map_err(|error| failed(Error::Unexpected(error.to_string())));
            }
            let piece = timeout(EVENTS_SILENT_MAX, self.body.frame()).await;
            match piece.map_err(|_| broken("the stream is silent".into()))? {
                Some(Ok(piece)) => {
                    if let Some(bytes) = piece.data_ref() {
                        self.frames.push(bytes);
                    }
                }
                Some(Err(error)) => return Err(broken(error.to_string())),
                None => return Err(broken("the stream has ended".into())),
            }
        }
    }
}

fn broken(reason: String) -> Failed {
    Failed { error: Error::Unreachable(reason), fate: Fate::Unknown }
}
