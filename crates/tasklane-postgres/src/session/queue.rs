//! Queues, their settings and their lanes.

use hashbrown::HashMap;
use tasklane_core::{Invalid, Lane, Problem, QueueName, QueueSettings, limits};
use tasklane_store::{QueueChange, StoreError, Subject, codec};
use tokio_postgres::types::Type;

use super::{Session, Woken};
use crate::fault::Fault;
use crate::lanes::Known;

impl Session<'_> {
    pub(crate) async fn configure(
        &mut self,
        queue: &QueueName,
        settings: &QueueSettings,
    ) -> Result<Result<(), StoreError>, Fault> {
        let sql = "SELECT settings, queue FROM queue WHERE name = $1 FOR UPDATE";
        let found = self.transaction.query(sql, &[(&queue.as_str(), Type::TEXT)]).await?;
        let mut before = QueueSettings::default();
        match found.first() {
            Some(row) => before = codec::decode_queue(row.get(0))?,
            None => {
                let count = self.transaction.one("SELECT count(*) FROM queue", &[]).await?;
                if count.get::<_, i64>(0) >= limits::LANES_MAX as i64 {
                    let max = limits::LANES_MAX;
                    return Ok(Err(Invalid::new("queues", Problem::TooMany { max }).into()));
                }
                self.make_queues(&[queue]).await?;
            }
        }
        let sql = "UPDATE queue SET settings = $1 WHERE name = $2 RETURNING queue";
        let packed = codec::encode_queue(settings);
        let parameters = [(&packed as _, Type::BYTEA), (&queue.as_str() as _, Type::TEXT)];
        let number: i32 = self.transaction.one(sql, &parameters).await?.get(0);
        let change = match (before.paused, settings.paused) {
            (false, true) => QueueChange::Paused,
            (true, false) => QueueChange::Resumed,
            _ => QueueChange::Updated,
        };
        self.announce(&Subject::Queue(queue.clone(), change));
        if !settings.paused {
            let sql = "SELECT count(*) FROM pend WHERE queue = $1";
            let pending = self.transaction.one(sql, &[(&number, Type::INT4)]).await?;
            let pending = u64::try_from(pending.get::<_, i64>(0)).unwrap_or_default();
            self.outcome.claimable += if before.paused { pending } else { 1 };
            self.outcome.woken = Woken::Anywhere;
        }
        Ok(Ok(()))
    }

    pub(crate) async fn announce_purge(&mut self, queues: &[QueueName]) -> Result<(), Fault> {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let sql = "SELECT name FROM queue WHERE name = ANY($1)";
        let found = self.transaction.query(sql, &[(&names, Type::TEXT_ARRAY)]).await?;
        let known: Vec<&str> = found.iter().map(|row| row.get(0)).collect();
        for queue in queues.iter().filter(|queue| known.contains(&queue.as_str())) {
            self.announce(&Subject::Queue(queue.clone(), QueueChange::Purged));
        }
        Ok(())
    }

    async fn make_queues(&self, names: &[&QueueName]) -> Result<(), Fault> {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let plain = codec::encode_queue(&QueueSettings::default());
        let sql = "INSERT INTO queue(name, settings)
                   SELECT name, $2 FROM unnest($1) WITH ORDINALITY AS new(name, place)
                   WHERE NOT EXISTS (SELECT 1 FROM queue q WHERE q.name = new.name COLLATE \"C\")
                   ORDER BY place ON CONFLICT DO NOTHING";
        let parameters = [(&names as _, Type::TEXT_ARRAY), (&plain as _, Type::BYTEA)];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }

    /// How many lanes there are; exactly where so many more would be too many. Numbers have gaps.
    pub(super) async fn lane_count(&self, more: usize) -> Result<usize, Fault> {
        let most = self.transaction.one("SELECT coalesce(max(lane), 0) FROM lane", &[]).await?;
        let most = usize::try_from(most.get::<_, i32>(0)).unwrap_or_default();
        if most + more <= limits::LANES_MAX {
            return Ok(most);
        }
        let count = self.transaction.one("SELECT count(*) FROM lane", &[]).await?;
        Ok(usize::try_from(count.get::<_, i64>(0)).unwrap_or_default())
    }

    /// These lanes with their numbers; makes those that are not there, and their queues.
    pub(super) async fn lanes_for<'l>(
        &mut self,
        lanes: impl Iterator<Item = &'l Lane>,
    ) -> Result<HashMap<Lane, Known>, Fault> {
        let mut found = HashMap::new();
        let mut new: Vec<&Lane> = Vec::new();
        let mut seen = hashbrown::HashSet::new();
        for lane in lanes.filter(|lane| seen.insert(*lane)) {
            match self.shared.lanes.find(lane) {
                Some(known) => {
                    found.insert(lane.clone(), known);
                }
                None => new.push(lane),
            }
        }
        if new.is_empty() {
            return Ok(found);
        }
        let mut queues: Vec<&QueueName> = Vec::new();
        for lane in &new {
            if !queues.contains(&&lane.queue) {
                queues.push(&lane.queue);
            }
        }
        self.make_queues(&queues).await?;
        let names: Vec<&str> = new.iter().map(|lane| lane.queue.as_str()).collect();
        let packed: Vec<Vec<u8>> = new.iter().map(|lane| codec::encode_lane(lane)).collect();
        let parameters = [(&names as _, Type::TEXT_ARRAY), (&packed as _, Type::BYTEA_ARRAY)];
        let sql = "INSERT INTO lane(queue, name)
                   SELECT q.queue, new.name FROM unnest($1, $2) AS new(queue, name)
                   JOIN queue q ON q.name = new.queue COLLATE \"C\" ORDER BY new.name
                   ON CONFLICT DO NOTHING";
        self.transaction.execute(sql, &parameters).await?;
        let sql = "SELECT lane, queue, name FROM lane
                   WHERE sha256(name) IN (SELECT sha256(wanted) FROM unnest($1) AS wanted)";
        for row in self.transaction.query(sql, &[(&packed, Type::BYTEA_ARRAY)]).await? {
            let lane = codec::decode_lane(row.get(2))?;
            let known = Known { number: row.get(0), queue: row.get(1), lane: lane.clone() };
            self.made.insert(known.number, known.clone());
            found.insert(lane, known);
        }
        Ok(found)
    }
}
