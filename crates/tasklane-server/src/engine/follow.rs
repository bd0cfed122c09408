//! The follower: reads the store's feed as it grows, and lets everybody know who wants to.

use std::time::Instant;

use tasklane_core::{EventKind, WorkerId};
use tasklane_store::{Cursor, FeedEvent, Signal, Subject, TaskNotice};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::feed::Page;
use super::statistics::is_timeout;
use crate::limits::{
    FEED_LOOK_EVERY, FEED_PAGE, FEED_REST, FEED_REST_AFTER_FAILURE, FEED_REST_ALONE,
};

/// How long the look back at the start rests between two pages, so that nothing waits behind it.
const LOOK_BACK_REST: std::time::Duration = std::time::Duration::from_millis(5);

impl Engine {
    /// Follows the feed from its present end until `stop`. A store that fails costs time, never
    /// the place.
    pub async fn follow(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow_on() => {}
        }
    }

    async fn follow_on(&self) {
        let mut watch = self.store.watch();
        let mut cursor = self.begin().await;
        loop {
            let looked = Instant::now();
            match self.store.events_after(cursor, FEED_PAGE).await {
                Ok(page) => {
                    let full = page.events.len() >= FEED_PAGE;
                    if page.gap || !page.events.is_empty() {
                        cursor = page.next;
                        if page.gap {
                            self.cancels.forget();
                        }
                        self.note(&self.feed.publish(page));
                    }
                    if full {
                        continue;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the feed could not be read; it is tried again");
                    tokio::time::sleep(FEED_REST_AFTER_FAILURE).await;
                    continue;
                }
            }
            let _ = tokio::time::timeout(FEED_LOOK_EVERY, risen(&mut watch, cursor)).await;
            // Nobody who would notice: fewer and larger looks.
            let alone = self.feed.readers() == 0 && self.waiters.is_empty();
            let rest = if alone { FEED_REST_ALONE } else { FEED_REST };
            tokio::time::sleep(rest.saturating_sub(looked.elapsed())).await;
        }
    }

    async fn begin(&self) -> Cursor {
        loop {
            match self.store.head().await {
                Ok(cursor) => {
                    self.feed.begin(cursor);
                    return cursor;
                }
                Err(error) => {
                    tracing::warn!(%error, "the end of the feed is not known; it is asked again");
                    tokio::time::sleep(FEED_REST_AFTER_FAILURE).await;
                }
            }
        }
    }

    fn note(&self, page: &Page) {
        for event in page.events() {
            if let Subject::Worker(worker, change) = &event.subject {
                self.roster.heard(*worker, *change);
            }
        }
        // A worker that hangs says nothing of it.
        for worker in self.roster.heard_ends(page.events().filter_map(end), self.now()) {
            self.leave_out(worker);
        }
        self.statistics.record(page.events());
        self.metrics.count(page.events());
        self.waiters.ended(page.events().filter_map(notice));
        self.cancels.heard(page.events().filter_map(notice));
    }

    /// Makes the statistics of the time before this server from what the feed still has.
    pub async fn look_back(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.look_back_on() => {}
        }
    }

    async fn look_back_on(&self) {
        let until = self.feed.began().await;
        let mut cursor = Cursor::OLDEST;
        while cursor.position < until.position {
            let page = match self.store.events_after(cursor, FEED_PAGE).await {
                Ok(page) if page.events.is_empty() => return,
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "older events could not be read; it is tried again");
                    tokio::time::sleep(FEED_REST_AFTER_FAILURE).await;
                    continue;
                }
            };
            cursor = page.next;
            // The follower counts the others.
            let before = page.events.iter().filter(|event| event.position <= until.position);
            self.statistics.record(before);
            tokio::time::sleep(LOOK_BACK_REST).await;
        }
    }
}

/// What an event says of a task.
fn notice(event: &FeedEvent) -> Option<&TaskNotice> {
    match &event.subject {
        Subject::Task(notice) => Some(notice),
        Subject::Worker(..) | Subject::Queue(..) => None,
    }
}

/// Whose attempt an event ends, and whether because it ran too long; `None` unless that or a
/// completion.
fn end(event: &FeedEvent) -> Option<(WorkerId, bool)> {
    let notice = notice(event)?;
    let too_long = is_timeout(notice);
    let ends = too_long || notice.kind == EventKind::Completed;
    notice.worker.filter(|_| ends).map(|worker| (worker, too_long))
}

/// Waits for a hint that there is something after `cursor`.
async fn risen(watch: &mut watch::Receiver<Signal>, cursor: Cursor) {
    while watch.borrow_and_update().last <= cursor.position {
        if watch.changed().await.is_err() {
            // No more hints: looking now and then has to do.
            std::future::pending::<()>().await;
        }
    }
}
