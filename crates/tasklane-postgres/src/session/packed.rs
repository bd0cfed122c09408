//! Rows of a table as one value, an array of its row type. Columns apart are taken to pieces one by one
//! and put together again by the database, which costs more than to store them.

use std::error::Error;

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::connection::Transaction;
use crate::fault::Fault;

/// A value of a column.
pub(super) trait Cell {
    const TYPE: Type;
    /// Whether there is one.
    fn write(&self, out: &mut BytesMut) -> bool;
}

macro_rules! cells {
    ($($of:ty, $type:ident, |$value:ident, $out:ident| $write:expr;)*) => {
        $(impl Cell for $of {
            const TYPE: Type = Type::$type;

            fn write(&self, $out: &mut BytesMut) -> bool {
                let $value = self;
                $write;
                true
            }
        })*
    };
}

cells! {
    bool, BOOL, |value, out| out.put_u8(u8::from(*value));
    i16, INT2, |value, out| out.put_i16(*value);
    i32, INT4, |value, out| out.put_i32(*value);
    i64, INT8, |value, out| out.put_i64(*value);
    Uuid, UUID, |value, out| out.put_slice(value.as_bytes());
    &str, TEXT, |value, out| out.put_slice(value.as_bytes());
    Vec<u8>, BYTEA, |value, out| out.put_slice(value);
    Bytes, BYTEA, |value, out| out.put_slice(value);
}

impl<T: Cell> Cell for Option<T> {
    const TYPE: Type = T::TYPE;

    fn write(&self, out: &mut BytesMut) -> bool {
        self.as_ref().is_some_and(|value| value.write(out))
    }
}

/// Rows of one kind, as they are sent.
#[derive(Debug, Default)]
pub(super) struct Packed {
    count: usize,
    body: BytesMut,
}

/// A row that is being written.
pub(super) struct Record<'p> {
    columns: usize,
    body: &'p mut BytesMut,
}

impl Record<'_> {
    /// The next column.
    pub(super) fn cell<T: Cell>(&mut self, value: T) -> &mut Self {
        self.columns += 1;
        self.body.put_u32(T::TYPE.oid());
        let at = self.body.len();
        // Nothing, unless it is said otherwise.
        self.body.put_i32(-1);
        if value.write(self.body) {
            set_number(self.body, at, self.body.len() - at - size_of::<i32>());
        }
        self
    }
}

impl Packed {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn add(&mut self, fill: impl FnOnce(&mut Record<'_>)) {
        let at = self.body.len();
        self.body.put_i32(0);
        let inner = self.body.len();
        self.body.put_i32(0);
        let mut row = Record { columns: 0, body: &mut self.body };
        fill(&mut row);
        let columns = row.columns;
        set_number(&mut self.body, inner, columns);
        let length = self.body.len() - inner;
        set_number(&mut self.body, at, length);
        self.count += 1;
    }
}

/// Puts a number where room was left for it.
fn set_number(body: &mut BytesMut, at: usize, number: usize) {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    if let Some(room) = body.get_mut(at..at + size_of::<i32>()) {
        room.copy_from_slice(&number.to_be_bytes());
    }
}

impl ToSql for Packed {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(row) = ty.kind() else { return Err("not an array".into()) };
        out.put_i32(i32::from(!self.is_empty()));
        out.put_i32(0);
        out.put_u32(row.oid());
        if !self.is_empty() {
            out.put_i32(i32::try_from(self.count)?);
            out.put_i32(1);
            out.put_slice(&self.body);
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
    }

    to_sql_checked!();
}

/// Arrays of rows, as this database numbers them.
#[derive(Debug)]
pub(crate) struct RowTypes {
    pub(super) task: Type,
    pub(super) pend: Type,
    pub(super) wait: Type,
    pub(super) lease: Type,
    pub(super) ended: Type,
    pub(super) trail: Type,
}

impl RowTypes {
    pub(crate) async fn read(transaction: &Transaction) -> Result<Self, Fault> {
        let sql = "SELECT t.typname::text, t.oid, t.typarray
                   FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
                   WHERE n.nspname = current_schema() AND t.typtype = 'c'";
        let found = transaction.query(sql, &[]).await?;
        let array = |wanted: &str| {
            let row = found.iter().find(|row| row.get::<_, &str>(0) == wanted);
            let row = row.ok_or_else(|| Fault::Corrupt(format!("there is no type {wanted}")))?;
            let named = |oid, kind| Type::new(wanted.into(), oid, kind, String::new());
            Ok::<_, Fault>(named(row.get(2), Kind::Array(named(row.get(1), Kind::Simple))))
        };
        Ok(Self {
            task: array("task")?,
            pend: array("pend")?,
            wait: array("wait")?,
            lease: array("lease")?,
            ended: array("ended")?,
            trail: array("trail")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_an_array_of_records() {
        let row = Type::new("row".into(), 70_000, Kind::Simple, String::new());
        let array = Type::new("rows".into(), 70_001, Kind::Array(row), String::new());
        let mut packed = Packed::default();
        let mut out = BytesMut::new();
        assert!(packed.to_sql(&array, &mut out).is_ok());
        assert_eq!(out[..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        packed.add(|row| {
            row.cell(7i16).cell(None::<i64>).cell("ab");
        });
        out.clear();
        assert!(packed.to_sql(&array, &mut out).is_ok());
        let head = [0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0x11, 0x70, 0, 0, 0, 1, 0, 0, 0, 1];
        let record = [0, 0, 0, 32, 0, 0, 0, 3];
        let seven = [0, 0, 0, 21, 0, 0, 0, 2, 0, 7];
        let none = [0, 0, 0, 20, 255, 255, 255, 255];
        let text = [0, 0, 0, 25, 0, 0, 0, 2, b'a', b'b'];
        assert_eq!(out[..], [&head[..], &record, &seven, &none, &text].concat());
    }
}
