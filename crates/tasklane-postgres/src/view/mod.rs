//! Looking: each call sees one moment, and locks nothing.

mod check;
mod feed;
mod list;
mod request;
mod stats;

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::{ApiKey, AuditRecord, TaskId, Timestamp, Worker, WorkerState, limits, trail};
use tasklane_store::{AuditFrom, StoredTask, Trail, codec};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::connection::Transaction;
use crate::fault::Fault;
use crate::rows::{self, Loaded, time, worker_id};
use crate::session::LeaseRow;
use crate::store::Shared;

pub(crate) use feed::{News, sequence};

pub(crate) struct View<'v> {
    pub(crate) transaction: &'v Transaction,
    pub(crate) shared: &'v Shared,
}

impl View<'_> {
    pub(crate) async fn get(&self, ids: &[TaskId]) -> Result<Vec<Option<StoredTask>>, Fault> {
        let mut wanted = rows::uuids(ids);
        wanted.sort_unstable();
        wanted.dedup();
        let sql = "SELECT t.id, t.lane, t.spec, coalesce(p.record, w.record, l.record),
                          coalesce(t.payload, b.payload), NULL::bytea
                   FROM task t LEFT JOIN pend p ON p.id = t.id LEFT JOIN wait w ON w.id = t.id
                   LEFT JOIN lease l ON l.id = t.id LEFT JOIN body b ON b.id = t.id
                   WHERE t.id = ANY($1)
                   UNION ALL
                   SELECT h.id, h.lane, h.spec, h.record, coalesce(h.payload, b.payload), h.result
                   FROM history h LEFT JOIN body b ON b.id = h.id WHERE h.id = ANY($1)";
        let found = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(1))).await?;
        let mut by_id = HashMap::new();
        for row in found {
            let lane = self.shared.lanes.get(row.get(1));
            let loaded = rows::unpack(row.get(0), lane, row.get(2), row.get(3))?;
            let payload = Bytes::copy_from_slice(row.get(4));
            let result = row.get::<_, Option<&[u8]>>(5).map(Bytes::copy_from_slice);
            by_id.insert(loaded.task.id, StoredTask { task: loaded.task, payload, result });
        }
        Ok(ids.iter().map(|id| by_id.get(id).cloned()).collect())
    }

    pub(crate) async fn trail(&self, id: TaskId) -> Result<Option<Trail>, Fault> {
        let found = self.load(&[rows::uuid(id)]).await?;
        let Some(Loaded { task, admitted, .. }) = found.into_iter().next() else {
            return Ok(None);
        };
        let mut trails = self.entries(&[rows::uuid(id)]).await?;
        let (entries, cut) = trails.remove(&id).unwrap_or_default();
        let entries = trail::whole(&task, entries);
        Ok(Some(Trail { task, admitted, entries, cut }))
    }

    /// When the lease of a task ends, unless it is renewed.
    pub(crate) async fn lease_ends(&self, id: TaskId) -> Result<Option<Timestamp>, Fault> {
        let sql = "SELECT l.since, l.ends_at, coalesce(a.renewals, 0), coalesce(a.renewed_until, 0)
                   FROM lease l LEFT JOIN alive a ON a.worker = l.worker WHERE l.id = $1";
        let found = self.transaction.query(sql, &[(&rows::uuid(id), Type::UUID)]).await?;
        let ends = |row: &Row| {
            let (since, renewals) = (row.get(0), row.get(2));
            let (ends_at, renewed_until) = (time(row.get(1)), time(row.get(3)));
            LeaseRow { since, ends_at, renewals, renewed_until, ..LeaseRow::default() }.end()
        };
        Ok(found.first().map(ends))
    }

    /// Tasks without their bodies, by id.
    pub(crate) async fn load(&self, ids: &[Uuid]) -> Result<Vec<Loaded>, Fault> {
        let sql = "SELECT t.id, t.lane, t.spec, coalesce(p.record, w.record, l.record)
                   FROM task t LEFT JOIN pend p ON p.id = t.id LEFT JOIN wait w ON w.id = t.id
                   LEFT JOIN lease l ON l.id = t.id WHERE t.id = ANY($1)
                   UNION ALL
                   SELECT id, lane, spec, record FROM history WHERE id = ANY($1)";
        let found = self.transaction.query(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(1))).await?;
        let loaded = found.iter().map(|row| {
            let lane = self.shared.lanes.get(row.get(1));
            rows::unpack(row.get(0), lane, row.get(2), row.get(3))
        });
        loaded.collect()
    }

    /// Stored parts of trails, and whether older ones were dropped.
    pub(crate) async fn entries(
        &self,
        ids: &[Uuid],
    ) -> Result<HashMap<TaskId, (Vec<tasklane_core::Entry>, bool)>, Fault> {
        let sql = "SELECT id, entry FROM trail WHERE id = ANY($1) ORDER BY id, sequence";
        let found = self.transaction.query(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        let mut trails = HashMap::new();
        for part in found.chunk_by(|one, other| one.get::<_, Uuid>(0) == other.get::<_, Uuid>(0)) {
            let Some(first) = part.first() else { continue };
            let entries = rows::entries(part.iter().map(|row| row.get(1)))?;
            trails.insert(rows::task_id(first.get(0))?, entries);
        }
        Ok(trails)
    }

    pub(crate) async fn workers(&self) -> Result<Vec<Worker>, Fault> {
        let sql = "SELECT w.worker, w.record, w.registered_at, a.seen_at, a.cpu_percent,
                          a.memory_percent, a.load, coalesce(l.count, 0)
                   FROM worker w JOIN alive a ON a.worker = w.worker
                   LEFT JOIN (SELECT worker, count(*) FROM lease GROUP BY worker) l
                       ON l.worker = w.worker
                   ORDER BY w.worker";
        let mut workers = Vec::new();
        for row in self.transaction.query(sql, &[]).await? {
            let (spec, state): (_, WorkerState) = codec::decode_worker(row.get(1))?;
            let load: Option<i64> = row.get(6);
            workers.push(Worker {
                id: worker_id(row.get(0)),
                spec,
                state,
                registered_at: time(row.get(2)),
                seen_at: time(row.get(3)),
                leases: u32::try_from(row.get::<_, i64>(7)).unwrap_or(u32::MAX),
                health: tasklane_core::Health {
                    cpu_percent: row.get(4),
                    memory_percent: row.get(5),
                    load: load.and_then(|load| u32::try_from(load).ok()),
                },
            });
        }
        Ok(workers)
    }

    pub(crate) async fn api_keys(&self) -> Result<Vec<ApiKey>, Fault> {
        let found = self.transaction.query("SELECT record FROM api_key ORDER BY id", &[]).await?;
        let keys = found.iter().map(|row| Ok(codec::decode_api_key(row.get(0))?));
        keys.collect()
    }

    pub(crate) async fn audit(
        &self,
        from: AuditFrom,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, Fault> {
        let back = "SELECT record FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2";
        let (number, sql) = match from {
            AuditFrom::After(number) => {
                (number, "SELECT record FROM audit WHERE number > $1 ORDER BY number LIMIT $2")
            }
            AuditFrom::Before(number) => (number, back),
            AuditFrom::Newest => (u64::MAX, back),
        };
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let limit = limit.clamp(1, limits::PAGE_MAX) as i64;
        let parameters = [(&number as _, Type::INT8), (&limit as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        let records = found.iter().map(|row| Ok(codec::decode_audit(row.get(0))?));
        records.collect()
    }
}
