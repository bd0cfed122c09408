//! What applications asked for in SQL, as a server sees it.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Capability, CapabilitySet, IdempotencyKey, Invalid, Metadata, NewTask, OrderingKey, Priority,
    QueueName, TaskId, TaskType, When,
};
use tasklane_store::Requested;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::View;
use crate::fault::Fault;
use crate::rows::time;

/// The type of what has none that could be used.
const NAMELESS: &str = "nameless";

impl View<'_> {
    pub(crate) async fn requested(&self, limit: usize) -> Result<Vec<Requested>, Fault> {
        let sql = "SELECT number, id, type, queue, payload, priority, capabilities, max_retries,
                   timeout_micros, scheduled_at, delay_micros, expires_at, idempotency_key,
                   ordering_key, metadata_names, metadata_values, dead_letter
                   FROM request ORDER BY number LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.transaction.query(sql, &[(&limit, Type::INT8)]).await?;
        found.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<Requested, Fault> {
    let mut problem = None;
    let named = keep(TaskType::new(row.get::<_, &str>(2)), &mut problem);
    let nameless = || TaskType::new(NAMELESS).map_err(|error| Fault::Corrupt(error.to_string()));
    let task_type = named.map_or_else(nameless, Ok)?;
    let mut task = NewTask::new(task_type, Bytes::copy_from_slice(row.get(4)));
    task.id = keep(TaskId::from_bytes(row.get::<_, Uuid>(1).into_bytes()), &mut problem);
    if let Some(queue) = keep(QueueName::new(row.get::<_, &str>(3)), &mut problem) {
        task.queue = queue;
    }
    let priority = row
        .get::<_, Option<i16>>(5)
        .map(|number| Priority::from_number(u64::try_from(number).unwrap_or(u64::MAX)));
    task.priority = priority.and_then(|priority| keep(priority, &mut problem));
    let names: Vec<&str> = row.get(6);
    let capabilities: Result<Vec<_>, _> = names.into_iter().map(Capability::new).collect();
    let capabilities = capabilities.and_then(CapabilitySet::new);
    task.capabilities = keep(capabilities, &mut problem).unwrap_or_default();
    task.max_retries = row.get::<_, Option<i32>>(7).map(i32::unsigned_abs);
    task.timeout = row.get::<_, Option<i64>>(8).map(span);
    let at = row.get::<_, Option<i64>>(9).map(|at| When::At(time(at)));
    task.schedule = at.or(row.get::<_, Option<i64>>(10).map(|delay| When::After(span(delay))));
    task.expires = row.get::<_, Option<i64>>(11).map(|at| When::At(time(at)));
    let key = row.get::<_, Option<&str>>(12).map(IdempotencyKey::new);
    task.idempotency_key = key.and_then(|key| keep(key, &mut problem));
    let key = row.get::<_, Option<&str>>(13).map(OrderingKey::new);
    task.ordering_key = key.and_then(|key| keep(key, &mut problem));
    let (names, values): (Vec<&str>, Vec<Option<&str>>) = (row.get(14), row.get(15));
    let labels = names.into_iter().zip(values.into_iter().map(Option::unwrap_or_default));
    task.metadata = keep(Metadata::new(labels), &mut problem).unwrap_or_default();
    task.dead_letter = row.get(16);
    Ok(Requested { number: row.get::<_, i64>(0).unsigned_abs(), task, problem })
}

/// What makes sense; the first that does not is kept as the problem.
fn keep<T>(read: Result<T, Invalid>, problem: &mut Option<Invalid>) -> Option<T> {
    read.map_err(|invalid| problem.get_or_insert(invalid)).ok()
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}
