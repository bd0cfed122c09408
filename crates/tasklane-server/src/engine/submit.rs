//! Submitting tasks; a poll that waits for one is served in the same write.

use std::sync::Arc;

use bytes::Bytes;
use tasklane_core::{Draft, NewTask, Order, Spec, Task, Timestamp};
use tasklane_store::{Store, StoredTask, Submission, SubmitRefusal, Submitted};

use super::Engine;
use super::batcher::{Verb, Verdicts};
use super::error::EngineError;
use super::parking::{Parked, Parking};
use super::snapshot::Estimate;

/// Submissions as one call on the store.
pub(super) struct Submit {
    pub(super) store: Arc<dyn Store>,
    pub(super) parking: Arc<Parking>,
}

impl Verb for Submit {
    type Unit = Submission;
    type Verdict = Result<Vec<Submitted>, SubmitRefusal>;

    fn weight(&self, unit: &Submission) -> usize {
        unit.tasks.len()
    }

    fn call(self: Arc<Self>, units: Vec<Submission>) -> Verdicts<Self::Verdict> {
        Box::pin(async move {
            let taken = self.parking.take_for(units.iter().flat_map(|unit| &unit.tasks));
            if taken.is_empty() {
                return self.store.submit(units).await;
            }
            let seen = self.store.watch().borrow().claimable;
            // Both are queued before either is awaited, so that they may share one write.
            let submit = self.store.submit(units);
            let claim = self.store.claim(taken.iter().map(Parked::request).collect());
            let verdicts = submit.await;
            self.parking.hand_over_submitted(taken, claim.await, seen);
            verdicts
        })
    }
}

/// Tasks that are asked for together, without gaps, and when the first of them comes due.
#[derive(Debug)]
pub struct Drafts {
    tasks: Vec<Draft>,
    soonest: Option<Timestamp>,
}

impl Engine {
    /// Submits tasks that are taken or refused together.
    pub async fn submit(&self, drafts: Drafts) -> Result<Vec<Submitted>, EngineError> {
        let submitted = self.submits.call(Submission { tasks: drafts.tasks }).await??;
        if let Some(at) = drafts.soonest {
            self.alarm.at(at);
        }
        let replayed = submitted.iter().filter(|submitted| submitted.replayed).count();
        self.metrics.replayed(replayed as u64);
        Ok(submitted)
    }

    /// What is asked for, without gaps: the policies fill them.
    pub fn drafts(&self, tasks: Vec<NewTask>) -> Result<Drafts, EngineError> {
        let mut drafts = Vec::with_capacity(tasks.len());
        let mut soonest = None;
        let settings = self.settings();
        for (index, task) in tasks.into_iter().enumerate() {
            let draft = task.resolve(&settings.policies).map_err(|invalid| {
                EngineError::Submit(SubmitRefusal { index, problem: invalid.into() })
            })?;
            if let Some(when) = draft.schedule {
                let at = when.resolve(self.now());
                soonest = Some(soonest.map_or(at, |known: Timestamp| known.min(at)));
            }
            drafts.push(draft);
        }
        Ok(Drafts { tasks: drafts, soonest })
    }

    /// Submits one task and gives it back; `None` where it is a repetition of one that retention
    /// has removed.
    pub fn submit_one(
        &self,
        task: NewTask,
    ) -> impl Future<Output = Result<(Submitted, Option<Arrival>), EngineError>> + Send {
        // Before the future is made, which is smaller then: what is moved is not copied on the way.
        let draft = task.resolve(&self.settings().policies).map(|draft| {
            let awaited = (draft.spec.clone(), draft.payload.clone(), draft.schedule.is_some());
            (awaited, Submission { tasks: vec![draft] })
        });
        async move {
            let ((spec, payload, scheduled), submission) = draft?;
            let verdicts = self.submits.call(submission).await??;
            self.arrival(verdicts, spec, payload, scheduled).await
        }
    }

    /// What became of a task that was submitted alone.
    async fn arrival(
        &self,
        mut verdicts: Vec<Submitted>,
        spec: Spec,
        payload: Bytes,
        scheduled: bool,
    ) -> Result<(Submitted, Option<Arrival>), EngineError> {
        let submitted = verdicts.pop().ok_or(EngineError::NotFound("task"))?;
        if let Some(admission) = submitted.admission {
            let task = Task::admitted(submitted.id, spec, admission);
            if scheduled {
                self.alarm.at(task.place.ready_at);
            }
            let (order, estimate) = self.snapshot.submitted(&task);
            let stored = StoredTask { task, payload, result: None };
            return Ok((submitted, Some(Arrival { stored, order, estimate })));
        }
        self.metrics.replayed(1);
        if submitted.expired {
            return Ok((submitted, None));
        }
        let stored = self.store.get(vec![submitted.id]).await?.pop().flatten();
        let arrival = stored.map(|stored| Arrival {
            order: self.order(&stored.task.spec.lane.queue),
            estimate: self.estimate(&stored.task),
            stored,
        });
        Ok((submitted, arrival))
    }
}

/// A task that was just submitted, as it is now.
#[derive(Debug)]
pub struct Arrival {
    /// The task.
    pub stored: StoredTask,
    /// How its queue chooses.
    pub order: Order,
    /// About when it is claimed.
    pub estimate: Estimate,
}
