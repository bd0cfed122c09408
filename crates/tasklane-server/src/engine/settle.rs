//! Settling tasks, with the next claim in the same write.

use std::sync::Arc;
use std::time::Instant;

use tasklane_core::{Command, ErrorKind, Intent, Outcome, Refusal, StateName, WorkerId};
use tasklane_store::{
    Changed, ClaimRequest, Claimed, Direction, Store, StoreError, WorkerRefusal, apart,
};
use tokio_util::task::TaskTracker;

use super::batcher::{Verb, Verdicts};
use super::claim::{Directive, First, Poll, Polled};
use super::error::EngineError;
use super::{Engine, orphan};
use crate::limits::WAIT_MAX;

/// Reports of one caller, and what it wants next.
#[derive(Clone)]
pub(super) struct Turn {
    commands: Vec<Command>,
    claim: Option<ClaimRequest>,
}

type Verdict = (Vec<Result<Changed, Refusal>>, Option<Result<Vec<Claimed>, WorkerRefusal>>);

/// Turns as one call on the store.
pub(super) struct Settle {
    pub(super) store: Arc<dyn Store>,
    pub(super) errands: TaskTracker,
}

impl Verb for Settle {
    type Unit = Turn;
    type Verdict = Verdict;

    fn weight(&self, unit: &Turn) -> usize {
        unit.commands.len() + usize::from(unit.claim.is_some())
    }

    fn call(self: Arc<Self>, units: Vec<Turn>) -> Verdicts<Verdict> {
        Box::pin(async move {
            let (mut commands, mut claims) = (Vec::new(), Vec::new());
            let shapes: Vec<_> = units
                .into_iter()
                .map(|unit| {
                    let shape = (unit.commands.len(), unit.claim.is_some());
                    commands.extend(unit.commands);
                    claims.extend(unit.claim);
                    shape
                })
                .collect();
            let (changed, claimed) = if claims.is_empty() {
                (self.store.execute(commands).await?, Vec::new())
            } else {
                self.store.execute_and_claim(commands, claims).await?
            };
            let (mut changed, mut claimed) = (changed.into_iter(), claimed.into_iter());
            let verdict = |(count, claims): (usize, bool)| {
                let own = changed.by_ref().take(count).collect();
                (own, if claims { claimed.next() } else { None })
            };
            Ok(shapes.into_iter().map(verdict).collect())
        })
    }

    fn orphaned(&self, (_, claimed): Verdict) {
        let tasks = claimed.and_then(Result::ok).unwrap_or_default();
        orphan::give_back(&self.store, &self.errands, tasks);
    }
}

impl Engine {
    /// Carries out a worker's commands, and its next poll in the same round trip.
    pub async fn settle(
        &self,
        worker: WorkerId,
        commands: Vec<Command>,
        poll: Option<Poll>,
    ) -> Result<(Vec<Result<Changed, Refusal>>, Option<Polled>), EngineError> {
        let failed: Vec<bool> = commands.iter().map(is_failure).collect();
        let claim =
            poll.as_ref().map(|poll| poll.request(self.roster.leave(worker, poll.count).count));
        let asked = claim.as_ref().map_or(0, |claim| claim.count);
        let seen = self.hint();
        let (changed, claimed) = self.settles.call(Turn { commands, claim }).await?;
        for (verdict, failed) in changed.iter().zip(failed) {
            let Ok(changed) = verdict else { continue };
            if let Some(due_at) = changed.due_at {
                self.alarm.at(due_at);
            }
            if !changed.repeated && (failed || changed.state == StateName::Completed) {
                self.note_settled(worker, failed);
            }
        }
        let (Some(poll), Some(claimed)) = (poll, claimed) else {
            return Ok((changed, None));
        };
        let polled = match claimed {
            Ok(tasks) => {
                let until = Instant::now() + poll.wait.min(WAIT_MAX);
                let first = First { asked, tasks, seen };
                let polled = self.poll_until(&poll, until, Some(first)).await;
                // The results are settled: they must be told, whatever became of the poll.
                polled.unwrap_or_else(|error| {
                    let gone = matches!(error, EngineError::Worker(_));
                    let directive = if gone { Directive::Terminate } else { Directive::None };
                    Polled { tasks: Vec::new(), directive }
                })
            }
            // Its results counted by their tokens; it is told here that it has to register again.
            Err(WorkerRefusal::Gone | WorkerRefusal::Alive) => {
                Polled { tasks: Vec::new(), directive: Directive::Terminate }
            }
        };
        Ok((changed, Some(polled)))
    }

