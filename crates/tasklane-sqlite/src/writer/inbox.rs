//! Where calls wait for the writer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_store::StoreError;
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::session::Session;

/// Tasks in one transaction, beyond which the rest waits for the next.
const GROUP_TASKS_MAX: usize = 4_096;
/// Tasks that may wait; beyond it calls other than settles are refused.
const WAITING_TASKS_MAX: usize = 200_000;

/// What goes before what: under load, work that ends tasks is served before work that adds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Settles and signs of life.
    Settle,
    /// Submissions, claims, everything else that somebody waits for.
    Ordinary,
    /// Slices of bulk work: one at a time.
    Bulk,
}

/// A call on its way through the writer.
pub(super) trait Work: Send {
    /// Runs inside the transaction.
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Fault>;
    /// Answers after it: with the value, or with why there is none.
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

struct Call<T, F> {
    call: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Session<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Fault> {
        if let Some(call) = self.call.take() {
            self.value = Some(call(session)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let answer = match (failed, self.value) {
            (None, Some(value)) => Ok(value),
            (Some(error), _) => Err(error),
            (None, None) => Err(StoreError::Closed),
        };
        // Nobody may be waiting any more; the call has happened all the same.
        let _ = self.reply.send(answer);
    }
}

struct Waiting {
    work: Box<dyn Work>,
    tasks: usize,
}

#[derive(Default)]
struct State {
    settle: VecDeque<Waiting>,
    ordinary: VecDeque<Waiting>,
    bulk: VecDeque<Waiting>,
    /// Tasks in `ordinary`.
    tasks: usize,
    closed: bool,
}

/// Calls in the order they will be served.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    filled: Condvar,
}

impl Inbox {
    /// Queues a call that concerns `tasks` tasks; the receiver gets its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        class: Class,
        tasks: usize,
        call: impl FnOnce(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let work = Call { call: Some(call), value: None, reply };
        let mut state = self.lock();
        let full = class != Class::Settle && state.tasks > WAITING_TASKS_MAX;
        if state.closed || full {
            let error = if state.closed {
                StoreError::Closed
            } else {
                StoreError::Unavailable("too many calls are waiting".into())
            };
            drop(state);
            Box::new(work).answer(Some(error));
            return answer;
        }
        let tasks = tasks.max(1);
        let waiting = Waiting { work: Box::new(work), tasks };
        match class {
            Class::Settle => state.settle.push_back(waiting),
            Class::Ordinary => {
                state.tasks += tasks;
                state.ordinary.push_back(waiting);
            }
            Class::Bulk => state.bulk.push_back(waiting),
        }
        drop(state);
        self.filled.notify_one();
        answer
    }

    /// Waits for calls and takes those of the next transaction: settles first, then the others as
    /// far as they fit, and one slice of bulk work. `None` when closed and empty; an empty group
    /// when nothing came for `patience`.
    pub(super) fn next_group(&self, patience: Option<Duration>) -> Option<Vec<Box<dyn Work>>> {
        let mut state = self.lock();
        loop {
            let group = take_group(&mut state);
            if !group.is_empty() {
                return Some(group);
            }
            if state.closed {
                return None;
            }
            state = match patience {
                None => self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.filled.wait_timeout(state, patience);
                    let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return Some(Vec::new());
                    }
                    state
                }
            };
        }
    }

    /// Takes no more calls and answers those that wait: nobody will serve them.
    pub(super) fn refuse_all(&self) {
        let mut state = self.lock();
        state.closed = true;
        let State { settle, ordinary, bulk, .. } = &mut *state;
        let left: Vec<_> =
            settle.drain(..).chain(ordinary.drain(..)).chain(bulk.drain(..)).collect();
        drop(state);
        for waiting in left {
            waiting.work.answer(Some(StoreError::Closed));
        }
    }

    /// Takes no more calls; those that wait are still served.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_group(state: &mut State) -> Vec<Box<dyn Work>> {
    let mut group = Vec::with_capacity(state.settle.len() + state.ordinary.len() + 1);
    let mut tasks = 0;
    while tasks < GROUP_TASKS_MAX {
        let Some(waiting) = state.settle.pop_front() else { break };
        tasks += waiting.tasks;
        group.push(waiting.work);
    }
    while tasks < GROUP_TASKS_MAX {
        let Some(waiting) = state.ordinary.pop_front() else { break };
        state.tasks -= waiting.tasks;
        tasks += waiting.tasks;
        group.push(waiting.work);
    }
    group.extend(state.bulk.pop_front().map(|waiting| waiting.work));
    group
}
