//! Rows to be written, by table, as columns: a statement takes all rows of a kind at once.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use tasklane_core::{Entry, State, StateName, TaskId, Timestamp};
use tasklane_store::codec;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

use super::change::{Home, Subject};
use crate::connection::Parameter;
use crate::floor::is_late;
use crate::rows::{uuid, worker_uuid};

/// Payloads over this have a table of their own, so that their tasks can move.
const INLINE_BYTES_MAX: usize = 1024;

/// Bytes that are shared, as a value for a statement.
#[derive(Debug)]
pub(super) struct Blob(Bytes);

impl ToSql for Blob {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        (&*self.0).to_sql(ty, out)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}

/// Makes a table's rows as columns, each with its type.
macro_rules! columns {
    ($name:ident { $($column:ident: $of:ty = $type:ident),* $(,)? }) => {
        #[derive(Debug, Default)]
        pub(super) struct $name { $(pub(super) $column: Vec<$of>,)* }

        impl $name {
            pub(super) fn is_empty(&self) -> bool {
                [$(self.$column.is_empty(),)*].into_iter().any(|empty| empty)
            }

            pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
                vec![$((&self.$column as _, Type::$type),)*]
            }
        }
    };
}

columns!(TaskRows {
    id: Uuid = UUID_ARRAY,
    lane: i32 = INT4_ARRAY,
    bytes: i32 = INT4_ARRAY,
    ordering: Option<Box<str>> = TEXT_ARRAY,
    spec: Vec<u8> = BYTEA_ARRAY,
    payload: Option<Blob> = BYTEA_ARRAY,
});
columns!(BodyRows { id: Uuid = UUID_ARRAY, payload: Blob = BYTEA_ARRAY });
columns!(PendRows {
    id: Uuid = UUID_ARRAY,
    queue: i32 = INT4_ARRAY,
    lane: i32 = INT4_ARRAY,
    priority: i16 = INT2_ARRAY,
    ready_at: i64 = INT8_ARRAY,
    sequence: i64 = INT8_ARRAY,
    expires_at: Option<i64> = INT8_ARRAY,
    withheld_from: Option<Uuid> = UUID_ARRAY,
    withheld_until: Option<i64> = INT8_ARRAY,
    bytes: i32 = INT4_ARRAY,
    late: bool = BOOL_ARRAY,
    record: Option<Vec<u8>> = BYTEA_ARRAY,
});
columns!(WaitRows {
    id: Uuid = UUID_ARRAY,
    due_at: Option<i64> = INT8_ARRAY,
    expires_at: Option<i64> = INT8_ARRAY,
    record: Option<Vec<u8>> = BYTEA_ARRAY,
});
columns!(LeaseRows {
    id: Uuid = UUID_ARRAY,
    worker: Uuid = UUID_ARRAY,
    token: Uuid = UUID_ARRAY,
    cancelling: bool = BOOL_ARRAY,
    claimed_at: i64 = INT8_ARRAY,
    version: i64 = INT8_ARRAY,
    since: i64 = INT8_ARRAY,
    ends_at: i64 = INT8_ARRAY,
    limit_at: i64 = INT8_ARRAY,
    running: bool = BOOL_ARRAY,
    record: Vec<u8> = BYTEA_ARRAY,
});
columns!(EndedRows {
    id: Uuid = UUID_ARRAY,
    state: i16 = INT2_ARRAY,
    queue: i32 = INT4_ARRAY,
    priority: i16 = INT2_ARRAY,
    ended_at: i64 = INT8_ARRAY,
    ended_number: i64 = INT8_ARRAY,
    record: Vec<u8> = BYTEA_ARRAY,
    result: Option<Blob> = BYTEA_ARRAY,
});
columns!(TrailRows { id: Uuid = UUID_ARRAY, sequence: i64 = INT8_ARRAY, entry: Vec<u8> = BYTEA_ARRAY, });
columns!(CountRows {
    queue: i32 = INT4_ARRAY,
    lane: i32 = INT4_ARRAY,
    priority: i16 = INT2_ARRAY,
    state: i16 = INT2_ARRAY,
    change: i64 = INT8_ARRAY,
});

impl TrailRows {
    pub(super) fn add(&mut self, id: TaskId, entry: &Entry) {
        self.id.push(uuid(id));
        self.sequence.push(entry.stamp.sequence.0 as i64);
        self.entry.push(codec::encode_entry(entry));
    }
}

impl EndedRows {
    fn add(&mut self, subject: &Subject, state: StateName, record: Vec<u8>) {
        let ended = subject.task.state.ended().unwrap_or_default();
        self.id.push(uuid(subject.task.id));
        self.state.push(state.index() as i16);
        self.queue.push(subject.queue);
        self.priority.push(subject.task.spec.priority.number().into());
        self.ended_at.push(ended.at.as_micros());
        self.ended_number.push(ended.sequence.0 as i64);
        self.record.push(record);
        self.result.push(subject.result.clone().map(Blob));
    }
}

/// All that a flush writes.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) leave_pend: Vec<Uuid>,
    pub(super) leave_wait: Vec<Uuid>,
    pub(super) leave_lease: Vec<Uuid>,
    pub(super) guarded: Vec<Uuid>,
    pub(super) guards: Vec<i64>,
    pub(super) tokens: Vec<Uuid>,
    pub(super) leave_history: Vec<Uuid>,
    pub(super) revived: Vec<Uuid>,
    pub(super) discarded: Vec<Uuid>,
    pub(super) task: TaskRows,
    pub(super) body: BodyRows,
    pub(super) pend: PendRows,
    pub(super) wait: WaitRows,
    pub(super) lease: LeaseRows,
    pub(super) ended: EndedRows,
    pub(super) ended_again: EndedRows,
    pub(super) trail: TrailRows,
}

