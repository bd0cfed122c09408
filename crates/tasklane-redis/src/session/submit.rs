//! Admitting tasks. A submission is checked whole before anything of it is written.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use hashbrown::{HashMap, HashSet};
use tasklane_core::{
    Digest, Draft, Entry, IdempotencyKey, Invalid, Lane, Problem, QueueName, QueueSettings,
    StateName, Task, TaskId, Timestamp, lifecycle, limits,
};
use tasklane_store::codec::{self, Before};
use tasklane_store::{Submission, SubmitProblem, SubmitRefusal, Submitted};

use super::Session;
use crate::catalog::{pack_lane, pack_queue};
use crate::fault::Fault;
use crate::keys::Key;
use crate::stored::{Payload, Stored, task_id};

/// What is written for a task that has not been removed.
const THERE: u8 = u8::MAX;

/// What a task of a submission comes to.
enum Plan {
    /// A new task.
    Admit,
    /// The same as one that is stored.
    Known(Submitted),
    /// The same as an earlier one of this submission.
    Earlier(usize),
}

/// What has been planned so far, to find repetitions inside a submission and count its depth.
#[derive(Default)]
struct Planned {
    keys: HashMap<(QueueName, IdempotencyKey), (usize, Digest)>,
    ids: HashMap<TaskId, (usize, Digest)>,
    depths: HashMap<QueueName, (u64, QueueSettings)>,
    new_lanes: HashSet<Lane>,
}

