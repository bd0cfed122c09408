//! Keeping the write-ahead log short without stalling the writer.
//!
//! A helper thread with a connection of its own copies the log back in small steps while the writer
//! goes on; once it is long, the writer itself, between two groups, copies the few frames that came
//! meanwhile, after which the log starts again from its beginning. Neither alone does it: the helper
//! never catches up with a busy writer, and the writer alone would stall for the whole log (measured in
//! docs/adr/0001-sqlite.md).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::Shared;
use crate::fault::Fault;

/// So much of the log the helper copies at a time. Each step ends with a sync of the database, and syncs of
/// the log wait behind it: the more it writes, the longer.
const STEP_BYTES: u64 = 1024 * 1024;
/// The log may grow to this before the writer has it start again.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// Beyond this the writer does not wait for the helper. Rather a stall than a log without end.
pub(crate) const LOG_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long it waits then for who reads the log: there may be somebody at every moment, and while there
/// is the log cannot start again. Who begins to read once all of it is copied is not in the way.
const READERS_MAX: Duration = Duration::from_millis(10);
/// A page in the log with its header.
const FRAME_BYTES: u64 = 4_096 + 24;
/// How often the helper looks while there are commits, and while there are none.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOK_IDLY_EVERY: Duration = Duration::from_millis(50);
/// How often the writer has its turn at most: a long read may keep the log.
const GIVE_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    commits: Arc<AtomicU64>,
    turn: Arc<AtomicBool>,
    /// Held by the helper while it copies: SQLite refuses a second copier at once, whatever it may wait.
    copying: Arc<Mutex<()>>,
    log: Arc<LogLength>,
    /// The length at which the writer steps in: more than usual while a long read keeps the log.
    step_in_at: u64,
    stop: Option<Sender<()>>,
    helper: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(
        path: &Path,
        shared: Arc<Shared>,
        log: Arc<LogLength>,
    ) -> Result<Self, Fault> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let commits = Arc::new(AtomicU64::new(0));
        let turn = Arc::new(AtomicBool::new(false));
        let copying = Arc::new(Mutex::new(()));
        let (stop, stopped) = channel::<()>();
        let helper = {
            let (commits, turn, log) = (commits.clone(), turn.clone(), log.clone());
            let (shared, copying) = (shared.clone(), copying.clone());
            let (mut seen, mut copied, mut pause) = (0, 0, LOOK_IDLY_EVERY);
            let mut given = Instant::now();
            std::thread::Builder::new().name("tasklane-checkpoint".into()).spawn(move || {
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let (now, length) = (commits.load(Ordering::Relaxed), log.bytes());
                    pause = if now == seen { LOOK_IDLY_EVERY } else { LOOK_EVERY };
                    if length < copied {
                        // It has started again.
                        copied = 0;
                    }
                    let give = now != seen && length > LOG_BYTES && given.elapsed() > GIVE_EVERY;
                    seen = now;
                    if give || length >= copied + STEP_BYTES {
                        let _copying = copying.lock().unwrap_or_else(PoisonError::into_inner);
                        if checkpoint(&connection, &shared) {
                            copied = length;
                        }
                    }
                    if give {
                        given = Instant::now();
                        turn.store(true, Ordering::Release);
                    }
                }
            })
        };
        let helper = helper.map_err(Fault::no_thread)?;
        Ok(Self {
            shared,
            commits,
            turn,
            copying,
            log,
            step_in_at: LOG_BYTES_MAX,
            stop: Some(stop),
            helper: Some(helper),
        })
    }

    /// Called by the writer between groups. Says whether it has copied.
    pub(super) fn after_commit(&mut self, connection: &Connection) -> bool {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let length = self.log.bytes();
        if length >= self.step_in_at {
            let _copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.note_checkpoint(&start_again(connection));
            // A long read keeps the log: try again a little later.
            self.step_in_at = length + LOG_BYTES;
            return true;
        }
        if self.turn.swap(false, Ordering::Acquire) {
            checkpoint(connection, &self.shared);
            return true;
        }
        if length < LOG_BYTES_MAX {
            self.step_in_at = LOG_BYTES_MAX;
        }
        false
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(helper) = self.helper.take() {
            let _ = helper.join();
        }
    }
}

/// Says whether it worked. One that fails loses nothing: the log keeps all of it, and grows until one
/// works again. Until then the store says so.
fn checkpoint(connection: &Connection, shared: &Shared) -> bool {
    let outcome = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    shared.note_checkpoint(&outcome);
    outcome.is_ok()
}

/// Copies all of the log, and waits a moment until nobody needs it.
fn start_again(connection: &Connection) -> rusqlite::Result<()> {
    let usual = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0))?;
    connection.busy_timeout(READERS_MAX)?;
    let outcome = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
    connection.busy_timeout(Duration::from_millis(usual))?;
    outcome
}

/// How much of the log is in use: its file may be longer.
#[derive(Default)]
pub(super) struct LogLength(AtomicU64);

impl LogLength {
    /// Watches the log of the connection that writes it.
    pub(super) fn watch(connection: &mut Connection) -> Result<Arc<Self>, Fault> {
        let length = Arc::new(Self::default());
        let noted = length.clone();
        connection.wal_hook(Some(move |_: &mut Wal, frames| {
            noted.0.store(u64::try_from(frames).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(length)
    }

    fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed) * FRAME_BYTES
    }
}

pub(super) fn log_path(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}
