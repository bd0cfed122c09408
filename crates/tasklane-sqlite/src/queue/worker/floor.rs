//! What a worker has in hand: tasks waiting for a thread, leases held, and room for more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tasklane_core::{Lease, LeaseToken, Task, TaskId};
use tasklane_store::{Claimed, LeaseRef};

use crate::queue::context::Flag;

/// A task on its way to a handler.
pub(super) struct Delivery {
    pub(super) task: Task,
    pub(super) lease: Lease,
    pub(super) payload: Bytes,
    pub(super) flag: Arc<Flag>,
}

struct Held {
    token: LeaseToken,
    flag: Arc<Flag>,
}

#[derive(Default)]
struct State {
    /// Never more than the capacity: only as many are claimed as there is room for.
    waiting: VecDeque<Delivery>,
    /// At most one lease of a task is live, so a newer one ends an older.
    held: HashMap<TaskId, Held>,
    /// Tasks that wait for a thread or have one.
    busy: usize,
    closed: bool,
}

pub(super) struct Floor {
    capacity: usize,
    state: Mutex<State>,
    filled: Condvar,
    idle: Condvar,
}

impl Floor {
    pub(super) fn new(capacity: usize) -> Self {
        let (state, filled, idle) = Default::default();
        Self { capacity, state, filled, idle }
    }

    /// How many more tasks can run.
    pub(super) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.lock().busy)
    }

    /// Takes in what was claimed.
    pub(super) fn deliver(&self, claimed: Vec<Claimed>) {
        let mut state = self.lock();
        for Claimed { task, payload, .. } in claimed {
            let Some(lease) = task.state.lease().copied() else { continue };
            let flag = Arc::new(Flag::default());
            let held = Held { token: lease.token, flag: flag.clone() };
            if let Some(overtaken) = state.held.insert(task.id, held) {
                overtaken.flag.raise();
            }
            state.busy += 1;
            state.waiting.push_back(Delivery { task, lease, payload, flag });
            self.filled.notify_one();
        }
    }

    /// The next task for a thread; `None` when there will be no more.
    pub(super) fn next(&self) -> Option<Delivery> {
        let mut state = self.lock();
        loop {
            if let Some(delivery) = state.waiting.pop_front() {
                return Some(delivery);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A thread is done with a task.
    pub(super) fn finish(&self, lease: LeaseRef) {
        let mut state = self.lock();
        if state.holds(lease) {
            state.held.remove(&lease.task);
        }
        state.leave(1);
        self.idle.notify_all();
    }

    /// Whether a lease is ours as far as we know.
    pub(super) fn holds(&self, lease: LeaseRef) -> bool {
        self.lock().holds(lease)
    }

    pub(super) fn leases(&self) -> Vec<LeaseRef> {
        let state = self.lock();
        state.held.iter().map(|(task, held)| LeaseRef { task: *task, token: held.token }).collect()
    }

    /// A handler should stop.
    pub(super) fn cancel(&self, lease: LeaseRef) {
        let state = self.lock();
        if let Some(held) = state.held.get(&lease.task).filter(|held| held.token == lease.token) {
            held.flag.raise();
        }
    }

    /// A lease is gone: its handler should stop, and its result is dropped.
    pub(super) fn lose(&self, lease: LeaseRef) {
        let mut state = self.lock();
        if state.holds(lease) {
            state.held.remove(&lease.task).into_iter().for_each(|held| held.flag.raise());
        }
    }

    /// Takes back what no thread has begun.
    pub(super) fn take_waiting(&self) -> Vec<LeaseRef> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        while let Some(Delivery { task, lease, .. }) = state.waiting.pop_front() {
            let lease = LeaseRef { task: task.id, token: lease.token };
            state.leave(1);
            if state.holds(lease) {
                state.held.remove(&lease.task);
                taken.push(lease);
            }
        }
        taken
    }

    /// Takes all leases from their handlers and tells them to stop.
    pub(super) fn take_held(&self) -> Vec<LeaseRef> {
        let held = std::mem::take(&mut self.lock().held);
        let take = |(task, held): (TaskId, Held)| {
            held.flag.raise();
            LeaseRef { task, token: held.token }
        };
        held.into_iter().map(take).collect()
    }

    /// Waits until no thread has a task, or until the deadline.
    pub(super) fn wait_idle(&self, deadline: Option<Instant>) {
        let mut state = self.lock();
        while state.busy > 0 {
            state = match deadline {
                None => self.idle.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    let waited = self.idle.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// There will be no more tasks.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn holds(&self, lease: LeaseRef) -> bool {
        self.held.get(&lease.task).is_some_and(|held| held.token == lease.token)
    }

    fn leave(&mut self, count: usize) {
        self.busy = self.busy.saturating_sub(count);
    }
}
