//! Whether the store takes writes, as known for at most a second.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Engine;
use crate::limits::READY_AGE_MAX;

/// Why a server should get no calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// It is going away.
    Draining,
    /// Its store takes no writes.
    Store(String),
}

/// When the writer last answered.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Option<Instant>>);

impl Engine {
    /// Whether this server can do its work: it is not going away, the store reports no trouble, and
    /// its writer answered within the last second. The contract has no write without an effect, so
    /// the probe asks for the head of the feed, which the writer answers between its groups; a
    /// writer whose write or sync failed takes no calls any more and says so as trouble.
    pub async fn ready(&self) -> Result<(), NotReady> {
        if self.is_draining() {
            return Err(NotReady::Draining);
        }
        if let Some(trouble) = self.status().trouble {
            return Err(NotReady::Store(trouble));
        }
        let fresh = |answered: Instant| answered.elapsed() < READY_AGE_MAX;
        if self.probe.last().is_some_and(fresh) {
            return Ok(());
        }
        let asked = Instant::now();
        match tokio::time::timeout(READY_AGE_MAX, self.store.head()).await {
            Ok(Ok(_)) => {
                self.probe.answered(asked);
                Ok(())
            }
            Ok(Err(error)) => Err(NotReady::Store(error.to_string())),
            Err(_) => {
                let seconds = READY_AGE_MAX.as_secs();
                Err(NotReady::Store(format!("the store has not answered for {seconds} s")))
            }
        }
    }
}

impl Probe {
    fn last(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }
}
