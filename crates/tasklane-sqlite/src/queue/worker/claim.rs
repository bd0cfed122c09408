//! The thread that claims: as many tasks as there are free handlers, and otherwise it is parked.

use std::time::Duration;

use tasklane_store::{ClaimRequest, Claimed, Store, StoreError};

use super::Crew;
use crate::queue::block::{block_on, block_until, deadline, either};

/// Longest time without a look: signals are hints, and a task released a moment ago gives none
/// when this worker may have it again.
const POLL: Duration = Duration::from_secs(1);

pub(super) fn run(crew: &Crew) {
    let mut signal = crew.core.store.watch();
    while !crew.claims.is_closed() {
        // Noted before the claim, so that what comes during it is not missed.
        let seen = signal.borrow_and_update().claimable;
        let free = crew.floor.free();
        if free == 0 {
            block_until(crew.claims.rung(), deadline(POLL));
            continue;
        }
        match claim(crew, free) {
            Ok(Some(claimed)) => {
                crew.core.notes.note(|troubles| troubles.worker = None);
                let enough = claimed.len() >= free;
                crew.floor.deliver(claimed);
                if enough {
                    continue;
                }
            }
            // Not known any more: the thread that renews registers again, and rings.
            Ok(None) => {
                crew.renewals.ring();
                block_until(crew.claims.rung(), deadline(POLL));
                continue;
            }
            Err(error) => {
                crew.core.notes.note(|troubles| troubles.worker = Some(error));
                block_until(crew.claims.rung(), deadline(POLL));
                continue;
            }
        }
        // Nothing is left to claim: free handlers are no news, only the store has them.
        let until = deadline(POLL);
        loop {
            let news = signal.wait_for(|signal| signal.claimable != seen);
            let woken = block_until(either(news, crew.claims.rung()), until).is_some();
            let changed = signal.borrow().claimable != seen;
            if !woken || changed || crew.claims.is_closed() {
                break;
            }
        }
    }
}

/// Tasks for free handlers; `None` if the store does not know this worker.
fn claim(crew: &Crew, count: usize) -> Result<Option<Vec<Claimed>>, StoreError> {
    let request = ClaimRequest { worker: crew.id(), count, auto_start: true, narrowed: None };
    let verdicts = block_on(crew.core.store.claim(vec![request]))?;
    Ok(verdicts.into_iter().next().and_then(Result::ok))
}
