//! Claims (S8, S9).

use std::cmp::Reverse;

use tasklane_core::lifecycle::{self, Decision};
use tasklane_core::{
    Intent, Order, Priority, Selection, State, Task, TaskId, WorkerId, WorkerState, limits,
};

use super::memory::{Memory, Now};
use crate::error::WorkerRefusal;
use crate::request::{ClaimRequest, Claimed};

impl Memory {
    pub(super) fn claim(
        &mut self,
        requests: &[ClaimRequest],
        now: Now,
    ) -> Vec<Result<Vec<Claimed>, WorkerRefusal>> {
        let mut bytes = 0;
        requests.iter().map(|request| self.claim_one(request, &mut bytes, now)).collect()
    }

    /// `bytes` is what the call has handed out.
    fn claim_one(
        &mut self,
        request: &ClaimRequest,
        bytes: &mut usize,
        now: Now,
    ) -> Result<Vec<Claimed>, WorkerRefusal> {
        let known = self.hear(request.worker, now)?;
        if known.state != WorkerState::Active {
            return Ok(Vec::new());
        }
        let mut selection = known.spec.selection.clone();
        if let Some(narrowed) = &request.narrowed {
            selection.capabilities = selection.capabilities.intersection(narrowed);
        }
        let capacity = known.spec.capacity as usize;
        let free = capacity.saturating_sub(self.held_by(request.worker).count());
        let count = request.count.min(free).min(limits::CLAIM_TASKS_MAX);
        let mut claimed = Vec::new();
        let mut passed_over = Vec::new();
        while claimed.len() < count && (claimed.is_empty() || *bytes < limits::CLAIM_BYTES_MAX) {
            let Some(task) = self.next_for(&selection, &passed_over, now) else { break };
            let (id, expired) = (task.id, task.is_expired(now.wall));
            let withheld = is_withheld(task, request.worker, now);
            match (expired, withheld) {
                (true, _) => self.expire(id, now),
                (false, true) => passed_over.push(id),
                (false, false) => {
                    let handed = self.hand_over(id, request, now);
                    *bytes += handed.payload.len();
                    claimed.push(handed);
                }
            }
        }
        Ok(claimed)
    }

    /// The task that a worker with this selection is to look at next.
    fn next_for(
        &mut self,
        selection: &Selection,
        passed_over: &[TaskId],
        now: Now,
    ) -> Option<&Task> {
        let open = |at: usize| self.in_order(at, selection, passed_over, now);
        let candidates: Vec<_> = (0..self.queues.len())
            .filter(|at| !self.queues[*at].1.paused && !open(*at).is_empty())
            .map(|at| (at, self.queues[at].1.weight))
            .collect();
        let picked = self.rotation.pick(&candidates)?;
        let open = self.in_order(picked, selection, passed_over, now);
        let drawn = match self.queues[picked].1.order {
            Order::Aging(_) => open.first().copied(),
            Order::Weighted(weights) => {
                let of = |priority| open.iter().find(|(_, own)| *own == priority).copied();
                let drawn = weights.draw(|priority| of(priority).is_some(), &mut self.random);
                drawn.and_then(of)
            }
        };
        drawn.map(|(id, _)| &self.tasks[&id].task)
    }

    /// What waits in a queue for a worker with this selection, first things first, and its base
    /// priority.
    fn in_order(
        &self,
        at: usize,
        selection: &Selection,
        passed_over: &[TaskId],
        now: Now,
    ) -> Vec<(TaskId, Priority)> {
        let (queue, settings) = &self.queues[at];
        let waits = |task: &&Task| {
            matches!(task.state, State::Pending { .. })
                && task.spec.lane.queue == *queue
                && selection.takes(&task.spec.lane)
                && !passed_over.contains(&task.id)
        };
        let rank = |task: &&Task| {
            let (base, place) = (task.spec.priority, task.place);
            (Reverse(settings.order.effective(base, place.ready_at, now.wall)), place)
        };
        let tasks = self.tasks.values().map(|record| &record.task);
        let mut waiting: Vec<_> = tasks.filter(waits).collect();
        waiting.sort_by_key(rank);
        waiting.into_iter().map(|task| (task.id, task.spec.priority)).collect()
    }

    /// A claim met it before maintenance did.
    fn expire(&mut self, id: TaskId, now: Now) {
        let record = &self.tasks[&id];
        let moment = self.moment(record, now);
        let mut random = self.random.clone();
        let expired = lifecycle::decide(&record.task, &Intent::Expire, &moment, &mut random);
        let Ok(Decision::Change(event)) = expired else {
            unreachable!("it is waiting and expired")
        };
        self.happen(id, event, now);
    }

    fn hand_over(&mut self, id: TaskId, request: &ClaimRequest, now: Now) -> Claimed {
        let task = &self.tasks[&id].task;
        let at = self.position(&task.spec.lane.queue).expect("its queue is known");
        let order = self.queues[at].1.order;
        let (worker, auto_start) = (request.worker, request.auto_start);
        let claim = lifecycle::claim(task, worker, auto_start, &order, now.wall, &mut self.random)
            .expect("it is claimable");
        if let Some(promoted) = claim.promoted {
            self.happen(id, promoted, now);
        }
        self.happen(id, claim.claimed, now);
        let record = &self.tasks[&id];
        Claimed {
            task: record.task.clone(),
            payload: record.payload.clone(),
            lease: self.rules.lease,
        }
    }
}

/// Whether this worker gave it back a moment ago.
fn is_withheld(task: &Task, worker: WorkerId, now: Now) -> bool {
    let State::Pending { withheld } = task.state else { return false };
    withheld.is_some_and(|held| held.worker == worker && now.wall < held.until)
}
