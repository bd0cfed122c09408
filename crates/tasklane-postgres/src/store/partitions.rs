//! Parts of the history by the time in ids: made before they are needed, dropped when they are past
//! and empty. What belongs to no part, like the first tasks that end, is in the rest, and loses nothing
//! by it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tasklane_core::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Shared;
use crate::connection::Transaction;
use crate::fault::Fault;

const DAY: Duration = Duration::from_secs(86_400);
/// Ways to end, and the time that a part covers: as long as such tasks are kept by default, so that
/// there are few at a time, each of which a read by id may have to look at.
const CLASSES: [(&str, Duration); 4] = [
    ("history_completed", DAY),
    ("history_cancelled", DAY),
    ("history_failed", DAY.saturating_mul(7)),
    ("history_dead_letter", DAY.saturating_mul(30)),
];
/// How often they are looked after, by the store's clock.
const EVERY: Duration = Duration::from_secs(600);

/// When parts were looked after.
#[derive(Debug, Default)]
pub(crate) struct Partitions(Mutex<Option<Timestamp>>);

impl Partitions {
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether it is time again; the next time is later.
    fn is_due(&self, now: Timestamp) -> bool {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = looked.is_none_or(|at| now < at || now >= at.plus(EVERY));
        if is_due {
            *looked = Some(now);
        }
        is_due
    }
}

/// Ids from one time to another, the end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: Uuid,
    to: Uuid,
}

impl Span {
    /// The span of this length that a time falls into.
    fn around(at: Timestamp, length: Duration) -> Self {
        let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(1);
        let from = at.as_millis().max(0) / length * length;
        Self { from: first_id(from), to: first_id(from.saturating_add(length)) }
    }

    /// As the database writes it: two ids in quotes.
    fn read(bound: &str) -> Option<Self> {
        let mut ids = bound.split('\'').skip(1).step_by(2).map(Uuid::parse_str);
        Some(Self { from: ids.next()?.ok()?, to: ids.next()?.ok()? })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// The first id of a millisecond.
fn first_id(millis: i64) -> Uuid {
    Uuid::from_u64_pair((millis as u64) << 16, 0)
}

struct Part {
    name: String,
    span: Span,
}

impl Shared {
    /// Looks after the parts now and then. Who cannot do it now does it later: until then all goes
    /// to the rest.
    pub(super) async fn keep_partitions(&self) {
        let now = self.now();
        if !self.partitions.is_due(now) {
            return;
        }
        for (class, length) in CLASSES {
            if let Err(fault) = self.keep_class(class, length, now).await {
                tracing::debug!(%fault, class, "parts could not be looked after; that is done later");
            }
        }
    }

    async fn keep_class(&self, class: &str, length: Duration, now: Timestamp) -> Result<(), Fault> {
        let transaction = self.pool.write().await?;
        match keep_in(&transaction, class, length, now).await {
            Ok(()) => transaction.commit().await,
            Err(fault) => {
                transaction.roll_back().await;
                Err(fault)
            }
        }
    }
}

async fn keep_in(
    transaction: &Transaction,
    class: &str,
    length: Duration,
    now: Timestamp,
) -> Result<(), Fault> {
    // One server is enough.
    let lock = "SELECT pg_try_advisory_xact_lock(hashtext('tasklane partitions'),
                                                 hashtext(current_schema()))";
    if !transaction.one(lock, &[]).await?.get::<_, bool>(0) {
        return Ok(());
    }
    let parts = parts(transaction, class).await?;
    // Not for what never happens: each part is a table with three indexes.
    let any = format!("SELECT 1 FROM {class}_rest LIMIT 1");
    if parts.is_empty() && transaction.query(&any, &[]).await?.is_empty() {
        return Ok(());
    }
    for at in [now, now.plus(length)] {
        let span = Span::around(at, length);
        if !parts.iter().any(|part| part.span.overlaps(&span)) {
            make(transaction, class, span).await?;
        }
    }
    let past = first_id(now.as_millis());
    for part in parts.iter().filter(|part| part.span.to <= past) {
        drop_if_empty(transaction, class, &part.name).await?;
    }
    Ok(())
}

async fn parts(transaction: &Transaction, class: &str) -> Result<Vec<Part>, Fault> {
    let sql = "SELECT c.relname::text, pg_get_expr(c.relpartbound, c.oid)
               FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
               WHERE i.inhparent = to_regclass($1)";
    let found = transaction.query(sql, &[(&class, Type::TEXT)]).await?;
    let part = |row: &tokio_postgres::Row| {
        // The rest has no bounds.
        Some(Part { name: row.get(0), span: Span::read(row.get(1))? })
    };
    Ok(found.iter().filter_map(part).collect())
}

/// Makes a part, unless the rest has some of its tasks already.
async fn make(transaction: &Transaction, class: &str, span: Span) -> Result<(), Fault> {
    let Span { from, to } = span;
    let begun = format!("SELECT 1 FROM {class}_rest WHERE id >= $1 AND id < $2 LIMIT 1");
    let ids = [(&from as _, Type::UUID), (&to as _, Type::UUID)];
    if !transaction.query(&begun, &ids).await?.is_empty() {
        return Ok(());
    }
    let seconds = (from.as_u64_pair().0 >> 16) as f64 / 1e3;
    let named = "SELECT to_char(to_timestamp($1) AT TIME ZONE 'UTC', 'YYYYMMDD')";
    let date: String = transaction.one(named, &[(&seconds, Type::FLOAT8)]).await?.get(0);
    let sql = format!(
        "CREATE TABLE {class}_{date} PARTITION OF {class} FOR VALUES FROM ('{from}') TO ('{to}')"
    );
    transaction.batch(&sql).await
}

/// Drops a part that nothing is left of. A task may end in it until it is locked, from above as who
/// writes into it does.
async fn drop_if_empty(transaction: &Transaction, class: &str, name: &str) -> Result<(), Fault> {
    let some = format!("SELECT 1 FROM {name} LIMIT 1");
    if !transaction.query(&some, &[]).await?.is_empty() {
        return Ok(());
    }
    let lock = format!("LOCK TABLE ONLY {class}, {name} IN ACCESS EXCLUSIVE MODE");
    transaction.batch(&lock).await?;
    if transaction.query(&some, &[]).await?.is_empty() {
        transaction.batch(&format!("DROP TABLE {name}")).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_back_as_the_database_writes_it() {
        let span = Span::around(Timestamp::from_millis(1_700_000_000_000), DAY);
        let written = format!("FOR VALUES FROM ('{}') TO ('{}')", span.from, span.to);
        assert_eq!(Span::read(&written), Some(span));
        assert_eq!(Span::read("DEFAULT"), None);
        let next = Span::around(Timestamp::from_millis(1_700_000_000_000).plus(DAY), DAY);
        assert_eq!((span.to, span.overlaps(&next)), (next.from, false));
        assert!(span.overlaps(&Span::around(Timestamp::from_millis(1_700_000_000_001), DAY)));
    }

    #[test]
    fn parts_are_looked_after_now_and_then_and_when_the_clock_goes_back() {
        let (partitions, start) = (Partitions::default(), Timestamp::from_millis(1_000_000));
        let due: Vec<_> = [start, start.plus(EVERY / 2), start.plus(EVERY), start]
            .map(|now| partitions.is_due(now))
            .to_vec();
        assert_eq!(due, [true, false, true, true]);
    }
}
