//! Single tasks, workers, keys and records.

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::{
    ApiKey, AuditRecord, Health, TaskId, Timestamp, Worker, WorkerId, limits, trail,
};
use tasklane_store::{AuditFrom, StoredTask, Trail, codec};

use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::session::{WorkerSlot, held_count_read, unpack_health};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stored::{Payload, Renewed, Stored};
use crate::value;

impl Shared {
    pub(crate) async fn get(&self, ids: &[TaskId]) -> Result<Vec<Option<StoredTask>>, Fault> {
        let tasks = self.tasks(ids, true).await?;
        Ok(tasks.into_iter().map(|found| found.map(|(_, stored)| stored)).collect())
    }

    /// Tasks as they are, in order; with their bodies if asked for.
    pub(super) async fn tasks(
        &self,
        ids: &[TaskId],
        bodies: bool,
    ) -> Result<Vec<Option<(Stored, StoredTask)>>, Fault> {
        let field = |id: &TaskId, key: Key| Read::Field(key, id.as_bytes().to_vec());
        let reads = ids.iter().flat_map(|id| [Key::Task, Key::Record].map(|key| field(id, key)));
        let (snapshot, catalog) = self.look(reads.collect()).await?;
        let mut found = Vec::with_capacity(ids.len());
        let mut apart = Vec::new();
        for id in ids {
            let Some(task) = read(&snapshot, &Key::Task, id) else {
                found.push(None);
                continue;
            };
            let record = read(&snapshot, &Key::Record, id);
            let stored = Stored::unpack(*id, &task, record.as_ref(), &catalog)?;
            let payload = match &stored.payload {
                Payload::Inline(bytes) if bodies => bytes.clone(),
                _ => Bytes::new(),
            };
            if bodies && matches!(stored.payload, Payload::Apart(_)) {
                apart.push(field(id, Key::Payload));
            }
            if bodies && stored.result.is_apart() {
                apart.push(field(id, Key::Outcome));
            }
            let result = stored.result.or_read(|| None).filter(|_| bodies);
            let shown = StoredTask { task: stored.task.clone(), payload, result };
            found.push(Some((stored, shown)));
        }
        if !apart.is_empty() {
            let (snapshot, _) = self.look(apart).await?;
            add_apart(&mut found, &snapshot);
        }
        Ok(found)
    }

    pub(crate) async fn trail(&self, id: TaskId) -> Result<Option<Trail>, Fault> {
        let field = |key| Read::Field(key, id.as_bytes().to_vec());
        let reads = vec![field(Key::Task), field(Key::Record), field(Key::Trail)];
        let (snapshot, catalog) = self.look(reads).await?;
        let Some(packed) = read(&snapshot, &Key::Task, &id) else { return Ok(None) };
        let record = read(&snapshot, &Key::Record, &id);
        let admitted = Stored::unpack_task(id, &packed, &catalog)?.task;
        let stored = Stored::unpack(id, &packed, record.as_ref(), &catalog)?;
        let entries = stored.entries.or_read(|| read(&snapshot, &Key::Trail, &id));
        let entries = crate::trail::unpack(entries)?;
        let entries = trail::whole(&stored.task, entries);
        Ok(Some(Trail { task: stored.task, admitted, entries, cut: stored.cut }))
    }

    /// When the lease of a task ends, unless it is renewed.
    pub(crate) async fn lease_ends(&self, id: TaskId) -> Result<Option<Timestamp>, Fault> {
        let field = |key, of: &[u8]| Read::Field(key, of.to_vec());
        let mut reads = [Key::Task, Key::Record].map(|key| field(key, id.as_bytes())).to_vec();
        loop {
            let (snapshot, catalog) = self.look(reads.clone()).await?;
            let Some(packed) = read(&snapshot, &Key::Task, &id) else { return Ok(None) };
            let record = read(&snapshot, &Key::Record, &id);
            let stored = Stored::unpack(id, &packed, record.as_ref(), &catalog)?;
            let Some(lease) = stored.task.state.lease() else { return Ok(None) };
            let worker = lease.worker.as_bytes();
            if let Some(with_all) = snapshot.field(&Key::Renewed, worker) {
                let with_all = Renewed::of_worker(with_all.clone())?;
                return Ok(Some(stored.renewed.lease_ends(with_all, &self.rules)));
            }
            // Now that it is known who has the task, both at one moment: when a worker leaves, what
            // it has renewed is noted with its tasks.
            reads.push(field(Key::Renewed, worker));
        }
    }

