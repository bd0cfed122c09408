//! Syncing the log, and answering what the sync has made safe.
//!
//! A transaction is committed into the log without a sync; its answers go out after one. While
//! much more waits, a helper thread syncs and answers, and the writer goes on with the next group
//! meanwhile. Otherwise the writer does it itself: then nothing is lost by waiting, and the group
//! that gathers meanwhile is larger.
//!
//! Readers may see a commit before its sync, so their answers wait for it too (durable.rs).

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tasklane_store::{Signal, StoreError};

use super::Shared;
use super::call::Work;
use super::checkpoint::log_path;
use crate::fault::Fault;
use crate::options::Durability;
use crate::schema::Location;
use crate::session::Woken;

/// Tasks that must wait for the next group to begin before the last one is synced. A smaller group
/// is better off gathering more: each commit writes some thirty pages whatever its size.
const GO_ON_TASKS_MIN: usize = 64;
/// Groups that may wait for the helper; one sync serves all of them.
const WAITING_GROUPS_MAX: usize = 2;

/// A group that is committed, not yet known to be on disk.
pub(super) struct Committed {
    pub(super) group: Vec<Box<dyn Work>>,
    pub(super) signal: Signal,
    /// Where tasks became claimable.
    pub(super) woken: Woken,
    /// It has changed the log.
    pub(super) wrote: bool,
    /// When it was begun.
    pub(super) begun: Instant,
    /// How much happened in it.
    pub(super) events: u64,
}

/// Gives answers when they are true.
pub(super) struct Confirmer {
    shared: Arc<Shared>,
    /// With other durabilities nothing is synced before the answers.
    synced: Option<(Arc<Log>, JoinHandle<()>)>,
}

struct Log {
    file: File,
    state: Mutex<State>,
    /// There is a group to sync, or no more will come.
    filled: Condvar,
    /// A group has been dealt with.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Committed>,
    busy: bool,
    closed: bool,
    /// A sync that failed proves nothing about any later one.
    failed: Option<String>,
}

impl Confirmer {
    pub(super) fn start(
        shared: Arc<Shared>,
        location: &Location,
        durability: Durability,
    ) -> Result<Self, Fault> {
        let (Location::File(path), Durability::Fsync) = (location, durability) else {
            return Ok(Self { shared, synced: None });
        };
        let opened = |error: io::Error| {
            Fault::Refused(StoreError::Unavailable(format!("cannot sync the log: {error}")))
        };
        // One handle for good: the system tells each handle once of a write that failed.
        let file = File::open(log_path(path)).map_err(opened)?;
        file.sync_data().map_err(opened)?;
        let state = Mutex::new(State::default());
        let log = Log { file, state, filled: Condvar::new(), emptied: Condvar::new() };
        let log = Arc::new(log);
        let helper = {
            let (log, shared) = (log.clone(), shared.clone());
            let thread = std::thread::Builder::new().name("tasklane-sync".into());
            thread.spawn(move || log.serve(&shared)).map_err(Fault::no_thread)?
        };
        Ok(Self { shared, synced: Some((log, helper)) })
    }

    /// Answers a group, now or later; `Err` if what was committed may not be on disk.
    pub(super) fn confirm(&self, committed: Committed) -> Result<(), String> {
        let Some((log, _)) = &self.synced else {
            committed.answer(&self.shared, None);
            return Ok(());
        };
        let mut state = log.lock();
        let go_on = self.shared.inbox.holds_at_least(GO_ON_TASKS_MIN);
        if go_on && state.failed.is_none() {
            while state.waiting.len() >= WAITING_GROUPS_MAX {
                state = log.wait_for_helper(state);
            }
            state.waiting.push(committed);
            drop(state);
            log.filled.notify_one();
            return Ok(());
        }
        while state.busy || !state.waiting.is_empty() {
            state = log.wait_for_helper(state);
        }
        drop(state);
        log.settle(vec![committed], &self.shared)
    }

    /// Why a sync failed, if one did.
    pub(super) fn failed(&self) -> Option<String> {
        self.synced.as_ref().and_then(|(log, _)| log.lock().failed.clone())
    }
}

impl Drop for Confirmer {
    fn drop(&mut self) {
        if let Some((log, helper)) = self.synced.take() {
            log.lock().closed = true;
            log.filled.notify_one();
            let _ = helper.join();
        }
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_helper<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, shared: &Shared) {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() {
                if state.closed {
                    return;
                }
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let groups = std::mem::take(&mut state.waiting);
            state.busy = true;
            drop(state);
            // The writer finds the failure before its next group.
            let _ = self.settle(groups, shared);
            state = self.lock();
            state.busy = false;
            self.emptied.notify_one();
        }
    }

    fn sync(&self, shared: &Shared) -> io::Result<()> {
        if shared.syncs_fail() {
            return Err(io::Error::other("made to fail by a test"));
        }
        self.file.sync_data()
    }

    /// Syncs, then answers.
    fn settle(&self, groups: Vec<Committed>, shared: &Shared) -> Result<(), String> {
        let wrote = groups.iter().any(|committed| committed.wrote);
        let mut outcome = self.lock().failed.clone().map_or(Ok(()), Err);
        if outcome.is_ok() && wrote {
            outcome = self.sync(shared).map_err(|error| error.to_string());
        }
        if let Err(error) = &outcome {
            self.lock().failed = Some(error.clone());
            shared.durable.give_up();
        }
        for committed in groups {
            let error = outcome.as_ref().err();
            let unknown = |error| StoreError::OutcomeUnknown(format!("the sync failed: {error}"));
            committed.answer(shared, error.map(unknown));
        }
        outcome
    }
}

impl Committed {
    fn answer(self, shared: &Shared, failed: Option<StoreError>) {
        if failed.is_none() {
            let signal = self.signal;
            shared.durable.reached(signal.last);
            shared.hints.note(signal.claimable, self.woken);
            if self.wrote {
                shared.measure.committed(self.begun, self.events);
            }
            shared.signal.send_if_modified(|last| std::mem::replace(last, signal) != signal);
        }
        for work in self.group {
            work.answer(failed.clone());
        }
    }
}
