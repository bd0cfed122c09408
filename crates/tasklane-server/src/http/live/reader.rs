//! A live reader: what it is told next, whatever it is connected through.

use std::sync::Arc;

use tasklane_client::wire;
use tasklane_store::{Cursor, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::filter::{Filter, Wish};
use super::frame::Frame;
use crate::engine::{Access, Bulletin, Engine, Place, Slice, Through, Told};
use crate::http::problem::{self, Refused};
use crate::limits::{
    FEED_BEGIN_WITHIN, FEED_REST_AFTER_FAILURE, READER_CURSOR_EVERY, READER_KEEP_ALIVE,
    READER_PAGE, READER_RETRY_AFTER,
};

/// What a reader is told next.
pub(super) enum Next {
    /// Events.
    Frames(Vec<Frame>),
    /// Nothing happened for a while.
    Quiet,
    /// The last thing, and why it ends.
    End(Frame, Ending),
}

/// Why a reader is told no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server goes away.
    Shutdown,
    /// It does not keep up.
    Slow,
    /// Its key is no longer good.
    Denied,
}

/// Who reads, from where, and what of it.
pub(super) struct Reader {
    engine: Arc<Engine>,
    access: Access,
    keys: watch::Receiver<()>,
    filter: Filter,
    /// Behind what was given out last.
    cursor: Cursor,
    /// Behind what its client was sent: where it goes on after an end in the middle.
    sent: Cursor,
    /// It is told where it begins.
    greet: bool,
    /// It has had everything once; from then on it may not fall too far behind.
    live: bool,
    /// Something was passed over since it last heard where it is.
    passed: bool,
    cursor_told: Instant,
    heard: Instant,
    bulletin: watch::Receiver<Arc<Bulletin>>,
    /// The last bulletin it was told.
    told: Option<u64>,
    /// What of it has not been given out yet.
    rest: Option<Rest>,
    _place: Place,
}

/// A bulletin that a reader is being told.
struct Rest {
    bulletin: Arc<Bulletin>,
    /// It knows what has stayed as it was.
    knows: bool,
    from: usize,
}

