//! What applications asked for in SQL, as a server sees it.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Capability, CapabilitySet, IdempotencyKey, Invalid, Metadata, NewTask, OrderingKey, Priority,
    Problem, QueueName, TaskId, TaskType, Timestamp, When,
};
use tasklane_store::Requested;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use super::View;
use crate::fault::Fault;
use crate::lanes::nameless;
use crate::rows::time;

/// The payload of what has none that could be used.
const NOTHING: &[u8] = b"null";
/// What is wrong with a column, or with one element of a list.
const UNREADABLE: Problem =
    Problem::Malformed { expected: "a value, or a list of values without NULL or lists in it" };

impl View<'_> {
    pub(crate) async fn requested(&self, limit: usize) -> Result<Vec<Requested>, Fault> {
        let sql = "SELECT number, id, type, queue, payload, priority, capabilities, max_retries,
                   timeout_micros, scheduled_at, delay_micros, expires_at, idempotency_key,
                   ordering_key, metadata_names, metadata_values, dead_letter
                   FROM request WHERE number > $2 ORDER BY number LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let after = self.shared.requested.floor_or_all();
        let parameters = [(&limit as _, Type::INT8), (&after as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        if let Some(first) = found.first() {
            // One that is still there is not passed, however long somebody is in its way.
            let gone = first.try_get::<_, i64>("number")?.saturating_sub(1);
            let note = || self.shared.requested.note(gone);
            self.shared.timeline.remember(self.transaction.timeline, note);
        }
        found.iter().map(requested).collect()
    }
}

/// Only a row without a number fails the look: nobody could say what is to become of it.
fn requested(row: &Row) -> Result<Requested, Fault> {
    let number: i64 = row.try_get("number")?;
    let mut reader = Reader { row, problem: None };
    let task = reader.task(nameless()?);
    Ok(Requested { number: number.unsigned_abs(), task, problem: reader.problem })
}

/// Reads what makes sense. The first column that does not is the request's problem, and nobody else's:
/// others wait for the same look.
struct Reader<'r> {
    row: &'r Row,
    problem: Option<Invalid>,
}

impl<'r> Reader<'r> {
    fn task(&mut self, nameless: TaskType) -> NewTask {
        let task_type = self.text("type", TaskType::new).unwrap_or(nameless);
        let payload: Option<&[u8]> = self.column("payload");
        let payload = payload.map_or(Bytes::from_static(NOTHING), Bytes::copy_from_slice);
        let queue = self.text("queue", QueueName::new).unwrap_or_else(QueueName::default_queue);
        let plain = NewTask::new(task_type, payload);
        NewTask {
            id: self.id(),
            queue,
            priority: self.priority(),
            capabilities: self.capabilities(),
            max_retries: self.perhaps("max_retries").map(i32::unsigned_abs),
            timeout: self.span("timeout_micros"),
            schedule: self.schedule(),
            expires: self.instant("expires_at").map(When::At),
            idempotency_key: self.perhaps_text("idempotency_key", IdempotencyKey::new),
            ordering_key: self.perhaps_text("ordering_key", OrderingKey::new),
            metadata: self.metadata(),
            dead_letter: self.perhaps("dead_letter"),
            ..plain
        }
    }

    fn id(&mut self) -> Option<TaskId> {
        let id: Uuid = self.column("id")?;
        self.keep(TaskId::from_bytes(id.into_bytes()))
    }

    fn priority(&mut self) -> Option<Priority> {
        let number: i16 = self.perhaps("priority")?;
        self.keep(Priority::from_number(u64::try_from(number).unwrap_or(u64::MAX)))
    }

    fn capabilities(&mut self) -> CapabilitySet {
        let names: Vec<&str> = self.column("capabilities").unwrap_or_default();
        let read: Result<Vec<_>, _> = names.into_iter().map(Capability::new).collect();
        self.keep(read.and_then(CapabilitySet::new)).unwrap_or_default()
    }

    fn schedule(&mut self) -> Option<When> {
        let (at, delay) = (self.instant("scheduled_at"), self.span("delay_micros"));
        at.map(When::At).or(delay.map(When::After))
    }

    /// A value may be NULL, as it may be `null` in JSON: it is an empty one.
    fn metadata(&mut self) -> Metadata {
        let names: Vec<&str> = self.column("metadata_names").unwrap_or_default();
        let values: Vec<Option<&str>> = self.column("metadata_values").unwrap_or_default();
        let labels = if names.len() == values.len() {
            Metadata::new(names.into_iter().zip(values.into_iter().map(Option::unwrap_or_default)))
        } else {
            Err(Invalid::new(
                "metadata",
                Problem::Malformed { expected: "names with a value each" },
            ))
        };
        self.keep(labels).unwrap_or_default()
    }

    fn text<T>(
        &mut self,
        column: &'static str,
        make: impl FnOnce(&'r str) -> Result<T, Invalid>,
    ) -> Option<T> {
        let text = self.column(column)?;
        self.keep(make(text))
    }

    fn perhaps_text<T>(
        &mut self,
        column: &'static str,
        make: impl FnOnce(&'r str) -> Result<T, Invalid>,
    ) -> Option<T> {
        let text = self.perhaps(column)?;
        self.keep(make(text))
    }

    fn instant(&mut self, column: &'static str) -> Option<Timestamp> {
        self.perhaps(column).map(time)
    }

    fn span(&mut self, column: &'static str) -> Option<Duration> {
        let micros: i64 = self.perhaps(column)?;
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
    }

    fn perhaps<T: FromSql<'r>>(&mut self, column: &'static str) -> Option<T> {
        self.column::<Option<T>>(column).flatten()
    }

    fn column<T: FromSql<'r>>(&mut self, column: &'static str) -> Option<T> {
        let read = self.row.try_get(column);
        self.keep(read.map_err(|_| Invalid::new(column, UNREADABLE)))
    }

    fn keep<T>(&mut self, read: Result<T, Invalid>) -> Option<T> {
        read.map_err(|invalid| self.problem.get_or_insert(invalid)).ok()
    }
}
