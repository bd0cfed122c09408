//! The tables, and how an older file becomes a newer one.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tasklane_store::StoreError;

use crate::fault::Fault;

/// The oldest SQLite whose WAL is free of the reset race found in 2026.
const SQLITE_MIN: i32 = 3_051_003;

/// Migrations in order; a file's version is how many of them it has seen. Never change one that
/// was released: add another.
const MIGRATIONS: &[&str] = &[V1, V2];

/// A task is written once, in `task`. What changes lives in narrow tables: a task to which nothing
/// has happened yet has a row nowhere else but in an index of what it waits for; a leased one has
/// its record in `lease`, every other one in `standing`.
const V1: &str = "
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
-- queue, type and capability set, packed; tasks and events name a lane by its number
CREATE TABLE lane(lane INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE);
CREATE TABLE queue(queue INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, settings BLOB NOT NULL);
CREATE TABLE worker(worker BLOB PRIMARY KEY, record BLOB NOT NULL, registered_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL) WITHOUT ROWID;
-- the key is made of the id's time and counter, which saves an index over ids
CREATE TABLE task(task INTEGER PRIMARY KEY, id BLOB NOT NULL, lane INTEGER NOT NULL,
    spec BLOB NOT NULL, payload BLOB NOT NULL);
-- ids whose key was taken by another id
CREATE TABLE alias(id BLOB PRIMARY KEY, task INTEGER NOT NULL) WITHOUT ROWID;
-- line: priority and lane in one number, because it is compared at every step down the index
CREATE TABLE pending(line INTEGER NOT NULL, ready_at INTEGER NOT NULL, sequence INTEGER NOT NULL,
    task INTEGER NOT NULL, fresh INTEGER NOT NULL,
    PRIMARY KEY(line, ready_at, sequence)) WITHOUT ROWID;
CREATE TABLE lease(task INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE standing(task INTEGER PRIMARY KEY, record BLOB NOT NULL, result BLOB);
-- kind 0: due, 1: expires
CREATE TABLE timer(at INTEGER NOT NULL, task INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY(at, task, kind)) WITHOUT ROWID;
-- tasks that ended together, packed (see ended.rs): a row per transaction, not per task
CREATE TABLE ended(state INTEGER NOT NULL, queue INTEGER NOT NULL, at INTEGER NOT NULL,
    part INTEGER NOT NULL, tasks BLOB NOT NULL,
    PRIMARY KEY(state, queue, at, part)) WITHOUT ROWID;
-- sequence 0 marks a trail whose oldest entries were dropped
CREATE TABLE trail(task INTEGER NOT NULL, sequence INTEGER NOT NULL, entry BLOB NOT NULL,
    PRIMARY KEY(task, sequence)) WITHOUT ROWID;
-- live tasks by ordering key; the first holds the key
CREATE TABLE ordered(queue INTEGER NOT NULL, key TEXT NOT NULL, sequence INTEGER NOT NULL,
    task INTEGER NOT NULL, PRIMARY KEY(queue, key, sequence)) WITHOUT ROWID;
-- ended: the state of a task that retention has removed
CREATE TABLE idempotency(queue INTEGER NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL,
    id BLOB NOT NULL, created_at INTEGER NOT NULL, ended INTEGER,
    PRIMARY KEY(queue, key)) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency(created_at);
-- tasks by priority and state, packed: one small row per lane that a transaction touched
CREATE TABLE tally(lane INTEGER PRIMARY KEY, counts BLOB NOT NULL);
-- one row per transaction: the events of it, packed
CREATE TABLE feed(first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL,
    events BLOB NOT NULL);
";

/// Keys, and the audit log. `ends_at`: when a key expires or was revoked.
const V2: &str = "
CREATE TABLE api_key(id BLOB PRIMARY KEY, ends_at INTEGER, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE audit(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, record BLOB NOT NULL);
";

/// Where a database lives.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// In the writer's connection alone.
    Memory,
    /// In a file.
    File(std::path::PathBuf),
}

/// Opens the writer's connection and brings the file to this program's version.
pub(crate) fn open_writer(location: &Location) -> Result<Connection, Fault> {
    check_library()?;
    let mut connection = match location {
        Location::Memory => Connection::open_in_memory()?,
        Location::File(path) => Connection::open(path)?,
    };
    connection.pragma_update(None, "page_size", 4096)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if matches!(location, Location::File(_)) && mode != "wal" {
        let text = format!("the file system cannot hold a write-ahead log (mode {mode})");
        return Err(StoreError::Unavailable(text).into());
    }
    // Syncs at checkpoints and when the log starts again. The syncs before answers are made by
    // writer/confirm.rs, those at an interval by writer/sync.rs.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Measured: 16 MB of pages; 128 MB was slower.
    connection.pragma_update(None, "cache_size", -16_384)?;
    // Checkpoints are made between groups; see writer/checkpoint.rs.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // The log's file is not cut when the log starts again, unless it has grown out of bounds: a
    // sync after writing over what is there takes half as long as one after growing the file
    // (measured: 106-134 us against 192-297 us), because the file's length need not be synced.
    connection.pragma_update(None, "journal_size_limit", crate::writer::LOG_BYTES_MAX)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(1))?;
    connection.pragma_update(None, "cache_size", -4_096)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn check_library() -> Result<(), Fault> {
    let number = rusqlite::version_number();
    if number < SQLITE_MIN {
        let text = format!("SQLite {} is too old: 3.51.3 or newer is needed", rusqlite::version());
        return Err(StoreError::Version(text).into());
    }
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: usize = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(missing) = MIGRATIONS.get(version..) else {
        let text = format!(
            "this store was written by a newer Tasklane (format {version}; this program knows {}): \
             use that version, or restore a backup",
            MIGRATIONS.len()
        );
        return Err(StoreError::Version(text).into());
    };
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    if !missing.is_empty() {
        transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_newer_format_is_refused_with_a_hint() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", MIGRATIONS.len() + 1).unwrap();
        let Err(Fault::Refused(StoreError::Version(text))) = migrate(&mut connection) else {
            panic!("a newer format was taken");
        };
        assert!(text.contains("newer Tasklane"), "{text}");
    }

    #[test]
    fn a_file_of_the_first_format_is_brought_to_this_one() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(V1).unwrap();
        connection.execute("INSERT INTO meta(name, value) VALUES ('epoch', 7)", []).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        migrate(&mut connection).unwrap();
        let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(one("SELECT value FROM meta WHERE name = 'epoch'"), 7);
        assert_eq!(one("SELECT (SELECT count(*) FROM api_key) + (SELECT count(*) FROM audit)"), 0);
        assert_eq!(one("PRAGMA user_version"), MIGRATIONS.len() as i64);
        migrate(&mut connection).unwrap();
    }

    #[test]
    fn the_bundled_library_is_new_enough() {
        check_library().unwrap();
    }
}
