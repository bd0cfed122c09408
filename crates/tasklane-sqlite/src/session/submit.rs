//! Admitting tasks. A submission is checked whole before its first row is written.

use hashbrown::HashMap;
use rusqlite::{OptionalExtension, params};
use tasklane_core::{
    Digest, Draft, IdempotencyKey, Invalid, Lane, Problem, QueueName, QueueSettings, Random,
    StateName, TaskId, lifecycle, limits,
};
use tasklane_store::codec::Before;
use tasklane_store::{Submission, SubmitProblem, SubmitRefusal, Submitted, codec};

use super::Session;
use crate::fault::Fault;
use crate::rows;

/// What a task of a submission comes to.
enum Plan {
    /// A new task.
    Admit,
    /// The same as one that is stored.
    Stored(Submitted),
    /// The same as an earlier one of this submission.
    Earlier(usize),
}

/// What has been planned so far, to find repetitions inside a submission and count its depth.
#[derive(Default)]
struct Planned {
    keys: HashMap<(QueueName, IdempotencyKey), (usize, Digest)>,
    ids: HashMap<TaskId, (usize, Digest)>,
    depths: Vec<(QueueName, u64, QueueSettings)>,
    new_lanes: hashbrown::HashSet<Lane>,
}

impl Session<'_> {
    pub(crate) fn submit(
        &mut self,
        submissions: Vec<Submission>,
    ) -> Result<Vec<Result<Vec<Submitted>, SubmitRefusal>>, Fault> {
        submissions.into_iter().map(|submission| self.submit_one(submission)).collect()
    }

    fn submit_one(
        &mut self,
        submission: Submission,
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
        for (plan, draft) in plans.into_iter().zip(submission.tasks) {
            let verdict = match plan {
                Plan::Admit => self.admit(draft)?,
                Plan::Stored(verdict) => verdict,
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
        &self,
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
        if let Err(invalid) = lifecycle::check_admission(draft, self.now) {
            return Ok(Err(invalid.into()));
        }
        let lane = &draft.spec.lane;
        let is_new =
            self.board.lane_number(lane).is_none() && planned.new_lanes.insert(lane.clone());
        if is_new && self.board.lane_count() + planned.new_lanes.len() > limits::LANES_MAX {
            return Ok(Err(SubmitProblem::TooManyLanes));
        }
        let (depth, settings) = self.depth(&lane.queue, planned)?;
        if *depth >= settings.depth.of(draft.spec.priority) {
            let for_all = *depth >= settings.depth.all;
            return Ok(Err(SubmitProblem::QueueFull { queue: lane.queue.clone(), for_all }));
        }
        *depth += 1;
        Ok(Ok(Plan::Admit))
    }

    /// How deep a queue is, with what this submission adds.
    fn depth<'a>(
        &self,
        queue: &QueueName,
        planned: &'a mut Planned,
    ) -> Result<(&'a mut u64, QueueSettings), Fault> {
        let known = planned.depths.iter().position(|(name, ..)| name == queue);
        let index = match known {
            Some(index) => index,
            None => {
                let (depth, settings) = match self.board.queue_number(queue) {
                    Some(number) => {
                        let slot = self.board.queue(number)?;
                        (slot.depth(), slot.settings)
                    }
                    None => (0, QueueSettings::default()),
                };
                planned.depths.push((queue.clone(), depth, settings));
                planned.depths.len() - 1
            }
        };
        match planned.depths.get_mut(index) {
            Some((_, depth, settings)) => Ok((depth, *settings)),
            None => Err(Fault::Corrupt("lost a depth".into())),
        }
    }

    /// Whether this request came before, by its key or by its id (S13).
    fn plan_repeatable(
        &self,
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
                return Ok(same(known, Plan::Stored(submitted)));
            }
            planned.keys.insert(scoped, (index, digest));
        }
        if let Some(id) = draft.id {
            if let Some((earlier, known)) = planned.ids.get(&id) {
                return Ok(same(*known, Plan::Earlier(*earlier)));
            }
            if let Some(loaded) = rows::load(self.connection, &self.lanes, id)? {
                let state = loaded.task.state.name();
                let submitted =
                    Submitted { id, state, replayed: true, expired: false, admission: None };
                return Ok(match loaded.digest {
                    Some(known) => same(known, Plan::Stored(submitted)),
                    None => Err(SubmitProblem::Mismatch),
                });
            }
            planned.ids.insert(id, (index, digest));
        }
        Ok(Ok(Plan::Admit))
    }

    /// The idempotency record of a key, and what it answers.
    fn recorded(
        &self,
        queue: &QueueName,
        key: &IdempotencyKey,
    ) -> Result<Option<(Digest, Submitted)>, Fault> {
        let Some(queue) = self.board.queue_number(queue) else { return Ok(None) };
        let sql = "SELECT digest, id, ended FROM idempotency WHERE queue = ? AND key = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let record = statement.query_row(params![queue, key.as_str()], |row| {
            Ok((row.get::<_, [u8; 16]>(0)?, row.get(1)?, row.get::<_, Option<usize>>(2)?))
        });
        let Some((digest, id, ended)) = record.optional()? else { return Ok(None) };
        let id = TaskId::from_bytes(id)
            .map_err(|e| Fault::Corrupt(format!("idempotency record {key}: {e}")))?;
        let ended = ended.and_then(|state| StateName::ALL.get(state).copied());
        let state = match ended {
            Some(state) => state,
            None => match rows::load(self.connection, &self.lanes, id)? {
                Some(loaded) => loaded.task.state.name(),
                None => return Err(Fault::Corrupt(format!("task {id} of key {key} is missing"))),
            },
        };
        let expired = ended.is_some();
        let submitted = Submitted { id, state, replayed: true, expired, admission: None };
        Ok(Some((Digest::from_bytes(digest), submitted)))
    }

    fn admit(&mut self, draft: Draft) -> Result<Submitted, Fault> {
        let (lane, queue) = self.lane_for(&draft.spec.lane)?;
        let ordering = draft.spec.ordering_key.clone();
        let blocked = match &ordering {
            Some(ordering) => !self.key_is_free(queue, ordering.as_str())?,
            None => false,
        };
        let (digest, payload) = (draft.digest, draft.payload.clone());
        let (id, key) = self.key_for(draft.id)?;
        let stamp = self.stamp();
        let (task, event) = lifecycle::admit(draft, id, stamp, blocked);
        let entry = tasklane_core::Entry { stamp, event };
        let buffer = std::mem::take(&mut self.buffer);
        let mut spec = codec::encode_spec(buffer, &task.spec, &task.admission, digest);
        self.sql.insert_task.execute(params![key, id.as_bytes(), lane, spec, &payload[..]])?;
        self.max_key = self.max_key.max(key);
        spec.clear();
        self.buffer = spec;
        self.count(lane, task.spec.priority, task.state.name(), 1)?;
        self.timers(key, &task, true)?;
        if matches!(task.state, tasklane_core::State::Pending { .. }) {
            self.arrive(lane, key, &task)?;
        }
        if let Some(ordering) = &ordering {
            self.join_key(queue, ordering.as_str(), stamp.sequence.0, key)?;
        }
        if let (Some(idempotency), Some(digest)) = (&task.spec.idempotency_key, digest) {
            let sql = "INSERT INTO idempotency(queue, key, digest, id, created_at) VALUES (?, ?, ?, ?, ?)";
            let (digest, now) = (digest.as_bytes(), self.now.as_micros());
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.execute(params![queue, idempotency.as_str(), digest, id.as_bytes(), now])?;
        }
        codec::encode_feed(&mut self.feed.events, lane.into(), &Before::NOTHING, &task, &entry);
        let (state, admission) = (task.state.name(), Some(task.admission));
        Ok(Submitted { id, state, replayed: false, expired: false, admission })
    }

    /// An id, and a row key that is free.
    fn key_for(&mut self, chosen: Option<TaskId>) -> Result<(TaskId, i64), Fault> {
        if let Some(id) = chosen {
            let key = id.row_key();
            if self.is_free(key)? {
                return Ok((id, key));
            }
            let (_, key) = self.fresh_key()?;
            let sql = "INSERT INTO alias(id, task) VALUES (?, ?)";
            self.connection.prepare_cached(sql)?.execute(params![id.as_bytes(), key])?;
            self.aliases += 1;
            return Ok((id, key));
        }
        self.fresh_key()
    }

    /// A new id of this store's own. Only client-chosen ids can be in its way.
    fn fresh_key(&mut self) -> Result<(TaskId, i64), Fault> {
        loop {
            self.last_key = (self.last_key + 1).max(self.now.as_millis() << 20);
            let (millis, counter) = ((self.last_key >> 20) as u64, self.last_key as u64);
            let id = TaskId::generate(millis, counter, &mut self.random);
            // Behind every key there is: nothing to look for.
            if self.last_key > self.max_key || self.is_free(self.last_key)? {
                return Ok((id, self.last_key));
            }
            // Somebody's random bits: step over them instead of along them.
            self.last_key += (self.random.next_u64() & 0xFFFF) as i64;
        }
    }

    fn is_free(&mut self, key: i64) -> Result<bool, Fault> {
        let there = self.sql.select_id.query([key])?.next()?.is_some();
        Ok(!there)
    }

    /// The numbers of a lane and its queue, made if they are new.
    fn lane_for(&mut self, lane: &Lane) -> Result<(u32, u32), Fault> {
        if let Some(number) = self.board.lane_number(lane) {
            return Ok((number, self.board.lane(number)?.queue));
        }
        let queue = self.queue_for(&lane.queue)?;
        self.connection
            .prepare_cached("INSERT INTO lane(name) VALUES (?)")?
            .execute([codec::encode_lane(lane)])?;
        let number = u32::try_from(self.connection.last_insert_rowid())
            .map_err(|_| Fault::Corrupt("lane numbers are used up".into()))?;
        self.board.add_lane(number, lane.clone(), queue);
        let counts = codec::encode_counts(&codec::Counts::default());
        let sql = "INSERT INTO tally(lane, counts) VALUES (?, ?)";
        self.connection.prepare_cached(sql)?.execute(params![number, counts])?;
        self.lanes.insert(number.into(), lane.clone());
        Ok((number, queue))
    }
}