impl Rows {
    /// Whether nothing is left for the statement that writes what has become of tasks.
    pub(super) fn is_empty(&self) -> bool {
        self.leave_pend.is_empty()
            && self.leave_wait.is_empty()
            && self.leave_lease.is_empty()
            && self.guarded.is_empty()
            && self.task.is_empty()
            && self.pend.is_empty()
            && self.wait.is_empty()
            && self.lease.is_empty()
            && self.ended.is_empty()
            && self.trail.is_empty()
    }

    /// What takes a task from where it is to where it belongs.
    pub(super) fn add(&mut self, subject: &Subject, now: Timestamp) {
        let id = uuid(subject.task.id);
        let from = subject.home;
        if subject.is_discarded {
            // It may have ended in this very transaction: then its rows are those of a live one.
            match from {
                Home::Pend => self.leave_pend.push(id),
                Home::Wait => self.leave_wait.push(id),
                Home::Lease => self.leave_lease(subject),
                Home::History(_) | Home::Nowhere => self.leave_history.push(id),
            }
            self.discarded.push(id);
            return;
        }
        let to = Home::of(&subject.task.state);
        match from {
            Home::Pend => self.leave_pend.push(id),
            Home::Wait => self.leave_wait.push(id),
            Home::Lease => self.leave_lease(subject),
            Home::History(_) if to.is_live() => {
                self.revived.push(id);
                self.leave_history.push(id);
            }
            Home::Nowhere => self.admit(subject),
            _ => {}
        }
        // A new task is as it was admitted: its spec tells.
        let is_fresh = from == Home::Nowhere;
        let record = || codec::encode_record(Vec::new(), &subject.task);
        match to {
            Home::Pend => self.pend(subject, now, (!is_fresh).then(record)),
            Home::Wait => self.wait(subject, (!is_fresh).then(record)),
            Home::Lease => self.lease(subject, record()),
            Home::History(state) if matches!(from, Home::History(_)) => {
                self.ended_again.add(subject, state, record());
            }
            Home::History(state) => self.ended.add(subject, state, record()),
            Home::Nowhere => {}
        }
    }

    fn leave_lease(&mut self, subject: &Subject) {
        let id = uuid(subject.task.id);
        match subject.guard {
            Some((version, token)) => {
                self.guarded.push(id);
                self.guards.push(version.0 as i64);
                self.tokens.push(Uuid::from_bytes(*token.as_bytes()));
            }
            None => self.leave_lease.push(id),
        }
    }

    fn admit(&mut self, subject: &Subject) {
        let (id, task) = (uuid(subject.task.id), &subject.task);
        let payload = subject.payload.clone().unwrap_or_default();
        let is_inline = payload.len() <= INLINE_BYTES_MAX;
        self.task.id.push(id);
        self.task.lane.push(subject.lane);
        self.task.bytes.push(subject.bytes);
        self.task.ordering.push(task.spec.ordering_key.as_ref().map(|key| key.as_str().into()));
        let spec = codec::encode_spec(Vec::new(), &task.spec, &task.admission, subject.digest);
        self.task.spec.push(spec);
        self.task.payload.push(is_inline.then(|| Blob(payload.clone())));
        if !is_inline {
            self.body.id.push(id);
            self.body.payload.push(Blob(payload));
        }
    }

    fn pend(&mut self, subject: &Subject, now: Timestamp, record: Option<Vec<u8>>) {
        let task = &subject.task;
        let State::Pending { withheld } = task.state else { return };
        self.pend.id.push(uuid(task.id));
        self.pend.queue.push(subject.queue);
        self.pend.lane.push(subject.lane);
        self.pend.priority.push(task.spec.priority.number().into());
        self.pend.ready_at.push(task.place.ready_at.as_micros());
        self.pend.sequence.push(task.place.sequence.0 as i64);
        self.pend.expires_at.push(task.expires_at.map(Timestamp::as_micros));
        self.pend.withheld_from.push(withheld.map(|held| worker_uuid(held.worker)));
        self.pend.withheld_until.push(withheld.map(|held| held.until.as_micros()));
        self.pend.bytes.push(subject.bytes);
        self.pend.late.push(is_late(task.place.ready_at, now));
        self.pend.record.push(record);
    }

    fn wait(&mut self, subject: &Subject, record: Option<Vec<u8>>) {
        let task = &subject.task;
        self.wait.id.push(uuid(task.id));
        self.wait.due_at.push(task.state.due_at().map(Timestamp::as_micros));
        self.wait.expires_at.push(task.expires_at.map(Timestamp::as_micros));
        self.wait.record.push(record);
    }

    fn lease(&mut self, subject: &Subject, record: Vec<u8>) {
        let Some(lease) = subject.task.state.lease() else { return };
        self.lease.id.push(uuid(subject.task.id));
        self.lease.worker.push(worker_uuid(lease.worker));
        self.lease.token.push(Uuid::from_bytes(*lease.token.as_bytes()));
        self.lease.cancelling.push(lease.cancel_requested.is_some());
        self.lease.claimed_at.push(subject.lease.claimed_at.as_micros());
        self.lease.version.push(subject.lease.version.0 as i64);
        self.lease.since.push(subject.lease.since);
        self.lease.ends_at.push(subject.lease.ends_at.as_micros());
        self.lease.limit_at.push(subject.lease.limit_at.as_micros());
        self.lease.running.push(subject.lease_is_running());
        self.lease.record.push(record);
    }
}

impl Subject {
    const fn lease_is_running(&self) -> bool {
        matches!(self.task.state, State::Running(_))
    }
}
