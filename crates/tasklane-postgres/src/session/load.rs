//! Taking tasks in hand: their rows are locked, then read.

use tasklane_core::{StateName, TaskId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::{Home, LeaseRow, Subject};
use crate::fault::Fault;
use crate::rows::{self, time};

/// A task may move between live and ended while it is looked for: after so many looks it is not
/// there.
const LOOKS: usize = 3;

/// What each live task is now, wherever that is written. Columns: id, home, record, since, ends_at,
/// limit_at, renewals, renewed_until.
const STANDINGS: &str = "
    SELECT id, 0::int2, record, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8 FROM pend WHERE id = ANY($1)
    UNION ALL
    SELECT id, 1::int2, record, 0, 0, 0, 0, 0 FROM wait WHERE id = ANY($1)
    UNION ALL
    SELECT l.id, 2::int2, l.record, l.since, l.ends_at, l.limit_at,
           coalesce(a.renewals, 0), coalesce(a.renewed_until, 0)
    FROM lease l LEFT JOIN alive a ON a.worker = l.worker WHERE l.id = ANY($1)";

impl Session<'_> {
    /// Takes tasks in hand that are there, waiting for others to let go of them. Their ordering
    /// keys are locked first.
    pub(super) async fn load_with_keys(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        let wanted = self.missing(ids);
        if wanted.is_empty() {
            return Ok(());
        }
        let sql = "SELECT lane, ordering FROM task WHERE id = ANY($1) AND ordering IS NOT NULL
                   UNION SELECT lane, ordering FROM history WHERE id = ANY($1) AND ordering IS NOT NULL";
        let found = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(0))).await?;
        let mut keys = Vec::new();
        for row in found {
            if let Some(known) = self.lane(row.get(0)) {
                keys.push((known.queue, row.get::<_, &str>(1).into()));
            }
        }
        self.lock_keys(keys).await?;
        self.load(ids).await
    }

    /// Takes tasks in hand that are there, waiting for others to let go of them.
    pub(super) async fn load(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        for _ in 0..LOOKS {
            let wanted = self.missing(ids);
            if wanted.is_empty() {
                break;
            }
            let sql = "SELECT id, lane, bytes, spec FROM task WHERE id = ANY($1)
                       ORDER BY id FOR UPDATE";
            let live = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
            self.take_live(&live).await?;
            let wanted = self.missing(ids);
            if wanted.is_empty() {
                break;
            }
            let sql = "SELECT id, lane, bytes, spec, record, state FROM history WHERE id = ANY($1)
                       ORDER BY id FOR UPDATE";
            let ended = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
            self.shared.lanes.meet(self.transaction, ended.iter().map(|row| row.get(1))).await?;
            for row in &ended {
                let state = rows::state(row.get(5))?;
                self.take(row, Home::History(state), row.get(4), LeaseRow::default())?;
            }
            if ended.len() == wanted.len() || live.is_empty() && ended.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Takes rows of `task` in hand that are locked: id, lane, bytes, spec and perhaps a payload.
    pub(super) async fn take_live(&mut self, live: &[Row]) -> Result<(), Fault> {
        if live.is_empty() {
            return Ok(());
        }
        self.shared.lanes.meet(self.transaction, live.iter().map(|row| row.get(1))).await?;
        let ids: Vec<Uuid> = live.iter().map(|row| row.get(0)).collect();
        let standings = self.transaction.query(STANDINGS, &[(&ids, Type::UUID_ARRAY)]).await?;
        let mut by_id: hashbrown::HashMap<Uuid, &Row> =
            standings.iter().map(|row| (row.get(0), row)).collect();
        for row in live {
            let id: Uuid = row.get(0);
            let Some(standing) = by_id.remove(&id) else {
                return Err(rows::corrupt(id, "neither pending nor waiting nor leased"));
            };
            let home = match standing.get::<_, i16>(1) {
                0 => Home::Pend,
                1 => Home::Wait,
                _ => Home::Lease,
            };
            let lease = LeaseRow {
                since: standing.get(3),
                ends_at: time(standing.get(4)),
                limit_at: time(standing.get(5)),
                renewals: standing.get(6),
                renewed_until: time(standing.get(7)),
            };
            self.take(row, home, standing.get(2), lease)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        row: &Row,
        home: Home,
        record: Option<&[u8]>,
        lease: LeaseRow,
    ) -> Result<(), Fault> {
        let (id, lane): (Uuid, i32) = (row.get(0), row.get(1));
        let known = self.lane(lane);
        let queue = known.as_ref().map_or(0, |known| known.queue);
        let loaded = rows::unpack(id, known, row.get(3), record)?;
        if Home::of(&loaded.task.state) != home {
            return Err(rows::corrupt(id, "not where a task of its state is"));
        }
        let subject = Subject {
            task: loaded.task,
            lane,
            queue,
            bytes: row.get(2),
            digest: loaded.digest,
            home,
            lease,
            payload: None,
            result: None,
            entries: Vec::new(),
            is_changed: false,
            is_discarded: false,
        };
        self.work.insert(subject.task.id, subject);
        Ok(())
    }

    fn missing(&self, ids: &[TaskId]) -> Vec<Uuid> {
        let mut missing: Vec<Uuid> = ids
            .iter()
            .filter(|id| !self.work.contains_key(*id))
            .map(|id| rows::uuid(*id))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The states of tasks as they are right now, without taking them in hand; and their digests.
    pub(super) async fn peek(
        &mut self,
        ids: &[TaskId],
    ) -> Result<Vec<(TaskId, StateName, Option<tasklane_core::Digest>)>, Fault> {
        let wanted = rows::uuids(ids);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT t.id, t.lane, t.spec, coalesce(p.record, w.record, l.record)
                   FROM task t LEFT JOIN pend p USING (id) LEFT JOIN wait w USING (id)
                   LEFT JOIN lease l USING (id) WHERE t.id = ANY($1)
                   UNION ALL
                   SELECT id, lane, spec, record FROM history WHERE id = ANY($1)";
        let found = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(1))).await?;
        let mut known = Vec::new();
        for row in found {
            let loaded = rows::unpack(row.get(0), self.lane(row.get(1)), row.get(2), row.get(3))?;
            known.push((loaded.task.id, loaded.task.state.name(), loaded.digest));
        }
        Ok(known)
    }
}
