//! Admitting tasks. A submission is checked whole before its first row is written.

use hashbrown::HashMap;
use tasklane_core::{
    Digest, Draft, IdempotencyKey, Invalid, Problem, QueueName, QueueSettings, TaskId, lifecycle,
    limits,
};
use tasklane_store::codec::{self, Before};
use tasklane_store::{Submission, SubmitProblem, SubmitRefusal, Submitted};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::{Home, LeaseRow, Subject};
use crate::fault::Fault;
use crate::lanes::{Known, queue_name};
use crate::rows;

type Key = (QueueName, IdempotencyKey);

/// What a task of a submission comes to.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// A new task.
    Admit(TaskId),
    /// The same as one that is stored.
    Stored(Submitted),
    /// The same as one of this call.
    Same(TaskId),
}

/// What the call is measured against: what is stored, and what it has admitted so far.
#[derive(Default)]
pub(super) struct Measure {
    keys: HashMap<Key, (Option<Digest>, Plan)>,
    ids: HashMap<TaskId, (Option<Digest>, Plan)>,
    /// Depth and settings.
    pub(super) queues: HashMap<QueueName, (u64, QueueSettings)>,
    lanes: usize,
}

impl Session<'_> {
    pub(crate) async fn submit(
        &mut self,
        submissions: &[Submission],
    ) -> Result<Vec<Result<Vec<Submitted>, SubmitRefusal>>, Fault> {
        let mut known = self.known(submissions).await?;
        let mut plans = Vec::with_capacity(submissions.len());
        let mut admitted: Vec<(TaskId, &Draft)> = Vec::new();
        for submission in submissions {
            let plan = self.plan(submission, &mut known);
            if let Ok(plan) = &plan {
                for (plan, draft) in plan.iter().zip(&submission.tasks) {
                    if let Plan::Admit(id) = plan {
                        admitted.push((*id, draft));
                    }
                }
            }
            plans.push(plan);
        }
        self.admit_all(&admitted).await?;
        let verdicts = plans.into_iter().map(|plan| Ok(plan.map(|plan| self.answers(&plan))));
        verdicts.collect()
    }

    /// All or nothing: gives what each task comes to, and counts the new ones as there.
    fn plan(
        &self,
        submission: &Submission,
        known: &mut Measure,
    ) -> Result<Vec<Plan>, SubmitRefusal> {
        let max = limits::BATCH_TASKS_MAX;
        if submission.tasks.len() > max {
            let problem = Invalid::new("tasks", Problem::TooMany { max }).into();
            return Err(SubmitRefusal { index: max, problem });
        }
        let mut plans = Vec::with_capacity(submission.tasks.len());
        let mut own = Measure::default();
        for (index, draft) in submission.tasks.iter().enumerate() {
            let refused = |problem| SubmitRefusal { index, problem };
            let plan = self.plan_one(draft, known, &mut own).map_err(refused)?;
            own.note(draft, plan);
            plans.push(plan);
        }
        for (plan, draft) in plans.iter().zip(&submission.tasks) {
            if let Plan::Admit(_) = plan {
                known.note(draft, *plan);
                let queue = known.queues.entry(draft.spec.lane.queue.clone()).or_default();
                queue.0 += 1;
            }
        }
        known.lanes += own.lanes;
        Ok(plans)
    }

    fn plan_one(
        &self,
        draft: &Draft,
        known: &Measure,
        own: &mut Measure,
    ) -> Result<Plan, SubmitProblem> {
        let repeatable = draft.id.is_some() || draft.spec.idempotency_key.is_some();
        if repeatable && draft.digest.is_none() {
            return Err(Invalid::new("digest", Problem::Empty).into());
        }
        let key = draft.spec.idempotency_key.clone();
        let key = key.map(|key| (draft.spec.lane.queue.clone(), key));
        let by_key = |all: &Measure| key.as_ref().and_then(|key| all.keys.get(key).copied());
        let by_id = |all: &Measure| draft.id.as_ref().and_then(|id| all.ids.get(id).copied());
        let before =
            by_key(known).or_else(|| by_key(own)).or_else(|| by_id(known)).or_else(|| by_id(own));
        if let Some((digest, plan)) = before {
            let plan = match plan {
                Plan::Admit(id) => Plan::Same(id),
                plan => plan,
            };
            return if digest == draft.digest { Ok(plan) } else { Err(SubmitProblem::Mismatch) };
        }
        // Not before: a request that is repeated later than its own times is still the same one.
        lifecycle::check_admission(draft, self.now)?;
        let lane = &draft.spec.lane;
        let (depth, settings) = known.queues.get(&lane.queue).copied().unwrap_or_default();
        let (beside, _) = own.queues.entry(lane.queue.clone()).or_default();
        let depth = depth + *beside;
        if depth >= settings.depth.of(draft.spec.priority) {
            let for_all = depth >= settings.depth.all;
            return Err(SubmitProblem::QueueFull { queue: lane.queue.clone(), for_all });
        }
        *beside += 1;
        if self.shared.lanes.find(lane).is_none() {
            own.lanes += 1;
            if known.lanes + own.lanes > limits::LANES_MAX {
                return Err(SubmitProblem::TooManyLanes);
            }
        }
        Ok(Plan::Admit(draft.id.unwrap_or_else(|| self.shared.new_id(self.now))))
    }

    /// Reads what the submissions may be the repetition of, and how deep their queues are.
    async fn known(&mut self, submissions: &[Submission]) -> Result<Measure, Fault> {
        let mut known = Measure::default();
        let drafts = || submissions.iter().flat_map(|submission| &submission.tasks);
        self.measure(drafts(), &mut known).await?;
        if drafts().any(|draft| self.shared.lanes.find(&draft.spec.lane).is_none()) {
            known.lanes = self.lane_count(drafts().count()).await?;
            self.meet_lanes(drafts()).await?;
        }
        self.known_by_key(drafts(), &mut known).await?;
        let ids: Vec<TaskId> = drafts().filter_map(|draft| draft.id).collect();
        for (id, state, digest) in self.peek(&ids).await? {
            let stored = Submitted { id, state, replayed: true, expired: false, admission: None };
            known.ids.insert(id, (digest, Plan::Stored(stored)));
        }
        Ok(known)
    }

    async fn known_by_key(
        &mut self,
        drafts: impl Iterator<Item = &Draft>,
        known: &mut Measure,
    ) -> Result<(), Fault> {
        let (mut queues, mut keys) = (Vec::new(), Vec::new());
        for draft in drafts {
            if let Some(key) = &draft.spec.idempotency_key {
                queues.push(draft.spec.lane.queue.as_str());
                keys.push(key.as_str());
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        let sql = "SELECT q.name, i.key, i.id, i.digest, i.ended
                   FROM unnest($1, $2) AS wanted(queue, key)
                   JOIN queue q ON q.name = wanted.queue COLLATE \"C\"
                   JOIN idempotency i ON i.queue = q.queue AND i.key = wanted.key COLLATE \"C\"";
        let parameters = [(&queues as _, Type::TEXT_ARRAY), (&keys as _, Type::TEXT_ARRAY)];
        let found = self.transaction.query(sql, &parameters).await?;
        let ids = found.iter().map(|row| rows::task_id(row.get(2)));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let states: HashMap<TaskId, _> =
            self.peek(&ids).await?.into_iter().map(|(id, state, _)| (id, state)).collect();
        for (row, id) in found.iter().zip(ids) {
            let key = IdempotencyKey::new(row.get::<_, &str>(1))
                .map_err(|error| Fault::Corrupt(format!("idempotency record: {error}")))?;
            let digest = Digest::from_bytes(row.get::<_, Uuid>(3).into_bytes());
            let ended = row.get::<_, Option<i16>>(4).map(rows::state).transpose()?;
            // Gone since the record was read: then it is as if it came a moment earlier.
            let Some(state) = ended.or_else(|| states.get(&id).copied()) else {
                return Err(Fault::Overtaken);
            };
            let expired = ended.is_some();
            let stored = Submitted { id, state, replayed: true, expired, admission: None };
            let key = (queue_name(row.get(0))?, key);
            known.keys.insert(key, (Some(digest), Plan::Stored(stored)));
        }
        Ok(())
    }

    /// Makes sure that lanes which others have made are known here.
    pub(super) async fn meet_lanes(
        &self,
        drafts: impl Iterator<Item = &Draft>,
    ) -> Result<(), Fault> {
        let unknown = drafts.filter(|draft| self.shared.lanes.find(&draft.spec.lane).is_none());
        let names: Vec<Vec<u8>> =
            unknown.map(|draft| codec::encode_lane(&draft.spec.lane)).collect();
        let sql = "SELECT lane, queue, name FROM lane
                   WHERE sha256(name) IN (SELECT sha256(wanted) FROM unnest($1) AS wanted)";
        for row in self.transaction.query(sql, &[(&names, Type::BYTEA_ARRAY)]).await? {
            let lane = codec::decode_lane(row.get(2))?;
            let known = Known { number: row.get(0), queue: row.get(1), lane };
            self.shared.lanes.add(self.transaction.timeline, known);
        }
        Ok(())
    }

    pub(super) async fn admit_all(&mut self, admitted: &[(TaskId, &Draft)]) -> Result<(), Fault> {
        if admitted.is_empty() {
            return Ok(());
        }
        let lanes = self.lanes_for(admitted.iter().map(|(_, draft)| &draft.spec.lane)).await?;
        let lane_of = |draft: &Draft| {
            let known = lanes.get(&draft.spec.lane).cloned();
            known.ok_or_else(|| Fault::Corrupt("a lane was not made".into()))
        };
        let mut keys = Vec::new();
        for (_, draft) in admitted {
            if let Some(key) = &draft.spec.ordering_key {
                keys.push((lane_of(draft)?.queue, key.as_str().into()));
            }
        }
        self.lock_keys(keys).await?;
        for (id, draft) in admitted {
            self.admit(*id, (*draft).clone(), &lane_of(draft)?).await?;
        }
        self.write_keys(admitted).await?;
        self.draw().await?;
        self.never_twice(admitted).await
    }

    async fn admit(&mut self, id: TaskId, draft: Draft, known: &Known) -> Result<(), Fault> {
        let stamp = self.stamp();
        let (payload, digest) = (draft.payload.clone(), draft.digest);
        let blocked = match &draft.spec.ordering_key {
            Some(key) => {
                let free = self.key_is_free(known.queue, key.as_str()).await?;
                self.line(known.queue, key.as_str())?.join(stamp.sequence, id);
                !free
            }
            None => false,
        };
        let (task, event) = lifecycle::admit(draft, id, stamp, blocked);
        let entry = tasklane_core::Entry { stamp, event };
        let lane = u64::from(known.number.unsigned_abs());
        codec::encode_feed(&mut self.events, lane, &Before::NOTHING, &task, &entry);
        let state = task.state.name();
        self.count(known.queue, known.number, task.spec.priority, state, 1);
        if state == tasklane_core::StateName::Pending {
            self.wake(known.number);
        }
        let subject = Subject {
            task,
            lane: known.number,
            queue: known.queue,
            bytes: i32::try_from(payload.len()).unwrap_or(i32::MAX),
            digest,
            home: Home::Nowhere,
            lease: LeaseRow::default(),
            payload: Some(payload),
            result: None,
            entries: Vec::new(),
            guard: None,
            is_changed: true,
            is_discarded: false,
        };
        self.changed.push(id);
        self.work.insert(id, subject);
        Ok(())
    }

    /// Writes idempotency records in order. One that another call has just written ends this
    /// attempt, and the next one finds it.
    async fn write_keys(&mut self, admitted: &[(TaskId, &Draft)]) -> Result<(), Fault> {
        let mut keyed = Vec::new();
        for (id, draft) in admitted {
            if let (Some(key), Some(digest)) = (&draft.spec.idempotency_key, draft.digest) {
                let queue = self.subject(*id)?.queue;
                keyed.push((
                    queue,
                    key.as_str(),
                    rows::uuid(*id),
                    Uuid::from_bytes(*digest.as_bytes()),
                ));
            }
        }
        if keyed.is_empty() {
            return Ok(());
        }
        keyed.sort_unstable();
        let queues: Vec<i32> = keyed.iter().map(|key| key.0).collect();
        let keys: Vec<&str> = keyed.iter().map(|key| key.1).collect();
        let ids: Vec<Uuid> = keyed.iter().map(|key| key.2).collect();
        let digests: Vec<Uuid> = keyed.iter().map(|key| key.3).collect();
        let now = self.now.as_micros();
        let sql = "INSERT INTO idempotency(queue, key, id, digest, created_at)
                   SELECT queue, key, id, digest, $5
                   FROM unnest($1, $2, $3, $4) AS new(queue, key, id, digest)";
        let parameters = [
            (&queues as _, Type::INT4_ARRAY),
            (&keys as _, Type::TEXT_ARRAY),
            (&ids as _, Type::UUID_ARRAY),
            (&digests as _, Type::UUID_ARRAY),
            (&now as _, Type::INT8),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }

    /// Among live tasks the table itself sees to it that an id names one; one that came and ended
    /// since it was looked for is found here.
    async fn never_twice(&mut self, admitted: &[(TaskId, &Draft)]) -> Result<(), Fault> {
        let chosen = admitted.iter().filter(|(_, draft)| draft.id.is_some());
        let chosen: Vec<Uuid> = chosen.map(|(id, _)| rows::uuid(*id)).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        self.flush().await?;
        let sql = "SELECT 1 FROM history WHERE id = ANY($1) LIMIT 1";
        let found = self.transaction.query(sql, &[(&chosen, Type::UUID_ARRAY)]).await?;
        if found.is_empty() { Ok(()) } else { Err(Fault::Overtaken) }
    }

    fn answers(&self, plans: &[Plan]) -> Vec<Submitted> {
        let answer = |plan: &Plan| {
            let (id, replayed) = match plan {
                Plan::Stored(stored) => return Some(*stored),
                Plan::Admit(id) => (*id, false),
                Plan::Same(id) => (*id, true),
            };
            let task = &self.work.get(&id)?.task;
            let mut admission = task.admission;
            admission.created.sequence = self.number(admission.created.sequence);
            let admission = (!replayed).then_some(admission);
            Some(Submitted { id, state: task.state.name(), replayed, expired: false, admission })
        };
        plans.iter().filter_map(answer).collect()
    }
}

impl Measure {
    /// The first of a kind is the one that later ones repeat.
    fn note(&mut self, draft: &Draft, plan: Plan) {
        if let Some(key) = draft.spec.idempotency_key.clone() {
            let key = (draft.spec.lane.queue.clone(), key);
            self.keys.entry(key).or_insert((draft.digest, plan));
        }
        if let Some(id) = draft.id {
            self.ids.entry(id).or_insert((draft.digest, plan));
        }
    }
}
