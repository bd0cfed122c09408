//! Rows to be written, by table: a statement takes all rows of a kind at once.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use tasklane_core::{Entry, OrderingKey, State, StateName, TaskId, Timestamp};
use tasklane_store::codec;
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

use super::change::{Home, Subject};
use super::packed::Packed;
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

columns!(BodyRows { id: Uuid = UUID_ARRAY, payload: Blob = BYTEA_ARRAY });
columns!(CountRows {
    queue: i32 = INT4_ARRAY,
    lane: i32 = INT4_ARRAY,
    priority: i16 = INT2_ARRAY,
    state: i16 = INT2_ARRAY,
    change: i64 = INT8_ARRAY,
});

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
    pub(super) task: Packed,
    pub(super) body: BodyRows,
    pub(super) pend: Packed,
    pub(super) wait: Packed,
    pub(super) lease: Packed,
    pub(super) ended: Packed,
    pub(super) ended_again: Packed,
    pub(super) trail: Packed,
    /// Tasks that have entries in it.
    pub(super) trailed: Vec<Uuid>,
}

impl Rows {
    /// Whether nothing is left for the statement that writes what has become of tasks.
    pub(super) const fn is_empty(&self) -> bool {
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

    /// What takes a task from where it is to where it belongs, written at this time.
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
                end(&mut self.ended_again, subject, state, record());
            }
            Home::History(state) => end(&mut self.ended, subject, state, record()),
            Home::Nowhere => {}
        }
    }

    pub(super) fn trail(&mut self, id: TaskId, entry: &Entry) {
        let id = uuid(id);
        self.trailed.push(id);
        let sequence = entry.stamp.sequence.0 as i64;
        self.trail.add(|row| {
            row.cell(id).cell(sequence).cell(codec::encode_entry(entry));
        });
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
        self.task.add(|row| {
            row.cell(id).cell(subject.lane).cell(subject.bytes);
            row.cell(task.spec.ordering_key.as_ref().map(OrderingKey::as_str));
            row.cell(codec::encode_spec(Vec::new(), &task.spec, &task.admission, subject.digest));
            row.cell(is_inline.then(|| payload.clone()));
        });
        if !is_inline {
            self.body.id.push(id);
            self.body.payload.push(Blob(payload));
        }
    }

    fn pend(&mut self, subject: &Subject, now: Timestamp, record: Option<Vec<u8>>) {
        let task = &subject.task;
        let State::Pending { withheld } = task.state else { return };
        self.pend.add(|row| {
            row.cell(uuid(task.id)).cell(subject.queue).cell(subject.lane);
            row.cell(i16::from(task.spec.priority.number()));
            row.cell(task.place.ready_at.as_micros()).cell(task.place.sequence.0 as i64);
            row.cell(task.expires_at.map(Timestamp::as_micros));
            row.cell(withheld.map(|held| worker_uuid(held.worker)));
            row.cell(withheld.map(|held| held.until.as_micros()));
            row.cell(subject.bytes).cell(is_late(task.place.ready_at, now)).cell(record);
        });
    }

    fn wait(&mut self, subject: &Subject, record: Option<Vec<u8>>) {
        let task = &subject.task;
        self.wait.add(|row| {
            row.cell(uuid(task.id));
            row.cell(task.state.due_at().map(Timestamp::as_micros));
            row.cell(task.expires_at.map(Timestamp::as_micros)).cell(record);
        });
    }

    fn lease(&mut self, subject: &Subject, record: Vec<u8>) {
        let Some(held) = subject.task.state.lease() else { return };
        let (id, lease) = (uuid(subject.task.id), &subject.lease);
        self.lease.add(|row| {
            row.cell(id).cell(worker_uuid(held.worker));
            row.cell(Uuid::from_bytes(*held.token.as_bytes()));
            row.cell(held.cancel_requested.is_some());
            row.cell(lease.claimed_at.as_micros()).cell(lease.version.0 as i64);
            row.cell(lease.since).cell(lease.ends_at.as_micros());
            row.cell(lease.limit_at.as_micros());
            row.cell(matches!(subject.task.state, State::Running(_))).cell(record);
        });
    }
}

fn end(rows: &mut Packed, subject: &Subject, state: StateName, record: Vec<u8>) {
    let ended = subject.task.state.ended().unwrap_or_default();
    rows.add(|row| {
        row.cell(uuid(subject.task.id)).cell(state.index() as i16).cell(subject.queue);
        row.cell(i16::from(subject.task.spec.priority.number()));
        row.cell(ended.at.as_micros()).cell(ended.sequence.0 as i64);
        row.cell(record).cell(subject.result.clone());
    });
}
