//! Admission.

use tasklane_core::lifecycle::{admit, check_admission};
use tasklane_core::{Digest, Draft, Entry, Invalid, Problem, Task, TaskId, limits};

use super::memory::{Clocks, KeyRecord, Memory, Now, Record};
use crate::error::{SubmitProblem, SubmitRefusal};
use crate::feed::Subject;
use crate::request::{Submission, Submitted};

/// What a draft comes to.
enum Plan {
    /// A new task.
    Admit,
    /// It came before.
    Known(Submitted),
    /// It is the same as an earlier one of its submission.
    Same(usize),
}

impl Memory {
    /// All of it or nothing: first everything is checked, then everything is written.
    pub(super) fn submit(
        &mut self,
        submission: Submission,
        now: Now,
    ) -> Result<Vec<Submitted>, SubmitRefusal> {
        let max = limits::BATCH_TASKS_MAX;
        if submission.tasks.len() > max {
            let problem = Invalid::new("tasks", Problem::TooMany { max }).into();
            return Err(SubmitRefusal { index: max, problem });
        }
        let mut plans = Vec::new();
        for (index, draft) in submission.tasks.iter().enumerate() {
            let earlier = &submission.tasks[..index];
            let plan = self.plan(draft, earlier, &plans, now);
            plans.push(plan.map_err(|problem| SubmitRefusal { index, problem })?);
        }
        let mut submitted: Vec<Submitted> = Vec::new();
        for (draft, plan) in submission.tasks.into_iter().zip(plans) {
            submitted.push(match plan {
                Plan::Admit => self.admit(draft, now),
                Plan::Known(known) => known,
                Plan::Same(index) => {
                    Submitted { replayed: true, admission: None, ..submitted[index] }
                }
            });
        }
        Ok(submitted)
    }

    fn plan(
        &self,
        draft: &Draft,
        earlier: &[Draft],
        plans: &[Plan],
        now: Now,
    ) -> Result<Plan, SubmitProblem> {
        if let Some((digest, plan)) = self.came_before(draft, earlier) {
            return if digest == draft.digest { Ok(plan) } else { Err(SubmitProblem::Mismatch) };
        }
        check_admission(draft, now.wall)?;
        let queue = &draft.spec.lane.queue;
        let settings = self.position(queue).map_or_else(Default::default, |at| self.queues[at].1);
        let beside = earlier
            .iter()
            .zip(plans)
            .filter(|(other, plan)| matches!(plan, Plan::Admit) && other.spec.lane.queue == *queue);
        let depth = self.depth(queue) + beside.count() as u64;
        if depth >= settings.depth.of(draft.spec.priority) {
            let for_all = depth >= settings.depth.all;
            return Err(SubmitProblem::QueueFull { queue: queue.clone(), for_all });
        }
        if self.lanes.len() >= limits::LANES_MAX && !self.lanes.contains(&draft.spec.lane) {
            return Err(SubmitProblem::TooManyLanes);
        }
        Ok(Plan::Admit)
    }

    /// What has the same key, or else the same id: in the store, or earlier in the submission.
    fn came_before(&self, draft: &Draft, earlier: &[Draft]) -> Option<(Option<Digest>, Plan)> {
        let same_key = |other: &Draft| {
            draft.spec.idempotency_key.is_some()
                && other.spec.idempotency_key == draft.spec.idempotency_key
                && other.spec.lane.queue == draft.spec.lane.queue
        };
        let same_id = |other: &Draft| draft.id.is_some() && other.id == draft.id;
        let find = |same: &dyn Fn(&Draft) -> bool| {
            let at = earlier.iter().position(same)?;
            Some((earlier[at].digest, Plan::Same(at)))
        };
        self.known_by_key(draft)
            .or_else(|| find(&same_key))
            .or_else(|| self.known_by_id(draft))
            .or_else(|| find(&same_id))
    }

    fn known_by_key(&self, draft: &Draft) -> Option<(Option<Digest>, Plan)> {
        let key = draft.spec.idempotency_key.clone()?;
        let record = self.keys.get(&(draft.spec.lane.queue.clone(), key))?;
        let (id, expired) = (record.task, record.ended.is_some());
        let state = record.ended.unwrap_or_else(|| self.tasks[&id].task.state.name());
        let known = Submitted { id, state, replayed: true, expired, admission: None };
        Some((record.digest, Plan::Known(known)))
    }

    fn known_by_id(&self, draft: &Draft) -> Option<(Option<Digest>, Plan)> {
        let record = self.tasks.get(&draft.id?)?;
        let (id, state) = (record.task.id, record.task.state.name());
        let known = Submitted { id, state, replayed: true, expired: false, admission: None };
        Some((record.digest, Plan::Known(known)))
    }

    fn admit(&mut self, draft: Draft, now: Now) -> Submitted {
        let id = draft.id.unwrap_or_else(|| self.new_id(now));
        let (digest, payload) = (draft.digest, draft.payload.clone());
        let stamp = self.stamp(now);
        // Only another task's key can be in the way, so this one is asked as if it were there.
        let (free, _) = admit(draft.clone(), id, stamp, false);
        let (task, event) = admit(draft, id, stamp, !self.key_free(&free));
        self.settings(&task.spec.lane.queue);
        self.lanes.insert(task.spec.lane.clone());
        self.remember_key(&task, digest, now);
        let entry = Entry { stamp, event };
        let notice = super::feed::notice(&task, &task, &entry);
        self.publish(stamp, Subject::Task(Box::new(notice)));
        let (state, admission) = (task.state.name(), Some(task.admission));
        let record = Record {
            admitted: task.clone(),
            task,
            payload,
            result: None,
            digest,
            entries: Vec::new(),
            cut: false,
            joined: stamp.sequence,
            clocks: Clocks::default(),
        };
        self.tasks.insert(id, record);
        Submitted { id, state, replayed: false, expired: false, admission }
    }

    fn remember_key(&mut self, task: &Task, digest: Option<Digest>, now: Now) {
        if let Some(key) = task.spec.idempotency_key.clone() {
            let record = KeyRecord { digest, task: task.id, created_at: now.wall, ended: None };
            self.keys.insert((task.spec.lane.queue.clone(), key), record);
        }
    }

    /// Ids rise even when the clock does not.
    fn new_id(&mut self, now: Now) -> TaskId {
        let (millis, counter) = self.last_id;
        let clock = now.wall.as_millis().unsigned_abs();
        self.last_id = if clock > millis { (clock, 0) } else { (millis, counter + 1) };
        TaskId::generate(self.last_id.0, self.last_id.1, &mut self.random)
    }
}
