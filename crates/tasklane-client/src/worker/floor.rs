//! The leases that a worker holds.

use std::collections::HashMap;
use std::time::Duration;

use tasklane_core::{LeaseToken, TaskId};
use tokio::time::Instant;

use super::context::{Stop, StopReason};
use crate::wire::{ClaimedTask, HeartbeatAnswer, LeaseRef, TaskIdText, TokenText};

/// The leases that a worker holds: of attempts that run, and of those that are over and not told.
#[derive(Debug, Default)]
pub(super) struct Floor {
    held: HashMap<LeaseToken, Held>,
}

#[derive(Debug)]
struct Held {
    task: TaskId,
    stop: Stop,
    /// When it ends by our own clock, unless it is renewed.
    until: Instant,
    running: bool,
    /// The server says that it is lost, so there is nothing left to tell.
    lost: bool,
}

impl Floor {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn running(&self) -> usize {
        self.held.values().filter(|held| held.running).count()
    }

    /// Takes in a task. An older lease of the same task is lost with that.
    pub(super) fn take(&mut self, task: &ClaimedTask, running: bool) -> Stop {
        for held in self.held.values_mut().filter(|held| held.task == task.id.0) {
            held.lost = true;
            held.stop.trip(StopReason::LeaseLost);
        }
        let stop = Stop::default();
        let until = Instant::now() + Duration::from_millis(task.lease_ms);
        let held = Held { task: task.id.0, stop: stop.clone(), until, running, lost: false };
        self.held.insert(task.lease_token.0, held);
        stop
    }

    /// An attempt is over. Whether there is somebody to tell.
    pub(super) fn ended(&mut self, token: LeaseToken) -> bool {
        match self.held.get_mut(&token) {
            Some(held) if !held.lost => {
                held.running = false;
                true
            }
            _ => {
                self.held.remove(&token);
                false
            }
        }
    }

    /// What came of it was told.
    pub(super) fn settled(&mut self, token: LeaseToken) {
        self.held.remove(&token);
    }

    /// What to renew.
    pub(super) fn leases(&self) -> Vec<LeaseRef> {
        let current = self.held.iter().filter(|(_, held)| !held.lost);
        current
            .map(|(token, held)| LeaseRef {
                task_id: TaskIdText(held.task),
                lease_token: TokenText(*token),
            })
            .collect()
    }

    /// What a heartbeat that was sent at `asked_at` has come to.
    pub(super) fn renewed(
        &mut self,
        asked_at: Instant,
        lease: Duration,
        sent: &[LeaseRef],
        answer: &HeartbeatAnswer,
    ) {
        for LeaseRef { task_id, lease_token } in sent {
            // What was settled meanwhile is not held any more, and what is being told is decided
            // by the answer to that.
            let Some(held) = self.held.get_mut(&lease_token.0) else { continue };
            if !answer.lost.contains(task_id) {
                held.until = held.until.max(asked_at + lease);
                if answer.cancel.contains(task_id) {
                    held.stop.trip(StopReason::Cancelled);
                }
            } else if held.running {
                held.lost = true;
                held.stop.trip(StopReason::LeaseLost);
            }
        }
    }

    /// These should stop, as an answer to results says.
    pub(super) fn cancel(&mut self, tasks: &[TaskIdText]) {
        for held in self.held.values().filter(|held| tasks.contains(&TaskIdText(held.task))) {
            held.stop.trip(StopReason::Cancelled);
        }
    }

    /// Stops what could not be renewed in time. Its result is still told: a server that was away
    /// may take it.
    pub(super) fn lapse(&mut self, now: Instant) {
        for held in self.held.values().filter(|held| held.running && held.until <= now) {
            held.stop.trip(StopReason::LeaseLost);
        }
    }

    /// When the next lease ends.
    pub(super) fn next_lapse(&self) -> Option<Instant> {
        let running = self.held.values().filter(|held| held.running);
        running.filter(|held| held.stop.reason().is_none()).map(|held| held.until).min()
    }

    pub(super) fn stop_all(&mut self, reason: StopReason) {
        self.held.values().for_each(|held| held.stop.trip(reason));
    }
}
