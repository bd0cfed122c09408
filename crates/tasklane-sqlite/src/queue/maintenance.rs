//! The thread that looks at the clock: due tasks, lost leases, time-outs, retention.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tasklane_store::{Prune, Store, maintain};

use super::Notes;
use super::block::{Bell, block_on, block_until, either, join};
use super::error::QueueError;
use super::operate::removed_nothing;
use crate::store::SqliteStore;

/// Longest pause between rounds: a lost lease is noticed within it (S6).
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Shortest pause: under load every commit is news, and a round for each would be most of the work.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The running thread; dropping this ends it.
#[derive(Debug)]
pub(super) struct Maintenance {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(super) fn start(
        store: Arc<SqliteStore>,
        notes: Arc<Notes>,
        prune: Prune,
        prune_every: Duration,
    ) -> Result<Self, QueueError> {
        let bell = Arc::new(Bell::default());
        let mut rounds = Rounds {
            store,
            notes,
            prune,
            prune_every,
            prune_at: Instant::now().checked_add(prune_every),
        };
        let thread = std::thread::Builder::new().name("tasklane-maintenance".into()).spawn({
            let bell = bell.clone();
            move || rounds.run(&bell)
        });
        let thread = thread.map_err(|error| QueueError::Thread(error.to_string()))?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.bell.close();
        if let Some(thread) = self.thread.take() {
            join(thread);
        }
    }
}

struct Rounds {
    store: Arc<SqliteStore>,
    notes: Arc<Notes>,
    prune: Prune,
    prune_every: Duration,
    /// When the next slice is due; `None` is never.
    prune_at: Option<Instant>,
}

impl Rounds {
    fn run(&mut self, bell: &Bell) {
        let mut signal = self.store.watch();
        while !bell.is_closed() {
            let seen = signal.borrow_and_update().last;
            let began = Instant::now();
            let next_in = self.maintain();
            self.prune();
            let latest = self.prune_at.map_or(began + PAUSE_MAX, |at| at.min(began + PAUSE_MAX));
            let earliest = Instant::now() + PAUSE_MIN;
            let due = next_in.map_or(latest, |span| latest.min(began + span.min(PAUSE_MAX)));
            // News only count after the shortest pause, the end of the queue always.
            block_until(bell.rung(), Some(earliest.min(due.max(began))));
            if bell.is_closed() {
                return;
            }
            let news = signal.wait_for(|signal| signal.last != seen);
            block_until(either(news, bell.rung()), Some(due));
        }
    }

    fn maintain(&self) -> Option<Duration> {
        match block_on(maintain(&*self.store)) {
            Ok(done) => {
                if done.changed > 0 {
                    // A lease may be among what ended: its handler should know.
                    self.notes.leases_changed();
                }
                self.notes.note(|troubles| troubles.maintenance = None);
                done.next_in.map(|span| span.max(Duration::from_millis(1)))
            }
            Err(error) => {
                self.notes.note(|troubles| troubles.maintenance = Some(error));
                None
            }
        }
    }

    /// One slice, if it is time; the rest follows in the next round, after maintenance.
    fn prune(&mut self) {
        let now = Instant::now();
        if self.prune_at.is_none_or(|at| now < at) {
            return;
        }
        let slice = block_on(self.store.prune(self.prune));
        let pause = match &slice {
            Ok(slice) if slice.more && removed_nothing(slice) => PAUSE_MIN,
            Ok(slice) if slice.more => Duration::ZERO,
            _ => self.prune_every,
        };
        self.notes.note(|troubles| troubles.clean_up = slice.err());
        self.prune_at = now.checked_add(pause);
    }
}
