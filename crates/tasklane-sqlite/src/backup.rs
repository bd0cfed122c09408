//! Copies of a store taken while it serves, and stores made from copies (S19).

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tasklane_core::{Command, Intent, Random, TaskId};
use tasklane_store::{Store, StoreError};

use crate::fault::Fault;
use crate::options::Options;
use crate::store::{DATABASE, SqliteStore};
use crate::system::SystemRandom;

/// Writes a consistent copy to a new file. One step, so that it is of one moment; the writer goes
/// on meanwhile.
pub(crate) fn backup(connection: &Connection, to: &Path) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::Refused(StoreError::Unavailable(format!("cannot write {}: {error}", to.display())))
    };
    if to.exists() {
        let text = format!("{} is there already; choose a new file", to.display());
        return Err(StoreError::Unavailable(text).into());
    }
    let partial = beside(to, ".partial");
    let _ = std::fs::remove_file(&partial);
    let mut copy = Connection::open(&partial)?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let step = Backup::new(connection, &mut copy)?.step(-1)?;
    if step != StepResult::Done {
        let _ = std::fs::remove_file(&partial);
        return Err(StoreError::Unavailable("the copy could not be finished".into()).into());
    }
    drop(copy);
    // A file with the name of a backup is a whole one, on disk.
    std::fs::File::open(&partial).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&partial, to).map_err(failed)?;
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    Ok(())
}

/// Makes a new store in `folder` from a copy. It begins a new life: cursors of the old one get a
/// gap, and every lease is void. The folder gets its name when all of that is done, so that a
/// restore that was interrupted leaves nothing that could be taken for a store.
pub async fn restore(copy: &Path, folder: &Path, options: &Options) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| {
        StoreError::Unavailable(format!("cannot restore to {}: {error}", folder.display()))
    };
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        let text = format!("{} is not empty; choose a new folder", folder.display());
        return Err(StoreError::Unavailable(text));
    }
    let partial = beside(folder, ".restoring");
    if partial.exists() {
        let text = format!(
            "{} is there, perhaps from a restore that was interrupted: remove it first",
            partial.display()
        );
        return Err(StoreError::Unavailable(text));
    }
    std::fs::create_dir_all(&partial).map_err(failed)?;
    let database = partial.join(DATABASE);
    std::fs::copy(copy, &database).map_err(|error| {
        StoreError::Unavailable(format!("cannot copy {}: {error}", copy.display()))
    })?;
    begin_new_life(&database).map_err(|fault| fault.to_store_error())?;
    let leased = leased(&database).map_err(|fault| fault.to_store_error())?;
    let store = SqliteStore::open(&partial, options)?;
    let requeue = |task| Command { task, intent: Intent::Requeue };
    for slice in leased.chunks(tasklane_core::limits::SLICE_TASKS) {
        store.execute(slice.iter().copied().map(requeue).collect()).await?;
    }
    drop(store);
    std::fs::File::open(&database).and_then(|file| file.sync_all()).map_err(failed)?;
    if folder.exists() {
        std::fs::remove_dir(folder).map_err(failed)?;
    }
    std::fs::rename(&partial, folder).map_err(failed)
}

/// The same name with something behind it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn begin_new_life(database: &Path) -> Result<(), Fault> {
    let connection = Connection::open(database)?;
    let epoch = (SystemRandom::default().next_u64() >> 1).max(1);
    connection.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", [epoch])?;
    Ok(())
}

fn leased(database: &Path) -> Result<Vec<TaskId>, Fault> {
    let connection = Connection::open(database)?;
    let sql = "SELECT t.id FROM lease l JOIN task t ON t.task = l.task ORDER BY l.task";
    let mut statement = connection.prepare(sql)?;
    let ids = statement.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
    let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(ids.into_iter().filter_map(|id| TaskId::from_bytes(id).ok()).collect())
}
