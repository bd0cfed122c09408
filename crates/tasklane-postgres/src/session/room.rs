//! Whether queues have room for what comes.

use hashbrown::HashMap;
use tasklane_core::{Draft, QueueName};
use tasklane_store::codec;
use tokio_postgres::types::Type;

use super::Session;
use super::submit::Measure;
use crate::fault::Fault;
use crate::lanes::queue_name;

/// Tasks in these states count towards a queue's depth.
pub(crate) const WAITING: &str = "(0, 1, 2, 5)";
pub(super) const IS_WAITING: [u8; 4] = [0, 1, 2, 5];

impl Session<'_> {
    /// How deep queues are. While there is plenty of room nobody has to ask.
    pub(super) async fn measure(
        &self,
        drafts: impl Iterator<Item = &Draft>,
        known: &mut Measure,
    ) -> Result<(), Fault> {
        let mut coming: HashMap<&QueueName, (u64, Option<i32>)> = HashMap::new();
        for draft in drafts {
            let lane = &draft.spec.lane;
            let queue = coming.entry(&lane.queue);
            let (count, _) =
                queue.or_insert_with(|| (0, self.shared.lanes.find(lane).map(|known| known.queue)));
            *count += 1;
        }
        coming.retain(|name, (count, number)| {
            let settings = number.and_then(|number| self.shared.gauges.take(number, *count));
            if let Some(settings) = settings {
                known.queues.insert((*name).clone(), (0, settings));
            }
            settings.is_none()
        });
        if coming.is_empty() {
            return Ok(());
        }
        let queues: Vec<&str> = coming.keys().map(|name| name.as_str()).collect();
        let sql = format!(
            "SELECT q.name, q.settings, coalesce(d.count, 0) + coalesce(x.change, 0)::int8, q.queue
             FROM queue q LEFT JOIN depth d USING (queue)
             LEFT JOIN (SELECT queue, sum(change) AS change FROM delta
                        WHERE number > $2 AND state IN {WAITING} GROUP BY queue) x USING (queue)
             WHERE q.name = ANY($1)"
        );
        let counted = self.shared.numbered.floor();
        let parameters = [(&queues as _, Type::TEXT_ARRAY), (&counted as _, Type::INT8)];
        for row in self.transaction.query(&sql, &parameters).await? {
            let depth = u64::try_from(row.get::<_, i64>(2)).unwrap_or_default();
            let settings = codec::decode_queue(row.get(1))?;
            let name = queue_name(row.get(0))?;
            let coming = coming.get(&name).map_or(0, |(count, _)| *count);
            let note = || self.shared.gauges.note(row.get(3), depth, coming, settings);
            self.shared.timeline.remember(self.transaction.timeline, note);
            known.queues.insert(name, (depth, settings));
        }
        Ok(())
    }
}
