//! The writer: one thread, one connection, one transaction for all that arrived meanwhile.

mod call;
mod checkpoint;
mod confirm;
mod durable;
mod inbox;
mod measure;
mod pace;
mod size;
mod spare;
mod sync;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tasklane_store::{Hints, Signal, StoreError};
use tokio::sync::watch;

use crate::fault::Fault;
use crate::lanes::Lanes;
use crate::options::{Durability, Options};
use crate::schema::{self, Location};
use crate::session::Session;
use call::Work;
pub(crate) use checkpoint::LOG_BYTES_MAX;
use checkpoint::{Checkpointer, LogLength};
use confirm::{Committed, Confirmer};
use durable::Durable;
pub(crate) use inbox::{Class, Inbox};
pub(crate) use measure::Measure;
pub(crate) use size::Size;
pub(crate) use spare::Spare;
use sync::Syncer;

/// What the writer shares with the handles of its store.
pub(crate) struct Shared {
    pub(crate) inbox: Inbox,
    pub(crate) signal: watch::Sender<Signal>,
    pub(crate) lanes: Lanes,
    /// What readers may tell.
    pub(crate) durable: Durable,
    pub(crate) measure: Measure,
    pub(crate) hints: Hints<u32>,
    /// Which life of the store.
    pub(crate) epoch: AtomicU64,
    /// Lets a test see what becomes of a sync that fails.
    #[cfg(test)]
    pub(crate) fail_syncs: std::sync::atomic::AtomicBool,
    /// Why the store does not take writes at the moment.
    trouble: Mutex<Option<String>>,
    /// Why the log is not copied back: it grows, and in the end the disk is full.
    log_trouble: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Inbox::default(),
            signal: watch::Sender::new(Signal::default()),
            lanes: Lanes::default(),
            durable: Durable::default(),
            measure: Measure::default(),
            hints: Hints::default(),
            epoch: AtomicU64::new(0),
            #[cfg(test)]
            fail_syncs: Default::default(),
            trouble: Mutex::new(None),
            log_trouble: Mutex::new(None),
        }
    }

    #[cfg(test)]
    fn syncs_fail(&self) -> bool {
        self.fail_syncs.load(Ordering::Relaxed)
    }

    #[cfg(not(test))]
    const fn syncs_fail(&self) -> bool {
        false
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        let shown = |trouble: &Mutex<Option<String>>| {
            trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        shown(&self.trouble).or_else(|| shown(&self.log_trouble))
    }

    /// Notes how a checkpoint went: one that works ends the trouble of those before it.
    fn note_checkpoint(&self, outcome: &rusqlite::Result<()>) {
        let trouble = outcome.as_ref().err().map(|error| {
            format!("the log grows because it cannot be copied into the database: {error}")
        });
        *self.log_trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

/// Runs the writer until its inbox is closed. `opened` learns whether it could begin.
pub(crate) fn run(
    location: &Location,
    options: &Options,
    shared: &Arc<Shared>,
    opened: impl FnOnce(Result<(), StoreError>),
) {
    let connection = schema::open_writer(location).and_then(|mut connection| {
        let log = LogLength::watch(&mut connection)?;
        Ok((connection, log))
    });
    let (connection, log) = match connection {
        Ok(connection) => connection,
        Err(fault) => return opened(Err(fault.to_store_error())),
    };
    connection.set_prepared_statement_cache_capacity(64);
    let (lanes, clock) = (shared.lanes.clone(), options.clock.clone());
    let spare = Spare::keep(location, options.spare_bytes);
    let session = Session::open(&connection, lanes, options.rules, clock, spare);
    let mut session = match session {
        Ok(session) => session,
        Err(fault) => return opened(Err(fault.to_store_error())),
    };
    let synced = options.durability == Durability::Fsync;
    if let Err(fault) = session.mark_open(synced) {
        return opened(Err(fault.to_store_error()));
    }
    let mut checkpointer = match location {
        Location::File(path) => match Checkpointer::start(path, shared.clone(), log) {
            Ok(checkpointer) => Some(checkpointer),
            Err(fault) => return opened(Err(fault.to_store_error())),
        },
        Location::Memory => None,
    };
    let confirmer = match Confirmer::start(shared.clone(), location, options.durability) {
        Ok(confirmer) => confirmer,
        Err(fault) => return opened(Err(fault.to_store_error())),
    };
    shared.set_trouble(session.spare.trouble());
    shared.durable.show(session.head());
    shared.durable.reached(session.head());
    shared.epoch.store(session.epoch(), Ordering::Relaxed);
    shared.signal.send_replace(session.signal());
    opened(Ok(()));
    // Should this thread ever die, nobody may wait for it.
    let _guard = Guard(shared);
    let mut writer = Writer { shared, confirmer, session: &mut session, broken: None };
    let mut syncer = Syncer::new(location, options.durability);
    while let Some(group) = shared.inbox.next_group(syncer.due_in()) {
        if !group.is_empty() {
            writer.run_group(group);
            syncer.written();
        }
        if let Err(error) = syncer.sync_if_due() {
            writer.stop_unsynced(&error.to_string());
        }
        if writer.broken.is_some() {
            // What the log holds is no longer known: it must not be copied into the database.
            checkpointer = None;
        }
        if let Some(checkpointer) = &mut checkpointer {
            let since = Instant::now();
            if checkpointer.after_commit(&connection) {
                shared.measure.stalled(since);
            }
        }
    }
    let Writer { confirmer, session, broken, .. } = writer;
    // Answers what is left.
    drop(confirmer);
    // What was written last is due as well; then the next open finds nothing missing.
    if broken.is_none() && syncer.sync().is_ok() {
        let _ = session.set_open(false);
    }
    drop(checkpointer);
    if broken.is_some() {
        // The last connection to close would copy the log back.
        let keep = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let _ = connection.set_db_config(keep, true);
        return;
    }
    // Leaves a file that needs no recovery; what it fails to do, the next open does.
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
}

struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_trouble(Some("the writer died; open the store again".into()));
        }
        self.0.inbox.refuse_all();
        self.0.durable.give_up();
    }
}