    pub(crate) async fn workers(&self) -> Result<Vec<Worker>, Fault> {
        let workers = Read::plain("HGETALL", Key::Workers, []);
        let alive = Read::plain("ZRANGE", Key::Alive, ["0", "-1", "WITHSCORES"]);
        let health = Read::plain("HGETALL", Key::Health, []);
        let (snapshot, _) = self.look(vec![workers.clone(), alive.clone(), health.clone()]).await?;
        let answer = |read: &Read| snapshot.plain(read).cloned().unwrap_or_default();
        let seen: HashMap<Bytes, i64> =
            value::scored(answer(&alive))?.into_iter().map(|(at, id)| (id, at)).collect();
        let mut healths: HashMap<Bytes, Bytes> =
            value::pairs(answer(&health))?.into_iter().collect();
        let mut shown = Vec::new();
        for (id, packed) in value::pairs(answer(&workers))? {
            let Ok(bytes) = <[u8; 16]>::try_from(id.as_ref()) else {
                return Err(Fault::Corrupt("a worker's id is not one".into()));
            };
            let slot = WorkerSlot::unpack(packed)?;
            let seen_at = seen.get(&id).map_or(slot.seen_at, |at| Timestamp::from_micros(*at));
            let health = healths.remove(&id).map(unpack_health).transpose()?;
            shown.push(Worker {
                id: WorkerId::from_bytes(bytes),
                spec: slot.spec,
                state: slot.state,
                registered_at: slot.registered_at,
                seen_at,
                leases: 0,
                health: health.unwrap_or_else(Health::default),
            });
        }
        let count = |worker: &Worker| held_count_read(worker.id);
        let (snapshot, _) = self.look(shown.iter().map(count).collect()).await?;
        for worker in &mut shown {
            let leases = snapshot.plain(&count(worker)).cloned().unwrap_or_default();
            worker.leases = u32::try_from(value::integer(leases)?).unwrap_or_default();
        }
        shown.sort_unstable_by_key(|worker| worker.id);
        Ok(shown)
    }

    pub(crate) async fn api_keys(&self) -> Result<Vec<ApiKey>, Fault> {
        let read = Read::plain("HGETALL", Key::ApiKeys, []);
        let (snapshot, _) = self.look(vec![read.clone()]).await?;
        let mut keys = Vec::new();
        for (_, packed) in value::pairs(snapshot.plain(&read).cloned().unwrap_or_default())? {
            keys.push(codec::decode_api_key(&packed)?);
        }
        keys.sort_unstable_by_key(|key| key.id);
        Ok(keys)
    }

    pub(crate) async fn audit(
        &self,
        from: AuditFrom,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, Fault> {
        let limit = limit.clamp(1, limits::PAGE_MAX).to_string();
        let read = match from {
            AuditFrom::After(number) => {
                let from = format!("{}-0", number.saturating_add(1));
                Read::plain("XRANGE", Key::Audit, [&from, "+", "COUNT", &limit])
            }
            AuditFrom::Before(0) => return Ok(Vec::new()),
            AuditFrom::Before(number) => {
                let to = format!("{}-0", number - 1);
                Read::plain("XREVRANGE", Key::Audit, [&to, "-", "COUNT", &limit])
            }
            AuditFrom::Newest => Read::plain("XREVRANGE", Key::Audit, ["+", "-", "COUNT", &limit]),
        };
        let (snapshot, _) = self.look(vec![read.clone()]).await?;
        let mut records = Vec::new();
        for packed in value::entries(snapshot.plain(&read).cloned().unwrap_or_default())? {
            records.push(codec::decode_audit(&packed)?);
        }
        Ok(records)
    }
}

fn read(snapshot: &Snapshot, key: &Key, id: &TaskId) -> Option<Bytes> {
    snapshot.field(key, id.as_bytes()).cloned().flatten()
}

/// Bodies that were kept apart. Who lacks one was removed between the two looks.
fn add_apart(found: &mut [Option<(Stored, StoredTask)>], snapshot: &Snapshot) {
    for slot in found {
        let Some((stored, shown)) = slot else { continue };
        let id = shown.task.id;
        let mut is_gone = false;
        if matches!(stored.payload, Payload::Apart(_)) {
            let payload = read(snapshot, &Key::Payload, &id);
            is_gone |= payload.is_none();
            shown.payload = payload.unwrap_or_default();
        }
        if stored.result.is_apart() {
            shown.result = read(snapshot, &Key::Outcome, &id);
            is_gone |= shown.result.is_none();
        }
        if is_gone {
            *slot = None;
        }
    }
}
