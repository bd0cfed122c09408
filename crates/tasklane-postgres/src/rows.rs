//! A task read back from its rows.

use tasklane_core::{Digest, Entry, StateName, Task, TaskId, Timestamp, WorkerId};
use tasklane_store::codec;
use uuid::Uuid;

use crate::fault::Fault;
use crate::lanes::Known;

/// A task as it is and as it was admitted.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) task: Task,
    pub(crate) admitted: Task,
    pub(crate) digest: Option<Digest>,
}

/// Unpacks a task; without a record it is as it was admitted.
pub(crate) fn unpack(
    id: Uuid,
    known: Option<Known>,
    spec: &[u8],
    record: Option<&[u8]>,
) -> Result<Loaded, Fault> {
    let known = known.ok_or_else(|| corrupt(id, "in a lane that is not there"))?;
    let id = task_id(id)?;
    let stored = codec::decode_spec(spec, known.lane)?;
    let admitted = Task::admitted(id, stored.spec, stored.admission);
    let task = match record {
        Some(record) => codec::decode_record(record, admitted.clone())?,
        None => admitted.clone(),
    };
    Ok(Loaded { task, admitted, digest: stored.digest })
}

/// Entries of a trail; an empty one marks that older ones were dropped.
pub(crate) fn entries<'a>(
    rows: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<Entry>, bool), Fault> {
    let (mut entries, mut cut) = (Vec::new(), false);
    for bytes in rows {
        if bytes.is_empty() {
            cut = true;
        } else {
            entries.push(codec::decode_entry(bytes)?);
        }
    }
    Ok((entries, cut))
}

pub(crate) fn corrupt(id: Uuid, what: &str) -> Fault {
    Fault::Corrupt(format!("task {id}: {what}"))
}

pub(crate) fn task_id(id: Uuid) -> Result<TaskId, Fault> {
    TaskId::from_bytes(id.into_bytes()).map_err(|_| corrupt(id, "not an id"))
}

pub(crate) fn uuid(id: TaskId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(crate) fn uuids(ids: &[TaskId]) -> Vec<Uuid> {
    ids.iter().map(|id| uuid(*id)).collect()
}

pub(crate) fn worker_uuid(id: WorkerId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

pub(crate) const fn worker_id(id: Uuid) -> WorkerId {
    WorkerId::from_bytes(id.into_bytes())
}

pub(crate) const fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(crate) fn state(number: i16) -> Result<StateName, Fault> {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let found = StateName::ALL.get(index).copied();
    found.ok_or_else(|| Fault::Corrupt(format!("{number} is no state")))
}

pub(crate) fn priority(number: i16) -> Result<tasklane_core::Priority, Fault> {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    tasklane_core::Priority::from_number(number)
        .map_err(|_| Fault::Corrupt(format!("{number} is no priority")))
}

/// The order of states in the tables, for those who read them with other tools.
const _: () = assert!(StateName::Completed.index() == 6 && StateName::DeadLetter.index() == 9);
