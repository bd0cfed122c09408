//! Reading a task back from its rows.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};
use tasklane_core::{Digest, Entry, Task, TaskId};
use tasklane_store::codec::{self, LaneNumbers};

use crate::fault::Fault;
use crate::lanes::Lanes;

/// A task as its rows tell, with the key of those rows.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) key: i64,
    pub(crate) lane: u32,
    pub(crate) task: Task,
    /// The task as it was admitted.
    pub(crate) admitted: Task,
    pub(crate) digest: Option<Digest>,
    /// Nothing has happened to it since.
    pub(crate) fresh: bool,
    pub(crate) payload: Bytes,
    pub(crate) result: Option<Bytes>,
}

/// Columns that [`from_row`] wants; bodies are empty where they are not asked for.
pub(crate) const COLUMNS: &str =
    "t.task, t.id, t.lane, t.spec, coalesce(l.record, s.record), t.payload, s.result";
/// The same without bodies.
pub(crate) const COLUMNS_LEAN: &str =
    "t.task, t.id, t.lane, t.spec, coalesce(l.record, s.record), x'', NULL";
/// Where they come from.
pub(crate) const JOINED: &str =
    "task t LEFT JOIN lease l ON l.task = t.task LEFT JOIN standing s ON s.task = t.task";

/// Builds a task from a row of [`COLUMNS`].
pub(crate) fn from_row(row: &Row<'_>, lanes: &Lanes) -> Result<Loaded, Fault> {
    let key: i64 = row.get(0)?;
    let id = TaskId::from_bytes(row.get(1)?).map_err(|_| corrupt(key, "not an id"))?;
    let number: u32 = row.get(2)?;
    let lane = lanes.lane(number.into()).ok_or_else(|| corrupt(key, "unknown lane"))?;
    let stored = codec::decode_spec(blob(row, 3)?, lane)?;
    let admitted = Task::admitted(id, stored.spec, stored.admission);
    let record = row.get_ref(4)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
    let task = match record {
        Some(record) => codec::decode_record(record, admitted.clone())?,
        None => admitted.clone(),
    };
    let result = row.get_ref(6)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
    Ok(Loaded {
        key,
        lane: number,
        task,
        admitted,
        digest: stored.digest,
        fresh: record.is_none(),
        payload: Bytes::copy_from_slice(blob(row, 5)?),
        result: result.map(Bytes::copy_from_slice),
    })
}

/// The task with this id, with its bodies.
pub(crate) fn load_whole(
    connection: &Connection,
    lanes: &Lanes,
    id: TaskId,
) -> Result<Option<Loaded>, Fault> {
    let Some(key) = find(connection, id)? else { return Ok(None) };
    load_columns(connection, lanes, COLUMNS, key)
}

/// The task with this id, without its bodies.
pub(crate) fn load(
    connection: &Connection,
    lanes: &Lanes,
    id: TaskId,
) -> Result<Option<Loaded>, Fault> {
    let Some(key) = find(connection, id)? else { return Ok(None) };
    load_key(connection, lanes, key)
}

/// The task with this key, without its bodies.
pub(crate) fn load_key(
    connection: &Connection,
    lanes: &Lanes,
    key: i64,
) -> Result<Option<Loaded>, Fault> {
    load_columns(connection, lanes, COLUMNS_LEAN, key)
}

fn load_columns(
    connection: &Connection,
    lanes: &Lanes,
    columns: &str,
    key: i64,
) -> Result<Option<Loaded>, Fault> {
    let sql = format!("SELECT {columns} FROM {JOINED} WHERE t.task = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([key])?;
    rows.next()?.map(|row| from_row(row, lanes)).transpose()
}

/// The key of the rows of this id.
pub(crate) fn find(connection: &Connection, id: TaskId) -> Result<Option<i64>, Fault> {
    let key = id.row_key();
    let mut statement = connection.prepare_cached("SELECT id FROM task WHERE task = ?")?;
    let there: Option<[u8; 16]> = statement.query_row([key], |row| row.get(0)).optional()?;
    if there.as_ref() == Some(id.as_bytes()) {
        return Ok(Some(key));
    }
    let mut statement = connection.prepare_cached("SELECT task FROM alias WHERE id = ?")?;
    Ok(statement.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
}

/// The stored entries of a task, in order, and whether older ones were dropped.
pub(crate) fn trail(connection: &Connection, key: i64) -> Result<(Vec<Entry>, bool), Fault> {
    let sql = "SELECT sequence, entry FROM trail WHERE task = ? ORDER BY sequence";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key])?;
    let (mut entries, mut cut) = (Vec::new(), false);
    while let Some(row) = rows.next()? {
        match row.get::<_, i64>(0)? {
            0 => cut = true,
            _ => entries.push(codec::decode_entry(blob(row, 1)?)?),
        }
    }
    Ok((entries, cut))
}

pub(crate) fn corrupt(key: i64, problem: &str) -> Fault {
    Fault::Corrupt(format!("task row {key}: {problem}"))
}

pub(crate) fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Fault> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}