    /// Carries out one command of a worker.
    pub async fn settle_one(
        &self,
        worker: WorkerId,
        command: Command,
    ) -> Result<Changed, EngineError> {
        let (mut verdicts, _) = self.settle(worker, vec![command], None).await?;
        let lost = || StoreError::OutcomeUnknown("the verdict was lost".into());
        Ok(verdicts.pop().ok_or_else(lost)??)
    }

    fn note_settled(&self, worker: WorkerId, failed: bool) {
        if self.roster.settled(worker, failed, self.now()) {
            self.leave_out(worker);
        }
    }

    /// A worker's breaker has opened.
    pub(super) fn leave_out(&self, worker: WorkerId) {
        tracing::warn!(%worker, "its tasks fail one after the other: it gets no more for a while");
        let store = Arc::clone(&self.store);
        self.errands.spawn(async move {
            // The breaker holds on this server whatever comes of it.
            if let Err(error) = store.direct(worker, Direction::MarkUnhealthy).await {
                tracing::warn!(%error, %worker, "could not be marked as unhealthy");
            }
        });
    }

    /// Carries out commands of operators, producers and maintenance.
    pub async fn execute(
        &self,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Changed, Refusal>>, EngineError> {
        let verdicts = apart(commands, |commands| self.store.execute(commands)).await;
        Ok(verdicts.into_iter().collect::<Result<_, _>>()?)
    }
}

/// Time-outs are counted by the feed, whoever tells of them.
fn is_failure(command: &Command) -> bool {
    match &command.intent {
        Intent::Settle(_, Outcome::Failed { failure, .. }) => failure.kind != ErrorKind::Timeout,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tasklane_core::lifecycle::Rules;
    use tasklane_core::{NewTask, Policies, Selection, TaskId, TaskType, WorkerSpec};
    use tasklane_store::Submission;
    use tasklane_store::conformance::{ManualClock, NaiveStore};

    use super::*;

    async fn submitted(store: &NaiveStore, count: usize) -> Vec<TaskId> {
        let task = NewTask::new(TaskType::new("a").unwrap(), "{}");
        let task = task.resolve(&Policies::default()).unwrap();
        let submission = Submission { tasks: vec![task; count] };
        let verdict = store.submit(vec![submission]).await.unwrap().remove(0).unwrap();
        verdict.iter().map(|task| task.id).collect()
    }

    #[tokio::test]
    async fn of_turns_that_share_a_write_each_gets_its_own_verdicts() {
        let store = NaiveStore::new(Arc::new(ManualClock::default()), Rules::default(), 1);
        let ids = submitted(&store, 3).await;
        let spec = WorkerSpec::new(Selection::default(), 10).unwrap();
        let worker = store.register(spec).await.unwrap();
        let claim = |count| ClaimRequest { worker, count, auto_start: true, narrowed: None };
        let held = store.claim(vec![claim(1)]).await.unwrap().remove(0).unwrap();
        let done = |claimed: &Claimed| {
            let token = claimed.task.state.lease().unwrap().token;
            let intent = Intent::Settle(token, Outcome::Completed("1".into()));
            Command { task: claimed.task.id, intent }
        };
        let nobody = Command { task: ids[2], ..done(&held[0]) };

        let settle = Arc::new(Settle { store: Arc::new(store), errands: TaskTracker::new() });
        let turns = vec![
            Turn { commands: vec![nobody], claim: None },
            Turn { commands: vec![], claim: Some(claim(1)) },
            Turn { commands: vec![done(&held[0])], claim: None },
            Turn { commands: vec![], claim: Some(claim(5)) },
        ];
        let verdicts = settle.call(turns).await.unwrap();
        let settled: Vec<Vec<bool>> =
            verdicts.iter().map(|(own, _)| own.iter().map(Result::is_ok).collect()).collect();
        assert_eq!(settled, [vec![false], vec![], vec![true], vec![]]);
        let claimed: Vec<Option<Vec<TaskId>>> = verdicts
            .iter()
            .map(|(_, claimed)| {
                let tasks = claimed.as_ref()?.as_ref().unwrap();
                Some(tasks.iter().map(|claimed| claimed.task.id).collect())
            })
            .collect();
        assert_eq!(claimed, [None, Some(vec![ids[1]]), None, Some(vec![ids[2]])]);
    }
}
