//! What a store cannot do by itself: somebody has to look at the clock.

use std::time::Duration;

use tasklane_core::{Command, Intent, WorkerId, limits};

use crate::apart::apart;
use crate::error::StoreError;
use crate::request::Direction;
use crate::store::Store;

/// What one round of maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Commands carried out.
    pub changed: usize,
    /// Commands refused: somebody else was faster, or a deadline had moved.
    pub refused: usize,
    /// Claims ended among them, because they were not started in time.
    pub unassigned: usize,
    /// Workers declared dead.
    pub dead_workers: usize,
    /// When to look again, if nothing new comes.
    pub next_in: Option<Duration>,
}

/// Carries out everything that is overdue, in slices (S21). Safe on several servers at once: each
/// command is decided on the state it meets.
pub async fn maintain(store: &dyn Store) -> Result<Maintained, StoreError> {
    let mut done = Maintained::default();
    loop {
        let overdue = store.overdue(limits::SLICE_TASKS).await?;
        let slice = overdue.commands.len();
        let mut changed = 0;
        if slice > 0 {
            let unassigns: Vec<_> = overdue.commands.iter().map(is_unassign).collect();
            let verdicts = apart(overdue.commands, |commands| store.execute(commands)).await;
            let (mut obstructed, mut last) = (0, None);
            for (verdict, is_unassign) in verdicts.into_iter().zip(unassigns) {
                match verdict {
                    Ok(Ok(_)) => {
                        changed += 1;
                        done.unassigned += usize::from(is_unassign);
                    }
                    Ok(Err(_)) => {}
                    Err(error) => {
                        obstructed += 1;
                        last = Some(error);
                    }
                }
            }
            // What stands in its own way is looked at again; others must not wait for it.
            if let (Some(error), true) = (last, obstructed == slice) {
                return Err(error);
            }
        }
        // All are queued before the first is awaited, so that they share a write.
        let dead = |worker: &WorkerId| store.direct(*worker, Direction::DeclareDead);
        for declared in overdue.silent.iter().map(dead).collect::<Vec<_>>() {
            done.dead_workers += usize::from(declared.await?.is_ok());
        }
        done.changed += changed;
        done.refused += slice - changed;
        done.next_in = overdue.next_in;
        // What was just changed may have set a nearer deadline: look once more.
        if changed == 0 && !overdue.more {
            return Ok(done);
        }
    }
}

const fn is_unassign(command: &Command) -> bool {
    matches!(command.intent, Intent::Unassign(_))
}
