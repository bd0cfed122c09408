//! Hints: what became claimable and what happened, by this server's doing and by others'.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tasklane_store::{Hints, Position, Signal};
use tokio::sync::watch;

use crate::session::Woken;

/// Own writes that are remembered while the feed cannot be looked at.
const OWN_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Signals {
    signal: watch::Sender<Signal>,
    hints: Hints<u32>,
    seen: Mutex<Seen>,
    /// Writes of this server that were sent, and those whose end is known.
    launched: AtomicU64,
    landed: watch::Sender<u64>,
}

/// What a write of this server is about.
#[derive(Debug)]
pub(crate) struct News {
    /// The last event there is; somebody else's, if none is its own.
    pub(crate) last: Position,
    /// How many events are its own.
    pub(crate) events: u64,
    /// Tasks that became claimable, and where.
    pub(crate) claimable: u64,
    pub(crate) woken: Woken,
}

#[derive(Default)]
struct Seen {
    /// Up to where the feed was looked at.
    from: Position,
    /// The last events of this server's own writes after that.
    own: BTreeSet<Position>,
}

impl Signals {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    /// An epoch begins, or this server: what was before it is known.
    pub(crate) fn begin(&self, last: Position) {
        *self.seen() = Seen { from: last, own: BTreeSet::new() };
        self.signal.send_modify(|signal| signal.last = last);
    }

    /// This server has written.
    pub(crate) fn wrote(&self, news: News) {
        let News { last, events, claimable, woken } = news;
        let mut seen = self.seen();
        if events > 0 && last > seen.from {
            seen.own.insert(last);
        }
        if seen.own.len() > OWN_MAX {
            seen.own.pop_first();
        }
        drop(seen);
        self.tell(last, claimable, woken);
    }

    /// A write of this server is about to be sent.
    pub(crate) fn launched(&self) {
        self.launched.fetch_add(1, Ordering::SeqCst);
    }

    /// The end of one is known, and what came of it has been told.
    pub(crate) fn landed(&self) {
        self.landed.send_modify(|landed| *landed += 1);
    }

    /// Until the end is known of every write that was sent before: the feed may show it earlier.
    pub(crate) async fn all_landed(&self) {
        let launched = self.launched.load(Ordering::SeqCst);
        // The sender is here: it cannot be gone.
        let _ = self.landed.subscribe().wait_for(|landed| *landed >= launched).await;
    }

    /// Up to where the feed was looked at.
    pub(crate) fn from(&self) -> Position {
        self.seen().from
    }

    /// Whether this server wrote what ends with that event.
    pub(crate) fn is_own(&self, last: Position) -> bool {
        self.seen().own.contains(&last)
    }

    /// The feed was looked at from there on.
    pub(crate) fn looked(&self, from: Position, until: Position) {
        let mut seen = self.seen();
        // Otherwise an epoch has begun meanwhile.
        if seen.from == from {
            seen.own.retain(|last| *last > until);
            seen.from = until;
        }
    }

    /// So many tasks became claimable there, and `last` happened.
    pub(crate) fn tell(&self, last: Position, claimable: u64, woken: Woken) {
        self.signal.send_if_modified(|signal| {
            let before = *signal;
            signal.claimable += claimable;
            signal.last = signal.last.max(last);
            if claimable > 0 {
                self.hints.note(signal.claimable, woken);
            }
            *signal != before
        });
    }

    /// Where tasks became claimable since the hint was `seen`, if that is known.
    pub(crate) fn since(&self, seen: u64) -> Option<BTreeSet<u32>> {
        self.hints.since(seen)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_before_an_own_write_is_still_looked_at() {
        let signals = Signals::default();
        signals.begin(Position(10));
        let (claimable, woken) = (1, Woken::In(vec![1]));
        signals.wrote(News { last: Position(14), events: 2, claimable, woken });
        let (claimable, woken) = (0, Woken::default());
        signals.wrote(News { last: Position(16), events: 0, claimable, woken });
        assert_eq!(signals.from(), Position(10));
        let own = [12, 14, 16].map(|last| signals.is_own(Position(last)));
        assert_eq!(own, [false, true, false]);
        signals.tell(Position(12), 2, Woken::In(vec![2]));
        signals.looked(Position(10), Position(14));
        assert_eq!((signals.from(), signals.is_own(Position(14))), (Position(14), false));
        let signal = *signals.subscribe().borrow();
        assert_eq!(signal, Signal { claimable: 3, last: Position(16) });
        assert_eq!(signals.since(0), Some([1, 2].into()));
        assert_eq!(signals.since(1), Some([2].into()));
    }

    #[test]
    fn a_look_of_an_epoch_that_is_over_changes_nothing() {
        let signals = Signals::default();
        signals.begin(Position(10));
        signals.begin(Position(5));
        signals.looked(Position(10), Position(12));
        assert_eq!(signals.from(), Position(5));
    }
}
