//! The last events of the store in memory, for any number of readers.
//!
//! One follower reads the store; readers pull from shared pages by cursors of their own, so that a
//! reader costs no memory here however slow it is. A cursor from before the oldest page is served
//! by the store.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use tasklane_store::{Cursor, FeedEvent, FeedPage, Position, Store, StoreError, Subject};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::limits::{EVENT_BYTES_IN_MEMORY, EVENTS_IN_MEMORY, FEED_LOOK_EVERY, READERS_MAX};

/// What an event and its text take without the words in it.
const EVENT_BYTES_PLAIN: usize = 768;

/// An event, and the text that readers share once one of them has made it.
#[derive(Debug)]
pub struct Noted {
    /// The event.
    pub event: FeedEvent,
    text: OnceLock<Bytes>,
}

impl Noted {
    fn new(event: FeedEvent) -> Self {
        Self { event, text: OnceLock::new() }
    }

    /// Its text; made by the first who asks.
    pub fn text(&self, make: impl FnOnce(&FeedEvent) -> Bytes) -> &Bytes {
        self.text.get_or_init(|| make(&self.event))
    }
}

/// Some events in order, shared by all who read them.
#[derive(Debug)]
pub(super) struct Page {
    entries: Vec<Noted>,
    next: Cursor,
    /// About what its events hold in memory, with the texts that readers may come to share.
    bytes: usize,
}

impl Page {
    fn new(page: FeedPage) -> Self {
        let bytes = page.events.iter().map(bytes).sum();
        Self { entries: page.events.into_iter().map(Noted::new).collect(), next: page.next, bytes }
    }

    /// The cursor just before the first event.
    fn before(&self) -> Cursor {
        let first = self.entries.first().map(|noted| noted.event.position.0.saturating_sub(1));
        Cursor { epoch: self.next.epoch, position: first.map_or(self.next.position, Position) }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &FeedEvent> {
        self.entries.iter().map(|noted| &noted.event)
    }
}

/// What a reader gets.
#[derive(Debug)]
pub struct Slice {
    page: Arc<Page>,
    from: usize,
    to: usize,
    /// Events between the reader's cursor and the first of these are gone.
    pub gap: bool,
}

impl Slice {
    /// Of a page of one reader's own. A store may give more than it was asked for.
    fn own(page: FeedPage, limit: usize) -> Self {
        let (gap, to) = (page.gap, page.events.len().min(limit.max(1)));
        Self { page: Arc::new(Page::new(page)), from: 0, to, gap }
    }

    /// The events, in order.
    pub fn entries(&self) -> &[Noted] {
        self.page.entries.get(self.from..self.to).unwrap_or_default()
    }

    /// The cursor just before the first event: where reading goes on after a gap.
    pub fn before(&self) -> Cursor {
        self.page.before()
    }

    /// The cursor after the last event.
    pub fn next(&self) -> Cursor {
        match self.entries().last() {
            Some(last) if self.to < self.page.entries.len() => {
                Cursor { epoch: self.page.next.epoch, position: last.event.position }
            }
            _ => self.page.next,
        }
    }
}

enum Look {
    Here(Slice),
    /// The reader has everything.
    End,
    /// Not in memory: ask the store.
    Elsewhere,
}

#[derive(Debug)]
struct Ring {
    pages: VecDeque<Arc<Page>>,
    count: usize,
    bytes: usize,
    /// Everything after this is here.
    start: Cursor,
    head: Cursor,
}

impl Ring {
    fn clear(&mut self) {
        self.pages.clear();
        (self.count, self.bytes) = (0, 0);
    }

    /// Adds a page; the oldest make room for it. The newest stays, however large.
    fn push(&mut self, page: Arc<Page>) {
        self.count += page.entries.len();
        self.bytes += page.bytes;
        self.pages.push_back(page);
        let is_full =
            |ring: &Self| ring.count > EVENTS_IN_MEMORY || ring.bytes > EVENT_BYTES_IN_MEMORY;
        while is_full(self) && self.pages.len() > 1 {
            let Some(oldest) = self.pages.pop_front() else { break };
            self.count -= oldest.entries.len();
            self.bytes -= oldest.bytes;
            self.start = oldest.next;
        }
    }
}

/// About what an event holds in memory: itself and its text, which repeats what it says.
fn bytes(event: &FeedEvent) -> usize {
    let own = match &event.subject {
        Subject::Task(notice) => {
            let error = notice.error.as_ref().map_or(0, |error| {
                error.message.len() + error.code.as_ref().map_or(0, |code| code.len())
            });
            let progress = notice.progress.as_ref().map_or(0, |progress| {
                progress.message.as_ref().map_or(0, |message| message.len())
                    + progress.details.as_ref().map_or(0, Bytes::len)
            });
            notice.lane.queue.as_str().len()
                + notice.lane.task_type.as_str().len()
                + error
                + progress
        }
        Subject::Worker(..) => 0,
        Subject::Queue(queue, _) => queue.as_str().len(),
    };
    EVENT_BYTES_PLAIN + 2 * own
}

/// How a live reader is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Server-sent events.
    Stream,
    /// A WebSocket.
    Socket,
}

/// The place of a live reader, free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    _socket: Option<Arc<()>>,
    _permit: OwnedSemaphorePermit,
}