impl Session<'_> {
    pub(crate) fn submit(
        &mut self,
        submissions: &[Submission],
    ) -> Result<Vec<Result<Vec<Submitted>, SubmitRefusal>>, Fault> {
        submissions.iter().map(|submission| self.submit_one(submission)).collect()
    }

    fn submit_one(
        &mut self,
        submission: &Submission,
    ) -> Result<Result<Vec<Submitted>, SubmitRefusal>, Fault> {
        if submission.tasks.len() > limits::BATCH_TASKS_MAX {
            let max = limits::BATCH_TASKS_MAX;
            let problem = Invalid::new("tasks", Problem::TooMany { max }).into();
            return Ok(Err(SubmitRefusal { index: max, problem }));
        }
        let mut planned = Planned::default();
        let mut plans = Vec::with_capacity(submission.tasks.len());
        for (index, draft) in submission.tasks.iter().enumerate() {
            match self.plan(index, draft, &mut planned)? {
                Ok(plan) => plans.push(plan),
                Err(problem) => return Ok(Err(SubmitRefusal { index, problem })),
            }
        }
        let mut submitted: Vec<Submitted> = Vec::with_capacity(plans.len());
        for (plan, draft) in plans.into_iter().zip(&submission.tasks) {
            let verdict = match plan {
                Plan::Admit => self.admit(draft)?,
                Plan::Known(verdict) => verdict,
                Plan::Earlier(index) => {
                    let earlier = submitted.get(index).copied();
                    let earlier = earlier.ok_or_else(|| Fault::Corrupt("lost a plan".into()))?;
                    Submitted { replayed: true, admission: None, ..earlier }
                }
            };
            submitted.push(verdict);
        }
        Ok(Ok(submitted))
    }

    fn plan(
        &mut self,
        index: usize,
        draft: &Draft,
        planned: &mut Planned,
    ) -> Result<Result<Plan, SubmitProblem>, Fault> {
        if draft.id.is_some() || draft.spec.idempotency_key.is_some() {
            match self.plan_repeatable(index, draft, planned)? {
                Ok(Plan::Admit) => {}
                other => return Ok(other),
            }
        }
        // Not before: a request that is repeated later than its own times is still the same one.
        if let Err(invalid) = lifecycle::check_admission(draft, self.now)
            && !self.is_missing()
        {
            return Ok(Err(invalid.into()));
        }
        let lane = &draft.spec.lane;
        let is_new =
            self.catalog.lane_number(lane).is_none() && planned.new_lanes.insert(lane.clone());
        if is_new && self.catalog.lane_count() + planned.new_lanes.len() > limits::LANES_MAX {
            return Ok(Err(SubmitProblem::TooManyLanes));
        }
        let (depth, settings) = self.planned_depth(&lane.queue, planned)?;
        if *depth >= settings.depth.of(draft.spec.priority) {
            let for_all = *depth >= settings.depth.all;
            return Ok(Err(SubmitProblem::QueueFull { queue: lane.queue.clone(), for_all }));
        }
        *depth += 1;
        Ok(Ok(Plan::Admit))
    }

    /// How deep a queue is, with what this submission adds.
    fn planned_depth<'p>(
        &mut self,
        queue: &QueueName,
        planned: &'p mut Planned,
    ) -> Result<&'p mut (u64, QueueSettings), Fault> {
        if !planned.depths.contains_key(queue) {
            let number = self.catalog.queue_number(queue);
            let depth = match number {
                Some(number) => self.depth(number)?,
                None => 0,
            };
            let known = number.and_then(|number| self.catalog.queue(number));
            let settings = known.map(|(_, settings)| *settings).unwrap_or_default();
            let depth = u64::try_from(depth).unwrap_or_default();
            planned.depths.insert(queue.clone(), (depth, settings));
        }
        planned.depths.get_mut(queue).ok_or_else(|| Fault::Corrupt("lost a depth".into()))
    }

    /// Whether this request came before, by its key or by its id (S13).
    fn plan_repeatable(
        &mut self,
        index: usize,
        draft: &Draft,
        planned: &mut Planned,
    ) -> Result<Result<Plan, SubmitProblem>, Fault> {
        let Some(digest) = draft.digest else {
            return Ok(Err(Invalid::new("digest", Problem::Empty).into()));
        };
        let same = |known: Digest, plan| {
            if known == digest { Ok(plan) } else { Err(SubmitProblem::Mismatch) }
        };
        if let Some(key) = &draft.spec.idempotency_key {
            let scoped = (draft.spec.lane.queue.clone(), key.clone());
            if let Some((earlier, known)) = planned.keys.get(&scoped) {
                return Ok(same(*known, Plan::Earlier(*earlier)));
            }
            if let Some((known, submitted)) = self.recorded(&scoped.0, key)? {
                return Ok(same(known, Plan::Known(submitted)));
            }
            planned.keys.insert(scoped, (index, digest));
        }
        if let Some(id) = draft.id {
            if let Some((earlier, known)) = planned.ids.get(&id) {
                return Ok(same(*known, Plan::Earlier(*earlier)));
            }
            if let Some(stored) = self.task(id)? {
                let state = stored.task.state.name();
                let submitted =
                    Submitted { id, state, replayed: true, expired: false, admission: None };
                return Ok(match stored.digest {
                    Some(known) => same(known, Plan::Known(submitted)),
                    None => Err(SubmitProblem::Mismatch),
                });
            }
            planned.ids.insert(id, (index, digest));
        }
        Ok(Ok(Plan::Admit))
    }

    /// The idempotency record of a key, and what it answers.
    fn recorded(
        &mut self,
        queue: &QueueName,
        key: &IdempotencyKey,
    ) -> Result<Option<(Digest, Submitted)>, Fault> {
        let Some(queue) = self.catalog.queue_number(queue) else { return Ok(None) };
        let field = idempotency_field(queue, key.as_str());
        let Some(record) = self.field(&Key::Idempotency, &field) else { return Ok(None) };
        let record = IdempotencyRecord::unpack(record)?;
        let (id, expired) = (record.task, record.ended.is_some());
        let state = match record.ended {
            Some(state) => state,
            None => {
                let state = self.task(id)?.map(|stored| stored.task.state.name());
                let missing = || Fault::Corrupt(format!("task {id} of key {key} is missing"));
                state.ok_or_else(missing)?
            }
        };
        let submitted = Submitted { id, state, replayed: true, expired, admission: None };
        Ok(Some((record.digest, submitted)))
    }

    fn admit(&mut self, draft: &Draft) -> Result<Submitted, Fault> {
        self.admitted = true;
        let (lane, queue) = self.lane_for(&draft.spec.lane)?;
        let ordering = draft.spec.ordering_key.as_ref();
        let line = ordering.map(|ordering| Key::Line(queue, ordering.as_str().into()));
        let blocked = line.as_ref().is_some_and(|line| !self.is_line_empty(line));
        let id = draft.id.unwrap_or_else(|| self.new_id());
        let stamp = self.stamp();
        let (digest, payload) = (draft.digest, draft.payload.clone());
        let (task, event) = lifecycle::admit(draft.clone(), id, stamp, blocked);
        let stored = Stored::admitted(task, lane, digest, &payload);
        self.writes.set(Key::Task, *id.as_bytes(), stored.pack_task());
        if matches!(stored.payload, Payload::Apart(_)) {
            self.writes.set(Key::Payload, *id.as_bytes(), payload);
        }
        self.writes.list(id, true);
        self.enter(&stored)?;
        if let Some(line) = line {
            self.join_line(line, &stored.task, stamp.sequence.0);
        }
        if let (Some(key), Some(digest)) = (&stored.task.spec.idempotency_key, digest) {
            let field = idempotency_field(queue, key.as_str());
            let record = IdempotencyRecord { digest, task: id, created_at: self.now, ended: None };
            self.writes.set(Key::Idempotency, field.clone(), record.pack());
            self.writes.score(Key::IdempotencyAge, field, Some(self.now.as_micros()));
        }
        let entry = Entry { stamp, event };
        let task = &stored.task;
        codec::encode_feed(&mut self.events, lane.into(), &Before::NOTHING, task, &entry);
        let (state, admission) = (task.state.name(), Some(task.admission));
        self.tasks.insert(id, Some(Box::new(stored)));
        Ok(Submitted { id, state, replayed: false, expired: false, admission })
    }

    /// Ids rise even when the clock does not.
    fn new_id(&mut self) -> TaskId {
        self.last_key = (self.last_key + 1).max(self.now.as_millis() << 20);
        let (millis, counter) = ((self.last_key >> 20) as u64, self.last_key as u64);
        TaskId::generate(millis, counter, self.random)
    }

    /// The numbers of a lane and its queue, made if they are new.
    fn lane_for(&mut self, lane: &Lane) -> Result<(u32, u32), Fault> {
        if let Some(number) = self.catalog.lane_number(lane) {
            return Ok((number, self.catalog.lane_and_queue(number)?.1));
        }
        let queue = match self.catalog.queue_number(&lane.queue) {
            Some(queue) => queue,
            None => self.set_queue(&lane.queue, QueueSettings::default()),
        };
        let number = Arc::make_mut(&mut self.catalog).add_lane(lane.clone(), queue);
        self.writes.set(Key::Lanes, number.to_string(), pack_lane(queue, lane));
        Ok((number, queue))
    }

    pub(super) fn set_queue(&mut self, queue: &QueueName, settings: QueueSettings) -> u32 {
        let number = Arc::make_mut(&mut self.catalog).set_queue(queue.clone(), settings);
        self.writes.set(Key::Queues, number.to_string(), pack_queue(queue, &settings));
        number
    }

    /// The record of a removed task's key says how it ended.
    pub(super) fn remember_end(&mut self, task: &Task, state: StateName) -> Result<(), Fault> {
        let Some(key) = &task.spec.idempotency_key else { return Ok(()) };
        let Some(queue) = self.catalog.queue_number(&task.spec.lane.queue) else { return Ok(()) };
        let field = idempotency_field(queue, key.as_str());
        let Some(record) = self.field(&Key::Idempotency, &field) else { return Ok(()) };
        let mut record = IdempotencyRecord::unpack(record)?;
        if record.task == task.id && record.ended.is_none() {
            record.ended = Some(state);
            self.writes.set(Key::Idempotency, field, record.pack());
        }
        Ok(())
    }
}

