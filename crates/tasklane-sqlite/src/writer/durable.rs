//! How far the feed is known to be on disk.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tasklane_store::{FeedPage, Position};
use tokio::sync::watch;

/// Readers see a commit before its sync. What they saw may be told once it cannot be lost.
#[derive(Default)]
pub(crate) struct Durable {
    /// The last event that a reader may see.
    visible: AtomicU64,
    /// The last event that is on disk, or as safe as the store was asked to make it.
    safe: watch::Sender<u64>,
    /// Set when no more syncs will come: later events may be lost, and their numbers given again.
    tellable: OnceLock<u64>,
}

impl Durable {
    /// A commit is about to make events up to this one visible.
    pub(super) fn show(&self, last: Position) {
        self.visible.store(last.0, Ordering::SeqCst);
    }

    /// Everything up to this event is safe.
    pub(super) fn reached(&self, last: Position) {
        self.safe.send_if_modified(|safe| {
            let further = last.0 > *safe;
            *safe = last.0.max(*safe);
            further
        });
    }

    /// A commit failed: this is the last event after all.
    pub(super) fn take_back(&self, last: Position) {
        self.show(last);
        self.safe.send_modify(|_| {});
    }

    /// No more syncs will come: readers wait no longer, and the feed ends where it was safe.
    pub(super) fn give_up(&self) {
        let _ = self.tellable.set(*self.safe.borrow());
        self.reached(Position(u64::MAX));
    }

    /// Leaves out of a page of the feed what may be lost.
    pub(crate) fn hold_back(&self, page: &mut FeedPage) {
        let Some(tellable) = self.tellable.get() else { return };
        page.events.retain(|event| event.position.0 <= *tellable);
        page.next.position = page.next.position.min(Position(*tellable));
    }

    /// Waits until all that a reader can have seen by now is safe.
    pub(crate) async fn settled(&self) {
        let seen = self.visible.load(Ordering::SeqCst);
        let mut safe = self.safe.subscribe();
        let settled = |safe: &u64| *safe >= seen.min(self.visible.load(Ordering::SeqCst));
        // Fails only when the sender is gone, and this holds it.
        let _ = safe.wait_for(settled).await;
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_settled(durable: &Durable) -> bool {
        let waiting = std::pin::pin!(durable.settled());
        waiting.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn what_was_seen_is_told_when_it_is_safe() {
        let durable = Durable::default();
        assert!(is_settled(&durable));
        durable.show(Position(7));
        assert!(!is_settled(&durable));
        durable.reached(Position(6));
        assert!(!is_settled(&durable));
        durable.reached(Position(7));
        assert!(is_settled(&durable));
    }

    #[test]
    fn nobody_waits_for_what_was_taken_back_or_will_never_be_safe() {
        let durable = Durable::default();
        durable.show(Position(7));
        durable.take_back(Position(0));
        assert!(is_settled(&durable));
        durable.show(Position(7));
        durable.give_up();
        assert!(is_settled(&durable));
    }
}