/// The feed as this server has followed it.
pub struct Feed {
    store: Arc<dyn Store>,
    ring: RwLock<Ring>,
    /// The cursor after the last event; `None` until the follower has begun.
    head: watch::Sender<Option<Cursor>>,
    began: OnceLock<Cursor>,
    places: Arc<Semaphore>,
    /// One reference for each reader on a WebSocket, besides this one.
    sockets: Arc<()>,
}

impl Feed {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let ring = Ring {
            pages: VecDeque::new(),
            count: 0,
            bytes: 0,
            start: Cursor::OLDEST,
            head: Cursor::OLDEST,
        };
        Self {
            store,
            ring: RwLock::new(ring),
            head: watch::Sender::new(None),
            began: OnceLock::new(),
            places: Arc::new(Semaphore::new(READERS_MAX)),
            sockets: Arc::default(),
        }
    }

    /// A place for one more live reader, held as long as it reads; `None` when all are taken.
    pub fn enter(&self, through: Through) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let socket = (through == Through::Socket).then(|| Arc::clone(&self.sockets));
        Some(Place { _permit: permit, _socket: socket })
    }

    /// Live readers on WebSockets now.
    pub fn sockets(&self) -> usize {
        Arc::strong_count(&self.sockets).saturating_sub(1)
    }

    /// Live readers now.
    pub fn readers(&self) -> usize {
        READERS_MAX.saturating_sub(self.places.available_permits())
    }

    /// The cursor after the last event, once that is known.
    pub async fn head(&self) -> Cursor {
        let mut head = self.head.subscribe();
        loop {
            if let Some(cursor) = *head.borrow_and_update() {
                return cursor;
            }
            // It cannot end while this borrows its sender.
            let _ = head.changed().await;
        }
    }

    /// The cursor at which following began, once it has.
    pub(super) async fn began(&self) -> Cursor {
        let head = self.head().await;
        self.began.get().copied().unwrap_or(head)
    }

    /// How many events have happened since `cursor`, as far as the follower has come.
    pub fn behind(&self, cursor: Cursor) -> u64 {
        let head = *self.head.borrow();
        head.map_or(0, |head| head.position.0.saturating_sub(cursor.position.0))
    }

    /// Waits until more than `events` have happened since `cursor`.
    pub async fn ahead_by(&self, cursor: Cursor, events: u64) {
        let mut head = self.head.subscribe();
        while self.behind(cursor) <= events {
            let _ = head.changed().await;
        }
    }

    /// Events the store has and this server has not read yet.
    pub fn lag(&self) -> u64 {
        let last = self.store.watch().borrow().last.0;
        let head = *self.head.borrow();
        head.map_or(0, |head| last.saturating_sub(head.position.0))
    }

    /// Events after `cursor`; waits until there are some. At most `limit` of them.
    pub async fn read(&self, cursor: Cursor, limit: usize) -> Result<Slice, StoreError> {
        let mut head = self.head.subscribe();
        loop {
            // Seen before looking, so that a change in between is not waited for.
            let begun = head.borrow_and_update().is_some();
            match self.look(cursor, limit) {
                Look::Here(slice) => return Ok(slice),
                Look::Elsewhere if begun => {
                    let page = self.store.events_after(cursor, limit).await?;
                    if page.gap || !page.events.is_empty() {
                        return Ok(Slice::own(page, limit));
                    }
                    // Ahead of the follower, for the store has told this reader more: ask again soon.
                    let _ = tokio::time::timeout(FEED_LOOK_EVERY, head.changed()).await;
                }
                // It cannot end while this borrows its sender.
                Look::End | Look::Elsewhere => drop(head.changed().await),
            }
        }
    }

    fn look(&self, cursor: Cursor, limit: usize) -> Look {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        let here = cursor.epoch == ring.head.epoch && cursor.position >= ring.start.position;
        if !here || cursor.position > ring.head.position {
            return Look::Elsewhere;
        }
        let index = ring.pages.partition_point(|page| page.next.position <= cursor.position);
        let Some(page) = ring.pages.get(index) else { return Look::End };
        let from = page.entries.partition_point(|noted| noted.event.position <= cursor.position);
        let to = page.entries.len().min(from + limit.max(1));
        Look::Here(Slice { page: Arc::clone(page), from, to, gap: false })
    }

    /// Following begins after `cursor`.
    pub(super) fn begin(&self, cursor: Cursor) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        (ring.start, ring.head) = (cursor, cursor);
        drop(ring);
        let _ = self.began.set(cursor);
        self.head.send_replace(Some(cursor));
    }

    /// Takes what the follower has read.
    pub(super) fn publish(&self, page: FeedPage) -> Arc<Page> {
        let gap = page.gap;
        let page = Arc::new(Page::new(page));
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if gap {
            // Readers from before it learn of it from the store.
            ring.clear();
            ring.start = page.before();
        }
        ring.head = page.next;
        if self.readers() == 0 {
            // Whoever comes later begins at the head, or asks the store for what was before.
            ring.clear();
            ring.start = page.next;
        } else if !page.entries.is_empty() {
            ring.push(Arc::clone(&page));
        }
        drop(ring);
        self.head.send_replace(Some(page.next));
        page
    }
}
