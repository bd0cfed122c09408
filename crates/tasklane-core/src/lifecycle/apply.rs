//! Making an event happen: the only code that changes a task.

use std::sync::Arc;

use crate::event::{Death, Entry, Event, EventKind, Update};
use crate::id::{Place, Stamp};
use crate::state::{DeadReason, Lease, State, StateName};
use crate::task::{Counts, Task};

/// An event that the state diagram does not allow there: a damaged trail, or a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event {event:?} cannot happen to a task that is {state}")]
pub struct Illegal {
    /// The state it met.
    pub state: StateName,
    /// The event.
    pub event: EventKind,
}

impl Task {
    /// Makes `entry` happen. On `Err` the task is unchanged.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), Illegal> {
        let stamp = entry.stamp;
        let illegal = Illegal { state: self.state.name(), event: entry.event.kind() };
        match (&entry.event, &mut self.state) {
            (Event::Due, State::Scheduled { .. } | State::Retrying { .. }) => {
                self.state = State::READY;
            }
            (Event::Unblocked, State::Blocked) => self.unblock(stamp),
            (Event::Promoted { .. }, State::Pending { .. }) => {}
            (Event::Claimed { worker, token, fence, started }, State::Pending { .. }) => {
                let started = started.then_some(stamp);
                let lease = Lease {
                    token: *token,
                    worker: *worker,
                    fence: *fence,
                    claimed: stamp,
                    started,
                    cancel_requested: None,
                };
                self.fence = *fence;
                self.counts.deliveries += 1;
                self.progress = None;
                self.state = match started {
                    Some(_) => State::Running(lease),
                    None => State::Assigned(lease),
                };
            }
            (Event::Started, State::Assigned(lease)) => {
                self.state = State::Running(Lease { started: Some(stamp), ..*lease });
            }
            (Event::Progressed(progress), State::Running(_)) => {
                self.progress = Some(Arc::clone(progress));
            }
            (Event::CancelRequested, State::Assigned(lease) | State::Running(lease)) => {
                lease.cancel_requested = Some(stamp);
            }
            (Event::Completed { digest }, State::Running(lease)) => {
                self.state = State::Completed { lease: *lease, ended: stamp, digest: *digest };
                self.count_attempt();
            }
            (Event::Retrying { failure, due_at, timeout, .. }, State::Running(_)) => {
                self.state = State::Retrying { due_at: *due_at };
                self.timeout = *timeout;
                self.error = Some(Arc::new(failure.summary()));
                self.count_attempt();
            }
            (Event::Failed(death), state)
                if may_die(state, death) && death.reason != DeadReason::Refused =>
            {
                *state = State::Failed { ended: stamp, reason: death.reason };
                self.die(death);
            }
            (Event::DeadLettered(death), state) if may_die(state, death) => {
                *state = State::DeadLetter { ended: stamp, reason: death.reason };
                self.die(death);
            }
            (Event::Cancelled { reason, settled }, state) if !state.name().is_terminal() => {
                *state = State::Cancelled { ended: stamp, reason: *reason };
                if settled.is_some() {
                    self.counts.lease_losses = 0;
                }
            }
            (Event::Released { due_at, withheld, .. }, State::Assigned(_) | State::Running(_)) => {
                self.state = match due_at {
                    Some(due_at) => State::Scheduled { due_at: *due_at },
                    None => State::Pending { withheld: *withheld },
                };
                self.counts.lease_losses = 0;
            }
            (Event::LeaseLost, State::Assigned(_) | State::Running(_)) => {
                self.state = State::READY;
                self.counts.lease_losses += 1;
            }
            (Event::Requeued, State::Assigned(_) | State::Running(_) | State::Retrying { .. }) => {
                self.state = State::READY
            }
            (
                Event::Replayed { priority, reset_attempts, blocked },
                State::Failed { .. } | State::Cancelled { .. } | State::DeadLetter { .. },
            ) => {
                self.state = if *blocked { State::Blocked } else { State::READY };
                self.spec.priority = priority.unwrap_or(self.spec.priority);
                self.revive(stamp, *reset_attempts);
            }
            (Event::Updated(update), state) if may_update(state, update) => {
                self.update(update, stamp);
            }
            (Event::Discarded, state) if state.name().is_terminal() => {}
            _ => return Err(illegal),
        }
        self.updated_at = stamp.at;
        Ok(())
    }

    /// Ready from now on, or at its scheduled time if that is still to come.
    fn unblock(&mut self, stamp: Stamp) {
        // An operator retry means now: the schedule of a replayed task is history.
        let scheduled_at = match self.counts.replays {
            0 => self.admission.scheduled_at.filter(|at| *at > stamp.at),
            _ => None,
        };
        self.place = Place { ready_at: scheduled_at.unwrap_or(stamp.at), sequence: stamp.sequence };
        self.state = match scheduled_at {
            Some(due_at) => State::Scheduled { due_at },
            None => State::READY,
        };
    }

    fn count_attempt(&mut self) {
        self.counts.attempts += 1;
        self.counts.lease_losses = 0;
    }

    fn die(&mut self, death: &Death) {
        match &death.failure {
            // Nobody tried.
            Some(failure) if death.reason == DeadReason::Refused => {
                self.error = Some(Arc::new(failure.summary()));
            }
            Some(failure) => {
                self.error = Some(Arc::new(failure.summary()));
                self.count_attempt();
            }
            // Poison: it never got as far as an outcome.
            None => self.counts.lease_losses += 1,
        }
    }

    fn revive(&mut self, stamp: Stamp, reset_attempts: bool) {
        self.place = Place { ready_at: stamp.at, sequence: stamp.sequence };
        self.timeout = self.spec.timeout;
        self.progress = None;
        // It would be cancelled again at once otherwise.
        self.expires_at = self.expires_at.filter(|at| *at > stamp.at);
        self.counts = Counts {
            attempts: if reset_attempts { 0 } else { self.counts.attempts },
            deliveries: self.counts.deliveries,
            lease_losses: 0,
            replays: self.counts.replays + 1,
        };
    }

    fn update(&mut self, update: &Update, stamp: Stamp) {
        if let Some(priority) = update.priority {
            self.spec.priority = priority;
        }
        if let Some(metadata) = &update.metadata {
            self.spec.metadata = metadata.clone();
            self.relabelled = true;
        }
        if let Some(due_at) = update.scheduled_at {
            // A time in the past means at once: it must not count as waiting since then.
            self.place = Place { ready_at: due_at.max(stamp.at), sequence: stamp.sequence };
            self.state = State::Scheduled { due_at };
        }
    }
}

/// Only a live task is updated, and only a scheduled one is given another time.
const fn may_update(state: &State, update: &Update) -> bool {
    match update.scheduled_at {
        Some(_) => matches!(state, State::Scheduled { .. }),
        None => !state.name().is_terminal(),
    }
}

/// Only a running task fails; an assigned one can still lose its last lease, and one that nobody
/// has had yet be refused.
fn may_die(state: &State, death: &Death) -> bool {
    let refused = death.reason == DeadReason::Refused;
    match state {
        State::Pending { .. } => refused,
        State::Running(_) => !refused,
        State::Assigned(_) => !refused && death.failure.is_none(),
        _ => false,
    }
}
