//! Claims: a pending task goes to a worker.

use crate::error::Refusal;
use crate::event::Event;
use crate::id::{LeaseToken, WorkerId};
use crate::order::Order;
use crate::random::Random;
use crate::state::State;
use crate::task::Task;
use crate::time::Timestamp;

use super::invalid_state;

/// The events of one claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Before it, if the task is claimed above its base.
    pub promoted: Option<Event>,
    /// The claim itself.
    pub claimed: Event,
}

/// What happens when `worker` gets `task`. The store has found it to be next by [`Order`].
pub fn claim(
    task: &Task,
    worker: WorkerId,
    auto_start: bool,
    order: &Order,
    now: Timestamp,
    random: &mut impl Random,
) -> Result<Claim, Refusal> {
    let State::Pending { withheld } = task.state else {
        return Err(invalid_state(task));
    };
    if withheld.is_some_and(|held| held.worker == worker && now < held.until) {
        return Err(invalid_state(task));
    }
    // Maintenance has not come to it yet, but its time is over.
    if task.is_expired(now) {
        return Err(invalid_state(task));
    }
    let effective = order.effective(task.spec.priority, task.place.ready_at, now);
    let promoted = (effective > task.spec.priority)
        .then_some(Event::Promoted { from: task.spec.priority, to: effective });
    let claimed = Event::Claimed {
        worker,
        token: LeaseToken::generate(random),
        fence: task.fence.next(now),
        started: auto_start,
    };
    Ok(Claim { promoted, claimed })
}
