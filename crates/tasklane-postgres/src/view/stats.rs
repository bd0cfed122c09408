//! Counters: what was folded and what is still to be.

use std::collections::BTreeMap;

use tasklane_core::{Priority, QueueSettings, StateName, Timestamp};
use tasklane_store::{LaneStats, QueueState, Stats, codec};
use tokio_postgres::types::Type;

use super::View;
use crate::fault::Fault;
use crate::lanes::queue_name;
use crate::rows::{self, time};
use crate::session::{FRONTS, WAITING};

/// Starving tasks counted in one lane and priority at most.
const STARVING_MAX: i64 = 500;

impl View<'_> {
    pub(crate) async fn stats(&self, now: Timestamp) -> Result<Stats, Fault> {
        let sql = "SELECT lane, priority, state, sum(count)::int8 FROM (
                       SELECT lane, priority, state, count FROM tally
                       UNION ALL SELECT lane, priority, state, change FROM delta) c
                   GROUP BY lane, priority, state HAVING sum(count) <> 0";
        let found = self.transaction.query(sql, &[]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(0))).await?;
        let mut lanes: BTreeMap<(i32, Priority), LaneStats> = BTreeMap::new();
        for row in found {
            let (lane, priority) = (row.get(0), rows::priority(row.get(1))?);
            let Some(known) = self.shared.lanes.get(lane) else { continue };
            let stats = lanes.entry((lane, priority)).or_insert(LaneStats {
                lane: known.lane,
                priority,
                counts: [0; StateName::COUNT],
                oldest_ready_at: None,
                starving: 0,
            });
            let state = rows::state(row.get(2))?;
            if let Some(count) = stats.counts.get_mut(state.index()) {
                *count = u64::try_from(row.get::<_, i64>(3)).unwrap_or_default();
            }
        }
        self.fronts(now, &mut lanes).await?;
        Ok(Stats { now, lanes: lanes.into_values().collect() })
    }

    /// The oldest of each line, and how many there have waited too long.
    async fn fronts(
        &self,
        now: Timestamp,
        lanes: &mut BTreeMap<(i32, Priority), LaneStats>,
    ) -> Result<(), Fault> {
        let fronts = self.transaction.query(FRONTS, &[]).await?;
        let settings = self.settings().await?;
        let (mut queues, mut priorities, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut starving_before = Vec::new();
        for row in fronts {
            let (queue, number): (i32, i16) = (row.get(0), row.get(1));
            let priority = rows::priority(number)?;
            let order = settings.get(&queue).map(|settings| settings.order).unwrap_or_default();
            let before = order.starves_after(priority).map(|after| now.minus(after).as_micros());
            queues.push(queue);
            priorities.push(number);
            numbers.push(row.get::<_, i32>(2));
            starving_before.push(before.unwrap_or(i64::MIN));
        }
        let sql = "SELECT f.lane, f.priority, oldest.ready_at, starving.count
                   FROM unnest($1, $2, $3, $4) AS f(queue, priority, lane, before)
                   CROSS JOIN LATERAL (
                       SELECT p.ready_at FROM pend p
                       WHERE p.queue = f.queue AND p.priority = f.priority AND p.lane = f.lane
                       ORDER BY p.ready_at, p.sequence LIMIT 1) oldest
                   CROSS JOIN LATERAL (
                       SELECT count(*) FROM (
                           SELECT 1 FROM pend p
                           WHERE p.queue = f.queue AND p.priority = f.priority AND p.lane = f.lane
                           AND p.ready_at < f.before LIMIT $5) few) starving";
        let parameters = [
            (&queues as _, Type::INT4_ARRAY),
            (&priorities as _, Type::INT2_ARRAY),
            (&numbers as _, Type::INT4_ARRAY),
            (&starving_before as _, Type::INT8_ARRAY),
            (&STARVING_MAX as _, Type::INT8),
        ];
        for row in self.transaction.query(sql, &parameters).await? {
            let key = (row.get(0), rows::priority(row.get(1))?);
            if let Some(stats) = lanes.get_mut(&key) {
                stats.oldest_ready_at = Some(time(row.get(2)));
                stats.starving = u64::try_from(row.get::<_, i64>(3)).unwrap_or_default();
            }
        }
        Ok(())
    }

    async fn settings(&self) -> Result<BTreeMap<i32, QueueSettings>, Fault> {
        let found = self.transaction.query("SELECT queue, settings FROM queue", &[]).await?;
        let settings = found.iter().map(|row| Ok((row.get(0), codec::decode_queue(row.get(1))?)));
        settings.collect()
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueState>, Fault> {
        let sql = format!(
            "SELECT q.name, q.settings, coalesce(d.count, 0) + coalesce(x.change, 0)::int8
             FROM queue q LEFT JOIN depth d USING (queue)
             LEFT JOIN (SELECT queue, sum(change) AS change FROM delta
                        WHERE state IN {WAITING} GROUP BY queue) x USING (queue)
             ORDER BY q.queue"
        );
        let mut queues = Vec::new();
        for row in self.transaction.query(&sql, &[]).await? {
            queues.push(QueueState {
                queue: queue_name(row.get(0))?,
                settings: codec::decode_queue(row.get(1))?,
                depth: u64::try_from(row.get::<_, i64>(2)).unwrap_or_default(),
            });
        }
        Ok(queues)
    }
}
