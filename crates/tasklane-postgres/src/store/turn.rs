//! Who goes when. Calls of one server are carried out as if one after the other, in the order in
//! which they were made, wherever somebody could tell; otherwise side by side.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashSet;
use tasklane_core::{TaskId, WorkerId};
use tokio::sync::Notify;

/// What a call is about.
#[derive(Debug)]
pub(crate) enum Kind {
    /// New tasks.
    Submit,
    /// These tasks.
    Execute(HashSet<TaskId>),
    /// These tasks, then whatever is claimable, and the room of these workers.
    Claim(HashSet<TaskId>, HashSet<WorkerId>),
    /// Nothing that another call's order could show in.
    Other,
}

impl Kind {
    /// Whether a call of this kind has to wait for one that was made before it. Claims pass over what
    /// others of them hold, but lock their workers: who would wait for such a lock waits here, where
    /// no time runs out. A claim that comes with settles goes past submissions: one that is held up
    /// would hold up results.
    fn waits_for(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Claim(own, _), Self::Submit) => own.is_empty(),
            (Self::Claim(_, own), Self::Claim(_, others)) if !own.is_disjoint(others) => true,
            (
                Self::Execute(own) | Self::Claim(own, _),
                Self::Execute(others) | Self::Claim(others, _),
            ) => !own.is_disjoint(others),
            _ => false,
        }
    }
}

#[derive(Default)]
struct Line {
    last: u64,
    calls: BTreeMap<u64, Kind>,
}

#[derive(Default, Clone)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Default)]
struct Shared {
    line: Mutex<Line>,
    over: Notify,
}

/// A call's place. It is over when this is dropped.
pub(crate) struct Turn {
    number: u64,
    turns: Turns,
}

impl Turns {
    pub(crate) fn take(&self, kind: Kind) -> Turn {
        let mut line = self.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.last += 1;
        let number = line.last;
        line.calls.insert(number, kind);
        Turn { number, turns: self.clone() }
    }
}

impl Turn {
    /// Waits until nothing is under way that this call would have to come after.
    pub(crate) async fn comes(&self) {
        loop {
            let over = self.turns.0.over.notified();
            let mut over = std::pin::pin!(over);
            // Before the look, so that an end in between is not missed.
            over.as_mut().enable();
            if self.is_free() {
                return;
            }
            over.await;
        }
    }

    fn is_free(&self) -> bool {
        let line = self.turns.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = line.calls.get(&self.number) else { return true };
        line.calls.range(..self.number).all(|(_, earlier)| !own.waits_for(earlier))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = self.turns.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.calls.remove(&self.number);
        drop(line);
        self.turns.0.over.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_one_worker_come_one_after_the_other_and_those_of_others_do_not_wait() {
        let worker = |number| WorkerId::from_bytes([number; 16]);
        let claim = |number| Kind::Claim(HashSet::new(), HashSet::from([worker(number)]));
        let turns = Turns::default();
        let (first, again, other) =
            (turns.take(claim(1)), turns.take(claim(1)), turns.take(claim(2)));
        assert!(first.is_free() && !again.is_free() && other.is_free());
        drop(first);
        assert!(again.is_free());
    }

    #[test]
    fn of_what_comes_behind_a_submission_only_a_claim_alone_waits() {
        let id =
            TaskId::from_bytes([0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let tasks = || HashSet::from([id]);
        let turns = Turns::default();
        let submission = turns.take(Kind::Submit);
        let alone = turns.take(Kind::Claim(HashSet::new(), HashSet::new()));
        let settles = turns.take(Kind::Execute(tasks()));
        drop(settles);
        let both = turns.take(Kind::Claim(tasks(), HashSet::new()));
        assert!(!alone.is_free() && both.is_free());
        drop(submission);
        assert!(alone.is_free());
    }
}
