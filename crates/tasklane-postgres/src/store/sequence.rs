//! Numbering what is committed, so that the feed can be read, and noticing what other servers did.

use std::sync::Arc;
use std::time::Duration;

use tasklane_store::{Position, StoreError};

use super::Shared;
use crate::fault::Fault;
use crate::view::{News, View, sequence};

impl Shared {
    /// Numbers what is committed, so that the feed can be read up to here. Gives the last number.
    pub(crate) async fn sequence(&self) -> Result<Position, StoreError> {
        let outcome = self.sequence_all().await;
        self.note(outcome.as_ref().err());
        outcome.map_err(|fault| fault.to_store_error())
    }

    pub(super) async fn sequence_all(&self) -> Result<Position, Fault> {
        let _look = self.looks.lock().await;
        let before = self.signals.before();
        let news = match self.look(before.numbered).await? {
            Some(news) => news,
            None => loop {
                if let Some(news) = self.number(before.numbered).await? {
                    break news;
                }
            },
        };
        self.signals.numbered(&before, &news);
        Ok(news.head)
    }

    /// What was numbered after what is known; nothing if there is something to number.
    async fn look(&self, known: Position) -> Result<Option<News>, Fault> {
        let transaction = self.pool.read().await?;
        let view = View { transaction: &transaction, shared: self };
        let news = match view.is_behind().await {
            Ok(true) => Ok(None),
            Ok(false) => view.news(known).await.map(Some),
            Err(fault) => Err(fault),
        };
        transaction.roll_back().await;
        news
    }

    /// Numbers some of what is there, and says the same if that was all.
    async fn number(&self, known: Position) -> Result<Option<News>, Fault> {
        let transaction = self.pool.write().await?;
        let news = match sequence(&transaction, &self.random).await {
            Ok(true) => Ok(None),
            Ok(false) => {
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
