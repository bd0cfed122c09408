//! What producers call: submit, look, wait, cancel.

use std::time::Duration;

use tasklane_core::{
    Command, Draft, Intent, Invalid, NewTask, Problem, StateName, TaskId, Update, limits,
};
use tasklane_store::{
    Changed, Cursor, FeedPage, Page, Query, Stats, Store, StoreError, StoredTask, Submission,
    Submitted, Trail,
};

use super::Queue;
use super::block::{block_on, block_until, deadline};
use super::error::QueueError;

/// What came of cancelling a task (S10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// It is cancelled.
    Done,
    /// A worker has it and was asked to stop; a completion that comes first still counts.
    Requested,
}

impl Queue {
    /// Submits a task. The answer has its id, and says whether it was there before (S13).
    pub fn submit(&self, task: NewTask) -> Result<Submitted, QueueError> {
        let draft = task.resolve(&self.core.policies)?;
        let submitted = self.send(vec![draft]).map_err(QueueError::of_one)?;
        let missing = || StoreError::OutcomeUnknown("the answer was empty".into());
        Ok(submitted.into_iter().next().ok_or_else(missing)?)
    }

    /// Submits tasks, all of them or none; the answers are in their order.
    pub fn submit_all(&self, tasks: Vec<NewTask>) -> Result<Vec<Submitted>, QueueError> {
        if tasks.len() > limits::BATCH_TASKS_MAX {
            let max = limits::BATCH_TASKS_MAX;
            return Err(Invalid::new("tasks", Problem::TooMany { max }).into());
        }
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let resolve = |(index, task): (usize, NewTask)| {
            let draft = task.resolve(&self.core.policies);
            draft.map_err(|invalid| QueueError::InvalidTask { index, invalid })
        };
        let drafts = tasks.into_iter().enumerate().map(resolve);
        self.send(drafts.collect::<Result<_, _>>()?)
    }

    /// The task with this id, with its payload and result.
    pub fn get(&self, id: TaskId) -> Result<StoredTask, QueueError> {
        let found = block_on(self.core.store.get(vec![id]))?;
        found.into_iter().next().flatten().ok_or(QueueError::NotFound(id))
    }

    /// Waits until a task has ended, and returns it; [`QueueError::NotEnded`] if it has not by
    /// then. Takes no processor time while nothing happens.
    pub fn wait(&self, id: TaskId, timeout: Duration) -> Result<StoredTask, QueueError> {
        let deadline = deadline(timeout);
        let mut signal = self.core.store.watch();
        loop {
            // Noted before the look, so that what happens during it is not missed.
            let seen = signal.borrow_and_update().last;
            let found = self.get(id)?;
            let current = found.task.state.name();
            if current.is_terminal() {
                return Ok(found);
            }
            let event = block_until(signal.wait_for(|signal| signal.last != seen), deadline);
            match event {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(StoreError::Closed.into()),
                None => {
                    let found = self.get(id)?;
                    let current = found.task.state.name();
                    let late = QueueError::NotEnded { id, current };
                    return current.is_terminal().then_some(found).ok_or(late);
                }
            }
        }
    }

    /// Cancels a task: at once if no worker has it, otherwise its handler is asked to stop.
    pub fn cancel(&self, id: TaskId) -> Result<Cancellation, QueueError> {
        if self.command(id, Intent::Cancel)?.state == StateName::Cancelled {
            return Ok(Cancellation::Done);
        }
        self.core.notes.leases_changed();
        Ok(Cancellation::Requested)
    }

    /// Revives a task that has ended without success, with all its attempts; says in which state
    /// it is now.
    pub fn retry(&self, id: TaskId) -> Result<StateName, QueueError> {
        let intent = Intent::Retry { reset_attempts: true, priority: None };
        Ok(self.command(id, intent)?.state)
    }

    /// Changes the priority, time or labels of a live task.
    pub fn update(&self, id: TaskId, update: Update) -> Result<StateName, QueueError> {
        Ok(self.command(id, Intent::Update(update))?.state)
    }

    /// Removes a task that has ended, before its time.
    pub fn discard(&self, id: TaskId) -> Result<(), QueueError> {
        self.command(id, Intent::Discard).map(|_| ())
    }

    /// A task and everything that has happened to it, every failure included.
    pub fn trail(&self, id: TaskId) -> Result<Trail, QueueError> {
        block_on(self.core.store.trail(id))?.ok_or(QueueError::NotFound(id))
    }

    /// What has happened after a cursor, in order; [`Cursor::OLDEST`] begins with what is kept.
    pub fn events_after(&self, cursor: Cursor, limit: usize) -> Result<FeedPage, QueueError> {
        Ok(block_on(self.core.store.events_after(cursor, limit))?)
    }

    /// A page of the tasks that match, newest first.
    pub fn list(&self, query: Query) -> Result<Page, QueueError> {
        if !(1..=limits::PAGE_MAX).contains(&query.limit) {
            return Err(Invalid::out_of_range("limit", "1 to 1000").into());
        }
        Ok(block_on(self.core.store.list(query))?)
    }

    /// How many tasks are where.
    pub fn stats(&self) -> Result<Stats, QueueError> {
        Ok(block_on(self.core.store.stats())?)
    }

    fn send(&self, tasks: Vec<Draft>) -> Result<Vec<Submitted>, QueueError> {
        let queues = tasks.iter().map(|draft| &draft.spec.lane.queue);
        self.core.settings.prepare(&self.core.store, queues)?;
        let verdicts = block_on(self.core.store.submit(vec![Submission { tasks }]))?;
        let missing = || StoreError::OutcomeUnknown("the answer was empty".into());
        Ok(verdicts.into_iter().next().ok_or_else(missing)??)
    }

    fn command(&self, task: TaskId, intent: Intent) -> Result<Changed, QueueError> {
        let verdicts = block_on(self.core.store.execute(vec![Command { task, intent }]))?;
        let missing = || StoreError::OutcomeUnknown("the answer was empty".into());
        let verdict = verdicts.into_iter().next().ok_or_else(missing)?;
        verdict.map_err(|refusal| QueueError::of_command(task, refusal))
    }
}
