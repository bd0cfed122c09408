//! Hints: what became claimable and what happened, here and, as far as it is known, elsewhere.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tasklane_store::{Position, Signal};
use tokio::sync::{Notify, watch};

use crate::session::{Woken, Written};

/// Writes whose lanes are remembered.
const REMEMBERED: usize = 1_000;

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
    numbered: u64,
    /// Events that this server had committed when it learnt that.
    own_then: u64,
    /// Events that this server has committed.
    own: u64,
    /// Events of commits that are under way here.
    under_way: u64,
    claimable: u64,
    /// Up to which hint lanes are forgotten; then hints and the lanes that made them rise.
    forgotten: u64,
    woken: VecDeque<(u64, Woken)>,
}

impl Signals {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    /// Events that this server has committed.
    pub(crate) fn own(&self) -> u64 {
        self.with(|known| known.own)
    }

    /// Whether this server has committed just so many events, and nothing is under way that may
    /// have been committed already.
    pub(crate) fn is_settled(&self, own: u64) -> bool {
        self.with(|known| known.own == own && known.under_way == 0)
    }

    /// Notes that a commit of this server begins: others may see it before its end is known here.
    pub(crate) fn commits(&self, written: &Written) {
        self.with(|known| known.under_way += written.events);
    }

    /// Notes that such a commit failed, as far as is known.
    pub(crate) fn failed(&self, written: &Written) {
        self.with(|known| known.under_way -= written.events);
    }

    /// Notes that it went well.
    pub(crate) fn committed(&self, written: &Written) {
        let signal = self.with(|known| {
            known.under_way -= written.events;
            known.own += written.events;
            if written.claimable > 0 {
                known.claimable += written.claimable;
                let woken = match &written.woken {
                    Woken::Lanes(lanes) => Woken::Lanes(lanes.clone()),
                    Woken::Anywhere => Woken::Anywhere,
                };
                known.woken.push_back((known.claimable, woken));
                if known.woken.len() > REMEMBERED
                    && let Some((hint, _)) = known.woken.pop_front()
                {
                    known.forgotten = hint;
                }
            }
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

    /// Notes the last number given; this server had committed `own` events before it was asked for.
    /// Whatever is above what was expected is another server's.
    pub(crate) fn numbered(&self, head: Position, own: u64) {
        let signal = self.with(|known| {
            let expected = known.numbered + own.saturating_sub(known.own_then);
            if head.0 > expected && known.is_known {
                // At most so many tasks became claimable.
                known.claimable += head.0 - expected;
                known.woken.push_back((known.claimable, Woken::Anywhere));
            }
            known.is_known = true;
            if own >= known.own_then && head.0 >= known.numbered {
                known.numbered = head.0;
                known.own_then = own;
            }
            known.signal()
        });
        self.tell(signal);
    }

    /// Where tasks became claimable since the hint was `seen`, if that is known.
    pub(crate) fn since(&self, seen: u64) -> Option<Vec<i32>> {
        self.with(|known| {
            if seen < known.forgotten {
                return None;
            }
            let mut lanes = Vec::new();
            for (_, woken) in known.woken.iter().filter(|(hint, _)| *hint > seen) {
                match woken {
                    Woken::Lanes(some) => lanes.extend(some.iter().copied()),
                    Woken::Anywhere => return None,
                }
            }
            lanes.sort_unstable();
            lanes.dedup();
            Some(lanes)
        })
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
    /// Numbers are given after the commit: until then each event of this server counts as one more.
    fn signal(&self) -> Signal {
        let last = self.numbered + self.own.saturating_sub(self.own_then);
        Signal { claimable: self.claimable, last: Position(last) }
    }
}
