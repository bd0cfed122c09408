//! Taking tasks in hand: their rows are locked, then read.

use tasklane_core::{Sequence, StateName, TaskId};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::{Home, LeaseRow, Subject};
use crate::fault::Fault;
use crate::rows::{self, time};

/// A task may move on while it is looked for: after so many looks somebody is always faster.
const LOOKS: usize = 8;

impl Session<'_> {
    /// Takes tasks in hand that are there, waiting for others to let go of them. Their ordering
    /// keys are locked first.
    pub(super) async fn load_with_keys(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        self.take_live(ids, false).await?;
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

    /// Takes tasks in hand that are there, waiting for others to let go of them; their keys are
    /// locked.
    pub(super) async fn load(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        for _ in 0..LOOKS {
            self.take_live(ids, true).await?;
            let wanted = self.missing(ids);
            if wanted.is_empty() {
                return Ok(());
            }
            let sql = "SELECT id, lane, bytes, spec, record, state FROM history WHERE id = ANY($1)
                       ORDER BY id FOR UPDATE";
            let ended = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
            self.shared.lanes.meet(self.transaction, ended.iter().map(|row| row.get(1))).await?;
            for row in &ended {
                let state = rows::state(row.get(5))?;
                let (home, lease) = (Home::History(state), LeaseRow::default());
                self.take(row.get(0), row.get(1), row.get(2), row.get(3), home, row.get(4), lease)?;
            }
            let wanted = self.missing(ids);
            let sql = "SELECT 1 FROM task WHERE id = ANY($1) LIMIT 1";
            if wanted.is_empty()
                || self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?.is_empty()
            {
                return Ok(());
            }
        }
        Err(Fault::Overtaken)
    }

    /// Takes live tasks in hand, and draws numbers for what will happen to them.
    async fn take_live(&mut self, ids: &[TaskId], keyed: bool) -> Result<(), Fault> {
        let wanted = self.missing(ids);
        if wanted.is_empty() {
            return Ok(());
        }
        self.numbers.lock();
        let sql = "SELECT * FROM take($1, $2)";
        let parameters = [(&wanted as _, Type::UUID_ARRAY), (&keyed as _, Type::BOOL)];
        let mut live = self.transaction.query(sql, &parameters).await?;
        if let Some(drawn) = live.pop() {
            self.numbers.draw(drawn.get(7));
        }
        self.shared.lanes.meet(self.transaction, live.iter().map(|row| row.get(1))).await?;
        for row in live {
            let home = match row.get::<_, i16>(4) {
                0 => Home::Pend,
                1 => Home::Wait,
                _ => Home::Lease,
            };
            let lease = LeaseRow {
                claimed_at: time(row.get(6)),
                version: Sequence(row.get::<_, i64>(12).unsigned_abs()),
                since: row.get(7),
                ends_at: time(row.get(8)),
                limit_at: time(row.get(9)),
                renewals: row.get(10),
                renewed_until: time(row.get(11)),
            };
            self.take(row.get(0), row.get(1), row.get(2), row.get(3), home, row.get(5), lease)?;
        }
        Ok(())
    }

    /// Takes a task in hand whose rows are locked.
    #[expect(clippy::too_many_arguments, reason = "the columns of a row")]
    pub(super) fn take(
        &mut self,
        id: Uuid,
        lane: i32,
        bytes: i32,
        spec: &[u8],
        home: Home,
        record: Option<&[u8]>,
        lease: LeaseRow,
    ) -> Result<(), Fault> {
        let known = self.lane(lane);
        let queue = known.as_ref().map_or(0, |known| known.queue);
        let loaded = rows::unpack(id, known, spec, record)?;
        if Home::of(&loaded.task.state) != home {
            return Err(rows::corrupt(id, "not where a task of its state is"));
        }
        let subject = Subject {
            task: loaded.task,
            lane,
            queue,
            bytes,
            digest: loaded.digest,
            home,
            lease,
            payload: None,
            result: None,
            entries: Vec::new(),
            guard: None,
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
