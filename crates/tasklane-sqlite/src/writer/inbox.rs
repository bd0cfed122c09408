//! Where calls wait for the writer.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_store::StoreError;
use tokio::sync::oneshot;

use super::call::{Call, Repeatable, Work};
use super::pace::Pace;
use super::size::Size;
use crate::fault::Fault;
use crate::session::Session;

/// Tasks in one transaction, beyond which the rest waits for the next.
const GROUP_TASKS_MAX: usize = 4_096;
/// Tasks that may wait; beyond it calls other than settles are refused.
const WAITING_TASKS_MAX: usize = 200_000;

/// Calls that came together with the last group from which on more are worth waiting for: each
/// commit costs a sync and some ten writes, whatever its size.
const BUSY_CALLS_MIN: usize = 4;
/// Tasks that the next group should have then ...
const GATHER_TASKS: usize = 24;
/// ... if they come this soon.
const GATHER_WITHIN: Duration = Duration::from_micros(150);

/// What may wait in memory besides settles: sixteen of the largest payloads, or the payloads of all
/// the tasks that may wait if they have a kilobyte each.
const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What settles and signs of life may hold in memory. Refusing one costs a lease, so this is twice
/// as much; but a bound there must be, for results can be as large as payloads.
const SETTLE_BYTES_MAX: usize = 512 * 1024 * 1024;

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

struct Waiting {
    work: Box<dyn Work>,
    size: Size,
}

#[derive(Default)]
struct State {
    settle: VecDeque<Waiting>,
    ordinary: VecDeque<Waiting>,
    bulk: VecDeque<Waiting>,
    /// Tasks in `ordinary`.
    tasks: usize,
    /// Tasks in `settle`.
    settle_tasks: usize,
    /// What `settle` holds in memory.
    settle_bytes: usize,
    /// What the others hold in memory.
    other_bytes: usize,
    closed: bool,
    /// Tasks that the writer sleeps for; it is not woken before, and not at all when awake.
    wakes_at: Option<usize>,
    /// Calls in the last group.
    last_calls: usize,
    /// How many tasks of a group may be no settles.
    pace: Pace,
}

impl State {
    fn waiting_tasks(&self) -> usize {
        self.settle_tasks + self.tasks
    }

    fn is_worth_gathering(&self) -> bool {
        let waiting = self.waiting_tasks();
        self.last_calls >= BUSY_CALLS_MIN && waiting > 0 && waiting < GATHER_TASKS
    }

    fn bytes_of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Settle => &mut self.settle_bytes,
            Class::Ordinary | Class::Bulk => &mut self.other_bytes,
        }
    }

    /// A call alone may be beyond a bound: then it is the last that is taken.
    fn is_full_for(&self, class: Class) -> bool {
        match class {
            Class::Settle => self.settle_bytes > SETTLE_BYTES_MAX,
            Class::Ordinary | Class::Bulk => {
                self.tasks > WAITING_TASKS_MAX || self.other_bytes > WAITING_BYTES_MAX
            }
        }
    }

    fn take(&mut self, class: Class) -> Option<Waiting> {
        let waiting = match class {
            Class::Settle => self.settle.pop_front(),
            Class::Ordinary => self.ordinary.pop_front(),
            Class::Bulk => self.bulk.pop_front(),
        }?;
        *self.bytes_of(class) -= waiting.size.bytes;
        match class {
            Class::Settle => self.settle_tasks -= waiting.size.tasks,
            Class::Ordinary => self.tasks -= waiting.size.tasks,
            Class::Bulk => {}
        }
        Some(waiting)
    }
}

/// Calls in the order they will be served.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    filled: Condvar,
}

impl Inbox {
    /// Queues a call; the receiver gets its answer.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        class: Class,
        size: Size,
        call: impl FnOnce(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.queue(class, size, Box::new(Call::new(call, reply)));
        answer
    }

    /// Queues a call that may run again after a transaction that failed.
    pub(crate) fn call_again<T: Send + 'static>(
        &self,
        class: Class,
        size: Size,
        call: impl FnMut(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.queue(class, size, Box::new(Repeatable::new(call, reply)));
        answer
    }

    fn queue(&self, class: Class, size: Size, work: Box<dyn Work>) {
        let mut state = self.lock();
        if state.closed || state.is_full_for(class) {
            let error = if state.closed {
                StoreError::Closed
            } else {
                StoreError::Overloaded("too many calls are waiting".into())
            };
            drop(state);
            return work.answer(Some(error));
        }
        let waiting = Waiting { work, size };
        *state.bytes_of(class) += size.bytes;
        match class {
            Class::Settle => {
                state.settle_tasks += size.tasks;
                state.settle.push_back(waiting);
            }
            Class::Ordinary => {
                state.tasks += size.tasks;
                state.ordinary.push_back(waiting);
            }
            Class::Bulk => state.bulk.push_back(waiting),
        }
        // Waking a thread is a call to the system, even where nobody sleeps.
        let is_enough = state.wakes_at.is_some_and(|tasks| state.waiting_tasks() >= tasks);
        if is_enough {
            state.wakes_at = None;
        }
        drop(state);
        if is_enough {
            self.filled.notify_one();
        }
    }

