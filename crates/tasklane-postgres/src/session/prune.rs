//! Removing what has been kept long enough, a slice at a time.

use tasklane_core::{Retention, StateName, limits};
use tasklane_store::{Prune, Pruned, codec};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use crate::fault::Fault;
use crate::rows;

/// Feed rows, idempotency records and the like removed in one slice.
const ROWS_MAX: i64 = 1_000;

/// Which queues are meant by a look at what has ended.
struct Queues {
    /// These, or all but these.
    only: bool,
    numbers: Vec<i32>,
    retention: Retention,
}

impl Session<'_> {
    pub(crate) async fn prune(&mut self, prune: &Prune) -> Result<Pruned, Fault> {
        let mut pruned = Pruned::default();
        self.prune_tasks(prune, &mut pruned).await?;
        self.prune_events(prune, &mut pruned).await?;
        self.prune_idempotency(prune, &mut pruned).await?;
        self.prune_workers(prune, &mut pruned).await?;
        self.prune_api_keys(prune, &mut pruned).await?;
        self.prune_audit(prune, &mut pruned).await?;
        Ok(pruned)
    }

    async fn prune_tasks(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let mut room = prune.limit.min(limits::SLICE_TASKS);
        let groups = self.groups(prune).await?;
        for state in StateName::ALL.into_iter().filter(|state| state.is_terminal()) {
            for group in &groups {
                let Some(kept) = group.retention.of(state) else { continue };
                let over = self.now.minus(kept).as_micros();
                let removed = self.prune_group(state, group, over, room, pruned).await?;
                room -= removed;
                if pruned.more {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Queues with settings of their own, each by itself, and all others together.
    async fn groups(&self, prune: &Prune) -> Result<Vec<Queues>, Fault> {
        let mut groups = Vec::new();
        let mut own = Vec::new();
        if !prune.override_queues {
            let sql = "SELECT queue, settings FROM queue ORDER BY queue";
            for row in self.transaction.query(sql, &[]).await? {
                let settings = codec::decode_queue(row.get(1))?;
                if let Some(retention) = settings.retention {
                    let number: i32 = row.get(0);
                    own.push(number);
                    groups.push(Queues { only: true, numbers: vec![number], retention });
                }
            }
        }
        groups.push(Queues { only: false, numbers: own, retention: prune.retention });
        Ok(groups)
    }

    async fn prune_group(
        &mut self,
        state: StateName,
        group: &Queues,
        over: i64,
        room: usize,
        pruned: &mut Pruned,
    ) -> Result<usize, Fault> {
        let queues = if group.only { "= ANY($2)" } else { "<> ALL($2)" };
        // Somebody may be reviving one of them: it is passed over.
        let sql = format!(
            "SELECT id, queue, lane, priority, spec FROM history
             WHERE state = $1 AND queue {queues} AND ended_at <= $3
             ORDER BY ended_at, ended_number LIMIT $4 FOR UPDATE SKIP LOCKED"
        );
        let (number, most) = (state.index() as i16, room as i64 + 1);
        let parameters = [
            (&number as _, Type::INT2),
            (&group.numbers as _, Type::INT4_ARRAY),
            (&over as _, Type::INT8),
            (&most as _, Type::INT8),
        ];
        let found = self.transaction.query(&sql, &parameters).await?;
        pruned.more = found.len() > room;
        let found = found.get(..room.min(found.len())).unwrap_or_default();
        if found.is_empty() {
            return Ok(0);
        }
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(2))).await?;
        let (mut ids, mut keys) = (Vec::new(), (Vec::new(), Vec::new(), Vec::new()));
        for row in found {
            let (id, queue, lane): (Uuid, i32, i32) = (row.get(0), row.get(1), row.get(2));
            ids.push(id);
            let loaded = rows::unpack(id, self.lane(lane), row.get(4), None)?;
            if let Some(key) = &loaded.task.spec.idempotency_key {
                keys.0.push(queue);
                keys.1.push(key.as_str().to_owned());
                keys.2.push(id);
            }
            self.count(queue, lane, rows::priority(row.get(3))?, state, -1);
        }
        if let Some(count) = pruned.tasks.get_mut(state.index()) {
            *count += ids.len() as u64;
        }
        if !keys.0.is_empty() {
            let sql = "UPDATE idempotency i SET ended = $4
                       FROM unnest($1, $2, $3) AS gone(queue, key, id)
                       WHERE i.queue = gone.queue AND i.key = gone.key COLLATE \"C\"
                       AND i.id = gone.id AND i.ended IS NULL";
            let parameters = [
                (&keys.0 as _, Type::INT4_ARRAY),
                (&keys.1 as _, Type::TEXT_ARRAY),
                (&keys.2 as _, Type::UUID_ARRAY),
                (&number as _, Type::INT2),
            ];
            self.transaction.execute(sql, &parameters).await?;
        }
        for sql in [
            "DELETE FROM history WHERE id = ANY($1)",
            "DELETE FROM body WHERE id = ANY($1)",
            "DELETE FROM trail WHERE id = ANY($1)",
        ] {
            self.transaction.execute(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        }
        Ok(ids.len())
    }

    /// From the old end on, as long as each write is too old or too many; the newest stays.
    async fn prune_events(&self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let old = self.now.minus(prune.events_for).as_micros();
        let kept = i64::try_from(prune.events_max).unwrap_or(i64::MAX);
        let sql = "SELECT first, count, at <= $1 OR first <= (SELECT value FROM meta WHERE name = 'head') - $2
                   FROM feed WHERE first < (SELECT max(first) FROM feed) ORDER BY first LIMIT $3";
        let most = ROWS_MAX + 1;
        let parameters =
            [(&old as _, Type::INT8), (&kept as _, Type::INT8), (&most as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        let mut over = found.iter().take_while(|row| row.get(2));
        let mut last = None;
        for row in over.by_ref().take(ROWS_MAX as usize) {
            last = Some(row.get::<_, i64>(0));
            pruned.events += u64::try_from(row.get::<_, i32>(1)).unwrap_or_default();
        }
        pruned.more |= over.next().is_some();
        if let Some(last) = last {
            let sql = "DELETE FROM feed WHERE first <= $1";
            self.transaction.execute(sql, &[(&last, Type::INT8)]).await?;
        }
        Ok(())
    }

    /// Records stay as long as their task lives.
    async fn prune_idempotency(&self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let before = self.now.minus(prune.idempotency_for).as_micros();
        let sql = "DELETE FROM idempotency WHERE (queue, key) IN (
                       SELECT i.queue, i.key FROM idempotency i
                       WHERE i.created_at <= $1
                       AND NOT EXISTS (SELECT 1 FROM task t WHERE t.id = i.id) LIMIT $2)";
        let parameters = [(&before as _, Type::INT8), (&ROWS_MAX as _, Type::INT8)];
        let removed = self.transaction.execute(sql, &parameters).await?;
        pruned.idempotency_records = removed;
        pruned.more |= removed == ROWS_MAX.unsigned_abs();
        Ok(())
    }

    async fn prune_workers(&self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let before = self.now.minus(prune.workers_for).as_micros();
        let sql = "SELECT worker FROM worker WHERE state = 4 AND changed_at <= $1
                   ORDER BY worker LIMIT $2 FOR UPDATE SKIP LOCKED";
        let parameters = [(&before as _, Type::INT8), (&ROWS_MAX as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        let over: Vec<Uuid> = found.iter().map(|row| row.get(0)).collect();
        if !over.is_empty() {
            self.remove_workers(&over).await?;
        }
        pruned.workers = over.len() as u64;
        pruned.more |= over.len() as i64 == ROWS_MAX;
        Ok(())
    }

    /// One always stays: a store that had keys must not be taken for one that needs none.
    async fn prune_api_keys(&self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let over = self.now.minus(prune.api_keys_for).as_micros();
        let some = "SELECT 1 FROM api_key WHERE ends_at <= $1 LIMIT 1";
        if self.transaction.query(some, &[(&over, Type::INT8)]).await?.is_empty() {
            return Ok(());
        }
        self.lock_api_keys().await?;
        let sql = "DELETE FROM api_key WHERE ends_at <= $1 AND (
                       EXISTS (SELECT 1 FROM api_key k WHERE k.ends_at IS NULL OR k.ends_at > $1)
                       OR id <> (SELECT k.id FROM api_key k ORDER BY k.id DESC LIMIT 1))";
        pruned.api_keys = self.transaction.execute(sql, &[(&over, Type::INT8)]).await?;
        Ok(())
    }

    /// From the old end on, as long as each is too old or too many; the newest stays.
    async fn prune_audit(&self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let over = self.now.minus(prune.audit_for).as_micros();
        let kept = i64::try_from(prune.audit_max).unwrap_or(i64::MAX);
        let sql = "SELECT number, at <= $1 OR number <= (SELECT max(number) FROM audit) - $2
                   FROM audit WHERE number < (SELECT max(number) FROM audit)
                   ORDER BY number LIMIT $3";
        let most = ROWS_MAX + 1;
        let parameters =
            [(&over as _, Type::INT8), (&kept as _, Type::INT8), (&most as _, Type::INT8)];
        let found = self.transaction.query(sql, &parameters).await?;
        let mut gone = found.iter().take_while(|row| row.get(1));
        let last = gone.by_ref().take(ROWS_MAX as usize).last().map(|row| row.get::<_, i64>(0));
        pruned.more |= gone.next().is_some();
        if let Some(last) = last {
            self.lock_audit().await?;
            let sql = "DELETE FROM audit WHERE number <= $1";
            pruned.audit_records = self.transaction.execute(sql, &[(&last, Type::INT8)]).await?;
        }
        Ok(())
    }
}
