//! Handing tasks to workers, in the order of S8.
//!
//! The fronts of lines are read without locks, core's order chooses among them, and what is chosen
//! is locked, passing over what another transaction holds: never more rows than are handed out.

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{Intent, State, TaskId, WorkerId, WorkerSpec, WorkerState, limits};
use tasklane_store::{ClaimRequest, Claimed, WorkerRefusal, codec};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::front::selection;
use crate::chooser::{Chooser, Head};
use crate::fault::Fault;
use crate::rows::{self, worker_id, worker_uuid};

/// Tasks that are too late, met in one look ahead.
const EXPIRED_AT_ONCE: usize = limits::SLICE_TASKS;

/// A worker as claims see it.
pub(crate) struct Claimer {
    pub(super) spec: WorkerSpec,
    pub(super) state: WorkerState,
    leases: usize,
    renewals: i64,
}

impl Session<'_> {
    pub(crate) async fn claim(
        &mut self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Result<Vec<TaskId>, WorkerRefusal>>, Fault> {
        let ids: Vec<WorkerId> = requests.iter().map(|request| request.worker).collect();
        let mut claimers = self.hear(&ids).await?;
        let mut chooser = self.chooser(requests, &claimers).await?;
        let mut bytes = 0;
        let mut verdicts = Vec::with_capacity(requests.len());
        for request in requests {
            verdicts.push(match claimers.get_mut(&request.worker) {
                None => Err(WorkerRefusal::Gone),
                Some(claimer) => {
                    let claimed =
                        self.claim_one(request, claimer, &mut chooser, &mut bytes).await?;
                    claimer.leases += claimed.len();
                    Ok(claimed)
                }
            });
        }
        self.outcome.rotation = Some(chooser.rotation);
        Ok(verdicts)
    }

    /// Tasks as they are handed out: once written, with their numbers.
    pub(crate) fn handed(&self, ids: &[TaskId]) -> Result<Vec<Claimed>, Fault> {
        let handed = ids.iter().map(|id| {
            let subject = self.subject(*id)?;
            let mut task = subject.task.clone();
            self.renumber(&mut task);
            let payload = subject.payload.clone().unwrap_or_default();
            Ok(Claimed { task, payload, lease: self.shared.rules.lease })
        });
        handed.collect()
    }

    /// Locks workers that are known and not dead, and notes a sign of life. Their leases are
    /// counted after that, so that claims under way together do not share room.
    pub(crate) async fn hear(
        &mut self,
        ids: &[WorkerId],
    ) -> Result<HashMap<WorkerId, Claimer>, Fault> {
        let mut wanted: Vec<Uuid> = ids.iter().map(|id| worker_uuid(*id)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let sql = "SELECT worker, record FROM worker WHERE worker = ANY($1)
                   ORDER BY worker FOR NO KEY UPDATE";
        let found = self.transaction.query(sql, &[(&wanted, Type::UUID_ARRAY)]).await?;
        let mut claimers = HashMap::new();
        for row in found {
            let (spec, state) = codec::decode_worker(row.get(1))?;
            if state != WorkerState::Dead {
                let claimer = Claimer { spec, state, leases: 0, renewals: 0 };
                claimers.insert(worker_id(row.get(0)), claimer);
            }
        }
        let alive: Vec<Uuid> = claimers.keys().map(|id| worker_uuid(*id)).collect();
        let now = self.now.as_micros();
        let sql = "WITH locked AS (
                SELECT worker FROM alive WHERE worker = ANY($1) ORDER BY worker FOR UPDATE
            )
            UPDATE alive SET seen_at = $2 FROM locked WHERE alive.worker = locked.worker
            RETURNING alive.worker, alive.renewals";
        let parameters = [(&alive as _, Type::UUID_ARRAY), (&now as _, Type::INT8)];
        for row in self.transaction.query(sql, &parameters).await? {
            if let Some(claimer) = claimers.get_mut(&worker_id(row.get(0))) {
                claimer.renewals = row.get(1);
            }
        }
        let sql = "SELECT worker, count(*) FROM lease WHERE worker = ANY($1) GROUP BY worker";
        for row in self.transaction.query(sql, &[(&alive, Type::UUID_ARRAY)]).await? {
            if let Some(claimer) = claimers.get_mut(&worker_id(row.get(0))) {
                claimer.leases = usize::try_from(row.get::<_, i64>(1)).unwrap_or_default();
            }
        }
        Ok(claimers)
    }

    async fn claim_one(
        &mut self,
        request: &ClaimRequest,
        claimer: &Claimer,
        chooser: &mut Chooser,
        bytes: &mut usize,
    ) -> Result<Vec<TaskId>, Fault> {
        if claimer.state != WorkerState::Active {
            return Ok(Vec::new());
        }
        let free = (claimer.spec.capacity as usize).saturating_sub(claimer.leases);
        let wanted = request.count.min(free).min(limits::CLAIM_TASKS_MAX);
        let selection = selection(&claimer.spec, request.narrowed.as_ref());
        let mut taken = self.taken(&selection, chooser);
        let worker = request.worker;
        let mut claimed: Vec<TaskId> = Vec::new();
        let mut set_aside = Vec::new();
        while claimed.len() < wanted && (claimed.is_empty() || *bytes < limits::CLAIM_BYTES_MAX) {
            let takes = |lane: i32| taken.contains(&lane);
            if let Some(at) = chooser.starved(takes) {
                self.read_on_line(chooser, at, wanted).await?;
                continue;
            }
            let before = (chooser.rotation.clone(), chooser.random.clone());
            let Some(at) = chooser.pick(takes) else { break };
            let Some(head) = chooser.front(at) else { break };
            let is_expired = head.is_expired(self.now);
            if !is_expired && head.is_withheld(worker, self.now) {
                chooser.pop(at);
                set_aside.push((at, head));
                continue;
            }
            if !self.is_ready(head.id) {
                (chooser.rotation, chooser.random) = before;
                let room = limits::CLAIM_BYTES_MAX.saturating_sub(*bytes);
                self.look_ahead(chooser, takes, worker, wanted - claimed.len(), room).await?;
                continue;
            }
            chooser.pop(at);
            if is_expired {
                self.expire(head.id, chooser).await?;
                taken = self.taken(&selection, chooser);
            } else if self.hand_over(head.id, request, claimer, chooser)? {
                *bytes += head.bytes;
                claimed.push(head.id);
            }
        }
        for (at, head) in set_aside {
            chooser.put(at, head);
        }
        Ok(claimed)
    }

    /// Locked, and with its payload at hand.
    fn is_ready(&self, id: TaskId) -> bool {
        self.work.get(&id).is_some_and(|subject| subject.payload.is_some())
    }

    /// Locks what will be chosen next. What another transaction holds, or has had since, is
    /// forgotten.
    async fn look_ahead(
        &mut self,
        chooser: &mut Chooser,
        takes: impl Fn(i32) -> bool + Copy,
        worker: WorkerId,
        wanted: usize,
        room: usize,
    ) -> Result<(), Fault> {
        let mut ahead = chooser.clone();
        let (mut claims, mut bytes) = (Vec::new(), 0);
        let mut expired = Vec::new();
        while claims.len() < wanted && expired.len() < EXPIRED_AT_ONCE {
            if !claims.is_empty() && bytes >= room || ahead.starved(takes).is_some() {
                break;
            }
            let Some(head) = ahead.pick(takes).and_then(|at| ahead.pop(at)) else { break };
            if head.is_expired(self.now) {
                expired.push(head.id);
            } else if !head.is_withheld(worker, self.now) {
                bytes += head.bytes;
                claims.push(head.id);
            }
        }
        // Who ends frees others: keys first, then tasks.
        self.lock_keys_of(&expired).await?;
        let wanted: Vec<TaskId> =
            claims.into_iter().chain(expired).filter(|id| !self.is_ready(*id)).collect();
        let sql = "SELECT t.id, t.lane, t.bytes, t.spec, coalesce(t.payload, b.payload)
                   FROM task t LEFT JOIN body b ON b.id = t.id WHERE t.id = ANY($1)
                   ORDER BY t.id FOR UPDATE OF t SKIP LOCKED";
        let ids = rows::uuids(&wanted);
        let locked = self.transaction.query(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        let (new, known): (Vec<Row>, Vec<Row>) = locked.into_iter().partition(|row| {
            rows::task_id(row.get(0)).is_ok_and(|id| !self.work.contains_key(&id))
        });
        self.take_live(&new).await?;
        for row in new.iter().chain(&known) {
            let id = rows::task_id(row.get(0))?;
            if let Some(subject) = self.work.get_mut(&id)
                && matches!(subject.task.state, State::Pending { .. })
            {
                subject.payload = Some(Bytes::copy_from_slice(row.get(4)));
            }
        }
        for id in wanted {
            if !self.is_ready(id) {
                chooser.forget(id);
            }
        }
        Ok(())
    }

    async fn lock_keys_of(&mut self, ids: &[TaskId]) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = "SELECT lane, ordering FROM task WHERE id = ANY($1) AND ordering IS NOT NULL";
        let ids = rows::uuids(ids);
        let found = self.transaction.query(sql, &[(&ids, Type::UUID_ARRAY)]).await?;
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(0))).await?;
        let key = |row: &Row| {
            let known = self.lane(row.get(0))?;
            Some((known.queue, row.get::<_, &str>(1).into()))
        };
        let keys = found.iter().filter_map(key).collect();
        self.lock_keys(keys).await
    }

    /// Says whether the worker has it: another may have had it since the line was read.
    fn hand_over(
        &mut self,
        id: TaskId,
        request: &ClaimRequest,
        claimer: &Claimer,
        chooser: &Chooser,
    ) -> Result<bool, Fault> {
        let subject = self.subject(id)?;
        let order = chooser.queues.get(&subject.queue).map(|settings| settings.order);
        let claim = lifecycle::claim(
            &subject.task,
            request.worker,
            request.auto_start,
            &order.unwrap_or_default(),
            self.now,
            &mut self.random(),
        );
        let Ok(claim) = claim else { return Ok(false) };
        if let Some(promoted) = claim.promoted {
            self.change(id, promoted, None)?;
        }
        if let Some(subject) = self.work.get_mut(&id) {
            subject.lease.renewals = claimer.renewals;
        }
        self.change(id, claim.claimed, None)?;
        Ok(true)
    }

    /// A claim met it before maintenance did. What its end frees may be chosen next.
    async fn expire(&mut self, id: TaskId, chooser: &mut Chooser) -> Result<(), Fault> {
        let moment = Moment {
            now: self.now,
            rules: &self.shared.rules,
            elapsed: Elapsed::default(),
            key_free: false,
        };
        let task = &self.subject(id)?.task;
        let decision = lifecycle::decide(task, &Intent::Expire, &moment, &mut self.random());
        let Ok(Decision::Change(event)) = decision else { return Ok(()) };
        let before = self.changed.len();
        self.happen(id, event, None).await?;
        let freed: Vec<TaskId> = self.changed.iter().skip(before).copied().collect();
        for freed in freed.into_iter().filter(|freed| *freed != id) {
            let subject = self.subject(freed)?;
            if !matches!(subject.task.state, State::Pending { .. }) {
                continue;
            }
            let head = Head {
                id: freed,
                place: subject.task.place,
                expires_at: subject.task.expires_at,
                withheld: None,
                bytes: usize::try_from(subject.bytes).unwrap_or_default(),
            };
            let (queue, lane) = (subject.queue, subject.lane);
            let priority = subject.task.spec.priority;
            let at = chooser.line(queue, lane, priority);
            chooser.put(at, head);
        }
        Ok(())
    }
}