struct Writer<'a, 'c> {
    shared: &'a Shared,
    confirmer: Confirmer,
    session: &'a mut Session<'c>,
    /// Set for good when the file can no longer be trusted.
    broken: Option<StoreError>,
}

impl Writer<'_, '_> {
    fn run_group(&mut self, mut group: Vec<Box<dyn Work>>) {
        let begun = Instant::now();
        if let (None, Some(error)) = (&self.broken, self.confirmer.failed()) {
            self.stop_unsynced(&error);
        }
        let outcome = match &self.broken {
            Some(error) => Err(error.clone()),
            None => self.commit(&mut group),
        };
        match outcome {
            Ok(wrote) => {
                let (signal, events) = (self.session.signal(), self.session.events());
                self.shared.inbox.note_pace(events, begun.elapsed());
                let woken = self.session.take_woken();
                let committed = Committed { group, signal, woken, wrote, begun, events };
                if let Err(error) = self.confirmer.confirm(committed) {
                    self.stop_unsynced(&error);
                }
            }
            Err(error @ StoreError::Full(_)) if self.session.spare.give_up() => {
                let (again, refused): (Vec<_>, Vec<_>) =
                    group.into_iter().partition(|work| work.repeats());
                answer_all(refused, &error);
                if !again.is_empty() {
                    self.run_group(again);
                }
            }
            Err(error) => answer_all(group, &error),
        }
    }

    /// One transaction for the whole group; on a fault none of it happened. Says whether it has
    /// changed the log.
    fn commit(&mut self, group: &mut [Box<dyn Work>]) -> Result<bool, StoreError> {
        let session = &mut *self.session;
        let changes = session.connection().total_changes();
        let attempt = (|| {
            session.begin()?;
            for work in group.iter_mut() {
                work.run(session)?;
            }
            self.shared.durable.show(session.head());
            session.finish()
        })();
        match attempt {
            Ok(()) => {
                let wrote = self.session.connection().total_changes() != changes;
                // A transaction that wrote nothing proves nothing about the disk.
                if wrote {
                    self.shared.set_trouble(self.session.spare.trouble());
                }
                Ok(wrote)
            }
            Err(fault) => Err(self.recover(&fault)),
        }
    }

    fn stop_unsynced(&mut self, error: &str) {
        self.stop(format!("stopped after a failure: the log was not synced: {error}"));
    }

    /// Takes no more writes, for good.
    fn stop(&mut self, why: String) {
        self.shared.set_trouble(Some(why.clone()));
        self.broken = Some(StoreError::Unavailable(why));
    }

    /// Rolls back and makes the board anew. A file that failed a write or a sync is not written
    /// again: what its pages hold is no longer known.
    fn recover(&mut self, fault: &Fault) -> StoreError {
        let error = fault.to_store_error();
        self.shared.set_trouble(Some(error.to_string()));
        let reset = self.session.reset();
        self.shared.durable.take_back(self.session.head());
        if fault.is_fatal() || reset.is_err() {
            // No sync will come any more that readers could wait for.
            self.shared.durable.give_up();
            self.broken = Some(match &error {
                StoreError::Corrupt(_) => error.clone(),
                _ => StoreError::Unavailable(format!("stopped after a failure: {error}")),
            });
        }
        error
    }
}

fn answer_all(group: Vec<Box<dyn Work>>, error: &StoreError) {
    for work in group {
        work.answer(Some(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_checkpoints_are_shown_until_one_works_and_hide_nothing_worse() {
        let shared = Shared::new();
        shared.note_checkpoint(&Err(rusqlite::Error::InvalidQuery));
        assert!(shared.trouble().unwrap().contains("the log grows"));
        shared.set_trouble(Some("the disk is full".into()));
        assert_eq!(shared.trouble().unwrap(), "the disk is full");
        shared.set_trouble(None);
        assert!(shared.trouble().is_some(), "a commit that works copies nothing back");
        shared.note_checkpoint(&Ok(()));
        assert_eq!(shared.trouble(), None);
    }
}
