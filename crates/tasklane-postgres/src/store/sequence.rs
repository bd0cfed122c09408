//! Numbering what is committed, so that the feed can be read, and noticing what other servers did.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tasklane_store::{Position, StoreError};

use super::{LOOK_TRIES, Shared};
use crate::fault::Fault;
use crate::view::{News, View, sequence};

/// Rows of the outbox that are gone stay in the way like any others. A transaction that takes longer
/// than this is found by a look at all of it.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Which rows of the outbox have been numbered: nothing is expected before the floor.
#[derive(Debug, Default)]
pub(crate) struct Numbered(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    floor: i64,
    /// The last row that was numbered, and when.
    runs: VecDeque<(Instant, i64)>,
    /// When all of it was looked at.
    looked: Option<Instant>,
}

impl Numbered {
    /// The rows after this one are to be looked at.
    pub(crate) fn floor(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).floor
    }

    /// The same, or all of them when that is due again.
    fn floor_or_all(&self) -> i64 {
        let mut past = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if past.looked.is_some_and(|looked| looked.elapsed() < SETTLED_AFTER) {
            return past.floor;
        }
        past.looked = Some(Instant::now());
        0
    }

    /// Rows up to this one were numbered just now.
    fn note(&self, last: i64) {
        let mut past = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        past.runs.push_back((Instant::now(), last));
        while let Some((at, last)) = past.runs.front().copied() {
            if at.elapsed() < SETTLED_AFTER {
                break;
            }
            past.floor = past.floor.max(last);
            past.runs.pop_front();
        }
    }
}

impl Shared {
    /// Numbers what is committed, so that the feed can be read up to here. Gives the last number.
    pub(crate) async fn sequence(&self) -> Result<Position, StoreError> {
        let mut outcome = self.sequence_all().await;
        for _ in 1..LOOK_TRIES {
            match &outcome {
                // What was numbered is numbered, and the rest is found again.
                Err(fault) if fault.is_lost_connection() => outcome = self.sequence_all().await,
                _ => break,
            }
        }
        self.note(outcome.as_ref().err());
        outcome.map_err(|fault| fault.to_store_error())
    }

    pub(super) async fn sequence_all(&self) -> Result<Position, Fault> {
        let _look = self.looks.lock().await;
        let before = self.signals.before();
        let after = self.numbered.floor_or_all();
        let news = match self.look(before.numbered, after).await? {
            Some(news) => news,
            None => loop {
                if let Some(news) = self.number(before.numbered, after).await? {
                    break news;
                }
            },
        };
        self.signals.numbered(&before, &news);
        Ok(news.head)
    }

    /// What was numbered after what is known; nothing if there is something to number after a row of
    /// the outbox.
    async fn look(&self, known: Position, after: i64) -> Result<Option<News>, Fault> {
        let transaction = self.pool.read().await?;
        let view = View { transaction: &transaction, shared: self };
        let news = match view.is_behind(after).await {
            Ok(true) => Ok(None),
            Ok(false) => view.news(known).await.map(Some),
            Err(fault) => Err(fault),
        };
        transaction.roll_back().await;
        news
    }

    /// Numbers some of what is there, and says the same if that was all.
    async fn number(&self, known: Position, after: i64) -> Result<Option<News>, Fault> {
        let transaction = self.pool.write().await?;
        let news = match sequence(&transaction, &self.random, after).await {
            Ok((_, true)) => Ok(None),
            Ok((last, false)) => {
                self.numbered.note(last);
                View { transaction: &transaction, shared: self }.news(known).await.map(Some)
            }
            Err(fault) => Err(fault),
        };
        match news {
            Ok(_) => transaction.commit().await?,
            Err(_) => transaction.roll_back().await,
        }
        news
    }
}

/// Looks after the feed and the counters while nobody asks for them, and notices what other servers
/// did.
pub(super) async fn keep_sequencing(shared: Arc<Shared>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = shared.sequence().await {
            tracing::warn!(%error, "the feed could not be looked after; it is tried again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outbox_is_read_from_where_it_was_settled_and_now_and_then_from_its_beginning() {
        let numbered = Numbered::default();
        assert_eq!(numbered.floor_or_all(), 0, "all of it at first");
        let long_ago = Instant::now().checked_sub(SETTLED_AFTER).unwrap_or_else(Instant::now);
        numbered.0.lock().unwrap_or_else(PoisonError::into_inner).runs.push_back((long_ago, 7));
        numbered.note(9);
        assert_eq!((numbered.floor(), numbered.floor_or_all()), (7, 7), "9 may have company yet");
        numbered.0.lock().unwrap_or_else(PoisonError::into_inner).looked = Some(long_ago);
        assert_eq!((numbered.floor_or_all(), numbered.floor_or_all()), (0, 7));
    }
}
