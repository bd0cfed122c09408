//! What the system says of the server, once a second.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;
use crate::http::caller::Caller;
use crate::process::{Status, worked};

/// In which Linux counts what a file takes, whatever the disk's own are.
const BLOCK_BYTES: u64 = 512;
/// The database of the embedded store; what else is in its folder is its log.
const DATABASE: &str = "tasklane.db";

/// One look.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sample {
    /// Since the load began.
    pub(super) at: Duration,
    /// Lifecycles by then.
    pub(super) ended: u64,
    pub(super) memory_bytes: u64,
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    /// How long processors have worked for it.
    pub(super) worked: Duration,
    /// Of the embedded store; nought for others.
    pub(super) database_bytes: u64,
    pub(super) log_bytes: u64,
    /// Tasks in the store, in any state.
    pub(super) tasks: u64,
}

impl Sample {
    /// Looks at a process and the folder of its store.
    pub(super) fn take(process: u32, store: Option<&Path>) -> Result<Self, Failure> {
        let status = Status::of(process).map_err(|_| "the server has gone")?;
        let (database_bytes, log_bytes) = store.map_or(Ok((0, 0)), disk)?;
        Ok(Self {
            memory_bytes: status.bytes("VmRSS").ok_or("no VmRSS")?,
            threads: status.number("Threads").ok_or("no Threads")?,
            descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64,
            worked: worked(process)?,
            database_bytes,
            log_bytes,
            ..Self::default()
        })
    }

    /// As JSON.
    pub(super) fn to_json(self) -> Value {
        json!({
            "second": self.at.as_secs_f64(),
            "lifecycles": self.ended,
            "memory_bytes": self.memory_bytes,
            "descriptors": self.descriptors,
            "threads": self.threads,
            "worked_seconds": self.worked.as_secs_f64(),
            "database_bytes": self.database_bytes,
            "log_bytes": self.log_bytes,
            "tasks": self.tasks,
        })
    }
}

/// Bytes of the database, and of everything else in the folder.
fn disk(folder: &Path) -> Result<(u64, u64), Failure> {
    let (mut database, mut log) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be gone since the folder was read.
        let Ok(metadata) = entry.metadata() else { continue };
        let bytes = metadata.blocks() * BLOCK_BYTES;
        *(if entry.file_name() == DATABASE { &mut database } else { &mut log }) += bytes;
    }
    Ok((database, log))
}

/// Tasks in the store, in any state.
pub(super) fn tasks(caller: &mut Caller) -> Result<u64, Failure> {
    let stats = caller.get("/api/v1/queue/stats")?;
    let tasks = stats.body.get("total_tasks").and_then(Value::as_u64);
    tasks.ok_or_else(|| format!("statistics got {}: {}", stats.status, stats.body).into())
}

/// What the database of a store that nobody has open would take if it were written anew, and the
/// tasks in it.
pub(super) fn compact(store: &Path, copy: &Path) -> Result<(u64, u64), Failure> {
    let connection = rusqlite::Connection::open(store.join(DATABASE))?;
    let copy_text = copy.to_str().ok_or("a path that is no text")?;
    connection.execute("VACUUM INTO ?", [copy_text])?;
    let tasks = connection.query_row("SELECT count(*) FROM task", [], |row| row.get(0))?;
    let bytes = fs::metadata(copy)?.len();
    fs::remove_file(copy)?;
    Ok((bytes, tasks))
}