/// A submission that is recognised when it comes again.
pub(super) struct IdempotencyRecord {
    digest: Digest,
    pub(super) task: TaskId,
    created_at: Timestamp,
    /// How the task ended, once it is gone.
    pub(super) ended: Option<StateName>,
}

impl IdempotencyRecord {
    fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(41);
        packed.put_slice(self.digest.as_bytes());
        packed.put_slice(self.task.as_bytes());
        packed.put_i64(self.created_at.as_micros());
        packed.put_u8(self.ended.map_or(THERE, |state| state.index() as u8));
        packed
    }

    pub(super) fn unpack(mut packed: Bytes) -> Result<Self, Fault> {
        if packed.len() != 41 {
            return Err(Fault::Corrupt("an idempotency record is not one".into()));
        }
        let mut digest = [0; 16];
        packed.copy_to_slice(&mut digest);
        let task = task_id(&packed.split_to(16))?;
        let created_at = Timestamp::from_micros(packed.get_i64());
        let ended = StateName::ALL.get(usize::from(packed.get_u8())).copied();
        Ok(Self { digest: Digest::from_bytes(digest), task, created_at, ended })
    }
}

/// An idempotency key counts in its queue only.
fn idempotency_field(queue: u32, key: &str) -> Vec<u8> {
    let mut field = queue.to_be_bytes().to_vec();
    field.extend_from_slice(key.as_bytes());
    field
}
