//! The thread that keeps leases alive, and learns which handlers should stop.

use std::time::Duration;

use tasklane_core::TaskId;
use tasklane_store::{LeaseRef, Leases, Renewal, Renewed, Store, StoreError};

use super::Crew;
use crate::queue::block::{block_on, block_until, deadline, either};

/// How soon to try again after a failure, if that is sooner than the next renewal.
const RETRY: Duration = Duration::from_millis(500);

pub(super) fn run(crew: &Crew) {
    let rules = &crew.core.rules;
    // Two renewals may be missed before a lease ends or the worker counts as dead.
    let every = rules.lease.min(rules.silence) / 3;
    let mut changes = crew.core.notes.leases.subscribe();
    while !crew.renewals.is_closed() {
        changes.mark_unchanged();
        let pause = match renew(crew) {
            Ok(()) => every,
            Err(error) => {
                crew.core.notes.note(|troubles| troubles.worker = Some(error));
                every.min(RETRY)
            }
        };
        block_until(either(changes.changed(), crew.renewals.rung()), deadline(pause));
    }
}

fn renew(crew: &Crew) -> Result<(), StoreError> {
    let leases = crew.floor.leases();
    let (worker, sent) = (crew.id(), Leases::These(leases.clone()));
    let renewal = Renewal { worker, leases: sent, health: None };
    let verdicts = block_on(crew.core.store.renew(vec![renewal]))?;
    match verdicts.into_iter().next() {
        Some(Ok(renewed)) => tell(crew, &leases, &renewed),
        // Declared dead, for example because the machine slept. Leases are proved by their tokens,
        // so what runs goes on under the new id.
        Some(Err(_)) => {
            crew.set_id(block_on(crew.core.store.register(crew.spec.clone()))?);
            crew.claims.ring();
            crew.renewals.ring();
        }
        None => {}
    }
    Ok(())
}

/// Tells handlers what the answer says of the leases that were sent; one claimed since is another.
fn tell(crew: &Crew, sent: &[LeaseRef], renewed: &Renewed) {
    let of = |ids: &[TaskId]| -> Vec<LeaseRef> {
        sent.iter().filter(|lease| ids.contains(&lease.task)).copied().collect()
    };
    of(&renewed.cancel).into_iter().for_each(|lease| crew.floor.cancel(lease));
    of(&renewed.lost).into_iter().for_each(|lease| crew.floor.lose(lease));
}