    /// Waits for calls and takes those of the next transaction: settles first, then the others as
    /// far as they fit, and one slice of bulk work. `None` when closed and empty; an empty group
    /// when nothing came for `patience`.
    pub(super) fn next_group(&self, patience: Option<Duration>) -> Option<Vec<Box<dyn Work>>> {
        let mut state = self.lock();
        if state.is_worth_gathering() && !state.closed {
            (state, _) = self.sleep(state, GATHER_TASKS, Some(GATHER_WITHIN));
        }
        loop {
            let group = take_group(&mut state);
            if !group.is_empty() {
                state.last_calls = group.len();
                return Some(group);
            }
            if state.closed {
                return None;
            }
            let timed_out;
            (state, timed_out) = self.sleep(state, 0, patience);
            if timed_out {
                return Some(Vec::new());
            }
        }
    }

    /// Sleeps until so many tasks wait or `patience` ends; says whether it ended.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        tasks: usize,
        patience: Option<Duration>,
    ) -> (MutexGuard<'a, State>, bool) {
        state.wakes_at = Some(tasks);
        let (mut state, timed_out) = match patience {
            None => (self.filled.wait(state).unwrap_or_else(PoisonError::into_inner), false),
            Some(patience) => {
                let waited = self.filled.wait_timeout(state, patience);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            }
        };
        state.wakes_at = None;
        (state, timed_out)
    }

    /// Whether calls that concern so many tasks are waiting.
    pub(super) fn holds_at_least(&self, tasks: usize) -> bool {
        self.lock().waiting_tasks() >= tasks
    }

    /// A group in which so much happened took so long.
    pub(super) fn note_pace(&self, events: u64, took: Duration) {
        self.lock().pace.note(events, took);
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
        let Some(waiting) = state.take(Class::Settle) else { break };
        tasks += waiting.size.tasks;
        group.push(waiting.work);
    }
    let (mut ordinary_tasks, ordinary_max) = (0, state.pace.tasks());
    while ordinary_tasks < ordinary_max && tasks + ordinary_tasks < GROUP_TASKS_MAX {
        let Some(waiting) = state.take(Class::Ordinary) else { break };
        ordinary_tasks += waiting.size.tasks;
        group.push(waiting.work);
    }
    group.extend(state.take(Class::Bulk).map(|waiting| waiting.work));
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_store::conformance::block_on;

    fn offer(inbox: &Inbox, class: Class, bytes: usize) -> bool {
        let mut answer = inbox.call(class, Size { tasks: 1, bytes }, |_| Ok(()));
        // What is taken is not answered before it is served.
        answer.try_recv().is_err()
    }

    #[test]
    fn what_waits_is_bounded_by_its_bytes_and_settles_have_more_room() {
        let inbox = Inbox::default();
        assert!(offer(&inbox, Class::Ordinary, WAITING_BYTES_MAX + 1));
        assert!(!offer(&inbox, Class::Ordinary, 1));
        assert!(!offer(&inbox, Class::Bulk, 1));
        assert!(offer(&inbox, Class::Settle, SETTLE_BYTES_MAX));
        assert!(offer(&inbox, Class::Settle, 1));
        assert!(!offer(&inbox, Class::Settle, 1));
        assert_eq!(inbox.next_group(None).unwrap().len(), 3);
        assert!(offer(&inbox, Class::Ordinary, 1), "there is room again");
        assert!(offer(&inbox, Class::Bulk, 1));
        assert!(offer(&inbox, Class::Settle, 1));
    }

    #[test]
    fn a_group_is_short_unless_it_is_of_settles() {
        let inbox = Inbox::default();
        let offer = |class, tasks: usize| drop(inbox.call(class, Size::from(tasks), |_| Ok(())));
        let ordinary_max = Pace::default().tasks();
        for _ in 0..5 {
            offer(Class::Ordinary, ordinary_max / 2);
        }
        for _ in 0..3 {
            offer(Class::Settle, ordinary_max);
        }
        assert_eq!(inbox.next_group(None).unwrap().len(), 5, "all settles, two of the others");
        assert_eq!(inbox.next_group(None).unwrap().len(), 2);
        inbox.note_pace(1_000, Duration::from_secs(1));
        assert_eq!(inbox.next_group(None).unwrap().len(), 1, "where tasks take long, fewer");
    }

    #[test]
    fn what_waits_is_bounded_by_its_tasks() {
        let inbox = Inbox::default();
        let size = Size::from(WAITING_TASKS_MAX + 1);
        let _waiting = inbox.call(Class::Ordinary, size, |_| Ok(()));
        let refused = block_on(inbox.call(Class::Ordinary, Size::from(1), |_| Ok(()))).unwrap();
        assert!(matches!(refused, Err(StoreError::Overloaded(_))), "{refused:?}");
        assert!(offer(&inbox, Class::Settle, 1));
    }
}
