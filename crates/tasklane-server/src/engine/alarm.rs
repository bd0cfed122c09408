//! The next instant at which maintenance has something to do, as far as this server knows.

use std::sync::atomic::{AtomicI64, Ordering};

use tasklane_core::Timestamp;
use tokio::sync::Notify;

/// Wakes maintenance when something is due sooner than it thought.
#[derive(Debug)]
pub struct Alarm {
    micros: AtomicI64,
    sooner: Notify,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { micros: AtomicI64::new(i64::MAX), sooner: Notify::new() }
    }
}

impl Alarm {
    /// Something is due at `at`.
    pub fn at(&self, at: Timestamp) {
        let micros = at.as_micros();
        if self.micros.fetch_min(micros, Ordering::Relaxed) > micros {
            self.sooner.notify_one();
        }
    }

    /// The soonest so far; forgets it, for whoever asks looks at everything that is due.
    pub fn take(&self) -> Option<Timestamp> {
        let micros = self.micros.swap(i64::MAX, Ordering::Relaxed);
        (micros != i64::MAX).then(|| Timestamp::from_micros(micros))
    }

    /// Waits for something sooner.
    pub async fn sooner(&self) {
        self.sooner.notified().await;
    }
}
