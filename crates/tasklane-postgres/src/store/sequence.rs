//! Numbering what is committed, so that the feed can be read, and noticing what other servers did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tasklane_store::{Position, StoreError};

use super::{LOOK_TRIES, Shared};
use crate::fault::Fault;
use crate::view::{News, View, sequence};

impl Shared {
    /// Numbers what is committed, so that the feed can be read up to here. Gives the last number.
    pub(crate) async fn sequence(&self) -> Result<Position, StoreError> {
        let mut outcome = self.sequence_all().await;
        for _ in 1..LOOK_TRIES {
            match &outcome {
                // What was numbered is numbered, and the rest is found again.
                Err(fault) if fault.may_look_again() => outcome = self.sequence_all().await,
                _ => break,
            }
        }
        self.troubles.note_look(outcome.as_ref().err());
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
        self.read_once(&move |view| {
            Box::pin(async move {
                let is_behind = view.is_behind(after).await?;
                if is_behind { Ok(None) } else { view.news(known).await.map(Some) }
            })
        })
        .await
    }

    /// Numbers some of what is there, and says the same if that was all.
    async fn number(&self, known: Position, after: i64) -> Result<Option<News>, Fault> {
        let begun = Instant::now();
        let numbered = self.number_once(known, after).await;
        match &numbered {
            Ok(_) => self.troubles.note_written(begun),
            Err(fault) if fault.may_look_again() => {}
            Err(fault) => self.troubles.note_failed(fault),
        }
        numbered
    }

    async fn number_once(&self, known: Position, after: i64) -> Result<Option<News>, Fault> {
        let transaction = self.pool.write().await?;
        self.recognize(&transaction);
        let timeline = transaction.timeline;
        let news = match sequence(&transaction, &self.random, after).await {
            Ok((_, true)) => Ok(None),
            Ok((last, false)) => {
                self.timeline.remember(timeline, || self.numbered.note(last));
                View { transaction: &transaction, shared: self }.news(known).await.map(Some)
            }
            Err(fault) => Err(fault),
        };
        match news {
            Ok(_) => transaction.commit().await?,
            Err(_) => transaction.roll_back().await,
        }
        if self.timeline.is(timeline) { news } else { Err(Fault::Overtaken) }
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
