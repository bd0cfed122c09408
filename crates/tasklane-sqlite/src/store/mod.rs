//! The store itself: a handle that queues calls and waits for their answers.

mod contract;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tasklane_core::Clock;
use tasklane_store::{Answer, StoreError};
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::lanes::Lanes;
use crate::options::{Durability, Options};
use crate::reader::{Readers, View};
use crate::schema::{self, Location};
use crate::session::Session;
use crate::writer::{self, Class, Shared, Size};

/// The name of the database in a store's folder.
pub(crate) const DATABASE: &str = "tasklane.db";

/// A store on SQLite. Dropping it finishes what is queued and closes the file.
pub struct SqliteStore {
    shared: Arc<Shared>,
    readers: Option<Readers>,
    writer: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
    durability: tasklane_store::Durability,
    clock: Arc<dyn Clock>,
    /// Held while the store is open: one process per store.
    lock: Option<File>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in `folder`, which is made if it is not there.
    pub fn open(folder: impl AsRef<Path>, options: &Options) -> Result<Self, StoreError> {
        let folder = folder.as_ref();
        let failed = |what: &str, error: std::io::Error| {
            StoreError::Unavailable(format!("cannot {what} {}: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| failed("make the folder", error))?;
        let lock = lock(folder)?;
        Self::start(Location::File(folder.join(DATABASE)), options, Some(lock))
    }

    /// Whether a folder has a store in it.
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        folder.as_ref().join(DATABASE).exists()
    }

    /// Opens a store that is gone when it is dropped.
    pub fn in_memory(options: &Options) -> Result<Self, StoreError> {
        Self::start(Location::Memory, options, None)
    }

    fn start(
        location: Location,
        options: &Options,
        lock: Option<File>,
    ) -> Result<Self, StoreError> {
        options.rules.check()?;
        let shared = Arc::new(Shared::new());
        let (opened, outcome) = std::sync::mpsc::channel();
        let writer = {
            let (shared, location, options) = (shared.clone(), location.clone(), options.clone());
            std::thread::Builder::new().name("tasklane-writer".into()).spawn(move || {
                writer::run(&location, &options, &shared, |result| {
                    let _ = opened.send(result);
                });
            })
        };
        let writer = writer.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        if let Err(error) = outcome.recv().unwrap_or(Err(StoreError::Closed)) {
            // It may still be closing the file, and whoever opens it next must not meet it there.
            let _ = writer.join();
            return Err(error);
        }
        let path = match location {
            Location::Memory => None,
            Location::File(path) => Some(path),
        };
        let durability = match (&path, options.durability) {
            (None, _) => tasklane_store::Durability::Memory,
            (_, Durability::Fsync) => tasklane_store::Durability::Fsync,
            (_, Durability::Interval(_)) => tasklane_store::Durability::Interval,
            (_, Durability::None) => tasklane_store::Durability::Memory,
        };
        // From here on, failing means dropping this, which stops the writer.
        let (readers, writer, clock) = (None, Some(writer), options.clock.clone());
        let mut store = Self { shared, readers, writer, path, durability, clock, lock };
        if let Some(path) = &store.path {
            let (count, time_max) = (options.readers, options.read_time_max);
            let readers = Readers::start(path, &store.shared.lanes, count, time_max);
            store.readers = Some(readers.map_err(|fault| fault.to_store_error())?);
        }
        Ok(store)
    }

    /// From now on syncs fail, or work again.
    #[cfg(test)]
    pub(crate) fn make_syncs_fail(&self, fail: bool) {
        self.shared.fail_syncs.store(fail, Ordering::Relaxed);
    }

    /// Queues a call to the writer now; the answer is awaited later.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        class: Class,
        size: impl Into<Size>,
        call: impl FnOnce(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        wait(self.shared.inbox.call(class, size.into(), call))
    }

    /// The same for a call that may run again: if the disk was full, with the room that is kept.
    pub(crate) fn write_again<T: Send + 'static>(
        &self,
        class: Class,
        size: impl Into<Size>,
        call: impl FnMut(&mut Session<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        wait(self.shared.inbox.call_again(class, size.into(), call))
    }

    /// Reads on a thread and a connection of its own, for as long as it takes: readers stay free.
    fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        let Some(path) = self.path.clone() else { return self.read(read) };
        let (reply, answer) = oneshot::channel();
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("tasklane-aside".into()).spawn(move || {
            let epoch = shared.epoch.load(Ordering::Relaxed);
            let outcome = schema::open_reader(&path).and_then(|connection| {
                connection.execute_batch("BEGIN")?;
                read(&View { connection: &connection, lanes: &shared.lanes, epoch })
            });
            let _ = reply.send(outcome.map_err(|fault| fault.to_store_error()));
        });
        match thread {
            Ok(_) => self.wait_for_read(answer),
            Err(error) => {
                let error = Fault::no_thread(error).to_store_error();
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }

    /// A read that saw a commit before its sync is answered after it.
    fn wait_for_read<T: Send + 'static>(
        &self,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Answer<'_, T> {
        let answer = wait(answer);
        Box::pin(async move {
            let value = answer.await;
            self.shared.durable.settled().await;
            value
        })
    }

    /// Queues a read; in memory the writer's connection is the only one.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Answer<'_, T> {
        let shared = self.shared.clone();
        let view = move |connection: &Connection, lanes: &Lanes| {
            let epoch = shared.epoch.load(Ordering::Relaxed);
            read(&View { connection, lanes, epoch })
        };
        match &self.readers {
            Some(readers) => self.wait_for_read(readers.call(view)),
            // Its failure is its own: it must not end the transaction of others.
            None => {
                let call = self.write(Class::Ordinary, 1, move |session| {
                    let read = view(session.connection(), session.lanes());
                    Ok(read.map_err(|fault| fault.to_store_error()))
                });
                Box::pin(async move { call.await? })
            }
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shared.inbox.close();
        // Readers first: the last connection to close tidies the log.
        self.readers = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        // Not left to the close: a process being started by another thread may hold a copy of the
        // handle for a moment, and with it the lock.
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }
}

fn wait<'a, T: Send + 'a>(answer: oneshot::Receiver<Result<T, StoreError>>) -> Answer<'a, T> {
    // The writer answers every call it took; a lost answer means it died in the middle.
    let lost = || StoreError::OutcomeUnknown("the writer stopped".into());
    Box::pin(async move { answer.await.unwrap_or_else(|_| Err(lost())) })
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| {
        StoreError::Unavailable(format!("cannot open {}: {error}", path.display()))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Locked(format!(
            "{} is in use, by another process or by this one: close it there, or choose another folder",
            folder.display()
        ))),
        Err(std::fs::TryLockError::Error(error)) => {
            Err(StoreError::Unavailable(format!("cannot lock {}: {error}", path.display())))
        }
    }
}
