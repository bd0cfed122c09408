//! Hints: what became claimable and what happened, here and, as far as it is known, elsewhere.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tasklane_store::{Hints, Position, Signal};
use tokio::sync::{Notify, watch};

use crate::session::{Woken, Written};
use crate::view::News;

#[derive(Default)]
pub(crate) struct Signals {
    signal: watch::Sender<Signal>,
    known: Mutex<Known>,
    /// Something happened here that other servers should know of.
    happened: Notify,
}

#[derive(Default)]
struct Known {
    /// Whether the sequencer was asked at all.
    is_known: bool,
    /// The last number that the sequencer gave, as far as is known.
    numbered: Position,
    /// Events of this server that had a number then.
    own_numbered: u64,
    /// Events that this server has committed.
    own: u64,
    /// Commits that are under way here: others may see one before its end is known.
    under_way: usize,
    claimable: u64,
    hints: Hints<i32>,
}

/// What is known before the sequencer is asked.
pub(crate) struct Before {
    pub(crate) numbered: Position,
    own: u64,
}

impl Signals {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    /// Notes that a commit of this server begins.
    pub(crate) fn commits(&self) {
        self.with(|known| known.under_way += 1);
    }

    /// Notes that such a commit failed, as far as is known.
    pub(crate) fn failed(&self) {
        self.with(|known| known.under_way -= 1);
    }

    /// Notes that it went well.
    pub(crate) fn committed(&self, written: &Written) {
        let signal = self.with(|known| {
            known.under_way -= 1;
            known.own += written.events;
            known.wake(written.claimable, &written.woken);
            known.signal()
        });
        self.tell(signal);
        if written.events > 0 {
            self.happened.notify_one();
        }
    }

    /// Waits until something happens here, or has since this was last asked.
    pub(crate) async fn happened(&self) {
        self.happened.notified().await;
    }

    /// To be asked before the sequencer is.
    pub(crate) fn before(&self) -> Before {
        self.with(|known| Before { numbered: known.numbered, own: known.own })
    }

    /// Notes what the sequencer told when nothing was left to number.
    pub(crate) fn numbered(&self, before: &Before, news: &News) {
        let signal = self.with(|known| {
            if known.is_known && news.head < before.numbered {
                // What was numbered is lost: the database is an older one.
                known.wake(1, &Woken::Anywhere);
            } else if known.is_known {
                known.wake(news.claimable, &news.woken);
            }
            known.is_known = true;
            known.numbered = news.head;
            known.own_numbered += news.own;
            if known.under_way == 0 && known.own == before.own {
                // Whatever was committed here has its number, also what failed only as far as was
                // known.
                known.own_numbered = known.own;
            }
            known.signal()
        });
        self.tell(signal);
    }

    /// What was told may be lost, and lanes may have other numbers.
    pub(crate) fn forget(&self) {
        let signal = self.with(|known| {
            known.wake(1, &Woken::Anywhere);
            known.signal()
        });
        self.tell(signal);
    }

    /// Where tasks became claimable since the hint was `seen`, if that is known.
    pub(crate) fn since(&self, seen: u64) -> Option<BTreeSet<i32>> {
        self.with(|known| known.hints.since(seen))
    }

    fn tell(&self, signal: Signal) {
        self.signal.send_if_modified(|known| {
            let is_new = *known != signal;
            *known = signal;
            is_new
        });
    }

    fn with<T>(&self, read: impl FnOnce(&mut Known) -> T) -> T {
        read(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    /// Notes that so many tasks became claimable there.
    fn wake(&mut self, claimable: u64, woken: &Woken) {
        if claimable > 0 {
            self.claimable += claimable;
            self.hints.note(self.claimable, woken.clone());
        }
    }

    /// Numbers are given after the commit: until then each event of this server counts as one more.
    fn signal(&self) -> Signal {
        let last = self.numbered.0 + self.own.saturating_sub(self.own_numbered);
        Signal { claimable: self.claimable, last: Position(last) }
    }
}
