//! Translates what is random in the store under test into the model's words.

use std::collections::HashMap;

use tasklane_core::{
    Death, Entry, Event, Lease, LeaseToken, Settled, State, Task, TaskId, WorkerId,
};

use crate::feed::{FeedEvent, Subject};
use crate::query::{StoredTask, Trail};

/// A worker as the model and the store know it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WorkerPair {
    pub(super) model: WorkerId,
    pub(super) real: WorkerId,
}

/// A lease token as the model and the store gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TokenPair {
    pub(super) model: LeaseToken,
    pub(super) real: LeaseToken,
}

#[derive(Default)]
pub(super) struct Names {
    workers: HashMap<WorkerId, WorkerId>,
    tokens: HashMap<TaskId, Vec<TokenPair>>,
}

impl Names {
    pub(super) fn add_worker(&mut self, pair: WorkerPair) {
        self.workers.insert(pair.real, pair.model);
    }

    pub(super) fn add_token(&mut self, task: TaskId, pair: TokenPair) {
        self.tokens.entry(task).or_default().push(pair);
    }

    /// Forgets the tokens of tasks that are no more.
    pub(super) fn retain(&mut self, exists: impl Fn(TaskId) -> bool) {
        self.tokens.retain(|task, _| exists(*task));
    }

    pub(super) fn worker(&self, real: WorkerId) -> WorkerId {
        *self.workers.get(&real).expect("a worker that was registered")
    }

    fn token(&self, task: TaskId, real: LeaseToken) -> LeaseToken {
        let tokens = self.tokens.get(&task).map_or(&[][..], Vec::as_slice);
        let pair = tokens.iter().rev().find(|pair| pair.real == real);
        pair.expect("a token that a claim gave").model
    }

    pub(super) fn task(&self, real: &Task) -> Task {
        let mut task = real.clone();
        match &mut task.state {
            State::Assigned(lease) | State::Running(lease) | State::Completed { lease, .. } => {
                *lease = self.lease(real.id, lease);
            }
            State::Pending { withheld: Some(held) } => held.worker = self.worker(held.worker),
            _ => {}
        }
        task
    }

    fn lease(&self, task: TaskId, real: &Lease) -> Lease {
        let (token, worker) = (self.token(task, real.token), self.worker(real.worker));
        Lease { token, worker, ..*real }
    }

    pub(super) fn stored(&self, real: &StoredTask) -> StoredTask {
        let StoredTask { task, payload, result } = real;
        StoredTask { task: self.task(task), payload: payload.clone(), result: result.clone() }
    }

    pub(super) fn trail(&self, real: &Trail) -> Trail {
        let id = real.task.id;
        Trail {
            task: self.task(&real.task),
            admitted: real.admitted.clone(),
            entries: real.entries.iter().map(|entry| self.entry(id, entry)).collect(),
            cut: real.cut,
        }
    }

    fn entry(&self, id: TaskId, real: &Entry) -> Entry {
        let mut entry = real.clone();
        match &mut entry.event {
            Event::Claimed { worker, token, .. } => {
                (*worker, *token) = (self.worker(*worker), self.token(id, *token));
            }
            Event::Released { withheld, settled, .. } => {
                if let Some(held) = withheld {
                    held.worker = self.worker(held.worker);
                }
                self.settled(id, settled);
            }
            Event::Retrying { settled, .. }
            | Event::Cancelled { settled, .. }
            | Event::Failed(Death { settled, .. })
            | Event::DeadLettered(Death { settled, .. }) => self.settled(id, settled),
            _ => {}
        }
        entry
    }

    fn settled(&self, id: TaskId, settled: &mut Option<Settled>) {
        if let Some(settled) = settled {
            settled.token = self.token(id, settled.token);
        }
    }

    pub(super) fn event(&self, real: &FeedEvent) -> FeedEvent {
        let mut event = real.clone();
        match &mut event.subject {
            Subject::Task(notice) => notice.worker = notice.worker.map(|id| self.worker(id)),
            Subject::Worker(worker, _) => *worker = self.worker(*worker),
            Subject::Queue(..) => {}
        }
        event
    }
}