impl Reader {
    pub(super) async fn new(
        engine: Arc<Engine>,
        access: Access,
        wish: Wish,
        through: Through,
    ) -> Result<Self, Refused> {
        if engine.is_draining() {
            return Err(Refused::new(problem::SHUTTING_DOWN, "connect again in a moment"));
        }
        let full = || Refused::new(problem::OVERLOADED, "too many live readers");
        let place = engine.feed().enter(through).ok_or_else(full)?;
        let head = tokio::time::timeout(FEED_BEGIN_WITHIN, engine.feed().head()).await;
        let unknown = |_| StoreError::Unavailable("the feed has not begun".into());
        let head = head.map_err(unknown).map_err(Refused::from)?;
        let mut bulletin = engine.bulletin().subscribe();
        bulletin.mark_unchanged();
        let now = Instant::now();
        let cursor = wish.cursor.unwrap_or(head);
        Ok(Self {
            filter: wish.filter,
            cursor,
            sent: cursor,
            greet: wish.cursor.is_none(),
            live: cursor.epoch == head.epoch && cursor.position >= head.position,
            passed: false,
            cursor_told: now,
            heard: now,
            bulletin,
            told: None,
            rest: None,
            keys: engine.keys_changed(),
            access,
            engine,
            _place: place,
        })
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// A part of what was given out is on its way, up to this one.
    pub(super) fn sent(&mut self, cursor: Cursor) {
        self.sent = cursor;
    }

    /// Waits for what comes next; all that was given out before is on its way then. Nothing is lost
    /// when the wait is given up: what was passed over is noted in the same step in which it is given
    /// out.
    pub(super) async fn next(&mut self) -> Next {
        if std::mem::take(&mut self.greet) {
            let hello = self.system("system.hello", wire::EventData::default());
            return self.frames(vec![hello]);
        }
        loop {
            self.sent = self.cursor;
            if self.engine.is_draining() {
                return self.end(Ending::Shutdown);
            }
            if self.live && self.engine.feed().behind(self.cursor) > self.behind_max() {
                return self.end(Ending::Slow);
            }
            if !self.engine.holds(&self.access) {
                return self.end(Ending::Denied);
            }
            let rest = self.tell_on();
            if !rest.is_empty() {
                return self.frames(rest);
            }
            let until = self.silent_until();
            let frames = tokio::select! {
                read = self.engine.feed().read(self.cursor, READER_PAGE) => self.take(read).await,
                Ok(()) = self.bulletin.changed(), if self.live => self.told(),
                () = self.engine.drained() => continue,
                Ok(()) = self.keys.changed() => continue,
                () = sleep_until(until) => return self.break_silence(),
            };
            if !frames.is_empty() {
                return self.frames(frames);
            }
        }
    }

    /// Waits until this reader, if it has once kept up, has fallen too far behind.
    pub(super) async fn falls_behind(&self) {
        if self.live {
            self.engine.feed().ahead_by(self.cursor, self.behind_max()).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Its last words, should it not keep up.
    pub(super) fn end(&self, ending: Ending) -> Next {
        let frame = match ending {
            Ending::Slow => {
                tracing::info!("a live reader did not keep up and was dropped");
                self.gap("slow_reader", self.sent)
            }
            Ending::Denied => self.farewell("system.denied", wire::EventData::default()),
            Ending::Shutdown => {
                let millis = u64::try_from(READER_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
                let data = wire::EventData { retry_after_ms: Some(millis), ..Default::default() };
                self.farewell("system.shutdown", data)
            }
        };
        Next::End(frame, ending)
    }

    async fn take(&mut self, read: Result<Slice, StoreError>) -> Vec<Frame> {
        let slice = match read {
            Ok(slice) => slice,
            Err(error) => {
                tracing::warn!(%error, "a live reader could not be served; it is tried again");
                tokio::time::sleep(FEED_REST_AFTER_FAILURE).await;
                return Vec::new();
            }
        };
        let next = slice.next();
        let mut frames = Vec::new();
        if slice.gap {
            let restored = self.cursor.epoch != next.epoch;
            let why = if restored { "restore" } else { "retention" };
            frames.push(self.gap(why, slice.before()));
        }
        let wanted = slice.entries().iter().filter(|noted| self.filter.takes(&noted.event));
        frames.extend(wanted.map(|noted| Frame::of(noted, next.epoch)));
        self.cursor = next;
        self.live |= self.engine.feed().behind(next) == 0;
        self.passed = frames.last().is_none_or(|last| last.cursor != Some(next));
        if frames.is_empty() {
            // Pages in memory are there at once: others get their turn between two of them.
            tokio::task::yield_now().await;
        }
        frames
    }

    /// A new bulletin is there.
    fn told(&mut self) -> Vec<Frame> {
        let bulletin = Arc::clone(&self.bulletin.borrow_and_update());
        // Who has missed one, or is new, does not know what has stayed as it was.
        let knows = self.told.replace(bulletin.number) == bulletin.number.checked_sub(1);
        self.rest = Some(Rest { bulletin, knows, from: 0 });
        self.tell_on()
    }

    /// The next part of a bulletin: there may be as many queues as there are tasks.
    fn tell_on(&mut self) -> Vec<Frame> {
        let Some(Rest { bulletin, knows, from }) = &mut self.rest else { return Vec::new() };
        let knows = *knows;
        let wanted = |told: &&Told| (told.is_news || !knows) && self.filter.takes_told(told);
        let mut left = bulletin.entries.iter().enumerate().skip(*from);
        let mut frames = Vec::new();
        while frames.len() < READER_PAGE
            && let Some((index, told)) = left.find(|(_, told)| wanted(told))
        {
            *from = index + 1;
            frames.push(Frame { cursor: None, kind: told.kind, text: told.text.clone() });
        }
        if frames.len() < READER_PAGE {
            self.rest = None;
        }
        frames
    }

    fn frames(&mut self, frames: Vec<Frame>) -> Next {
        self.heard = Instant::now();
        if frames.iter().any(|frame| frame.cursor.is_some()) {
            self.cursor_told = self.heard;
        }
        Next::Frames(frames)
    }

    fn silent_until(&self) -> Instant {
        let keep_alive = self.heard + READER_KEEP_ALIVE;
        if self.passed {
            keep_alive.min(self.cursor_told + READER_CURSOR_EVERY)
        } else {
            keep_alive
        }
    }

    fn break_silence(&mut self) -> Next {
        if self.passed && self.cursor_told.elapsed() >= READER_CURSOR_EVERY {
            self.passed = false;
            let cursor = self.system("system.cursor", wire::EventData::default());
            return self.frames(vec![cursor]);
        }
        self.heard = Instant::now();
        Next::Quiet
    }

    fn behind_max(&self) -> u64 {
        self.engine.settings().slow_reader_behind
    }

    fn gap(&self, why: &'static str, cursor: Cursor) -> Frame {
        let data = wire::EventData { gap: Some(why.into()), ..Default::default() };
        Frame::system("system.gap", cursor, self.engine.now(), data)
    }

    fn farewell(&self, kind: &'static str, data: wire::EventData) -> Frame {
        Frame::system(kind, self.sent, self.engine.now(), data)
    }

    fn system(&self, kind: &'static str, data: wire::EventData) -> Frame {
        Frame::system(kind, self.cursor, self.engine.now(), data)
    }
}
