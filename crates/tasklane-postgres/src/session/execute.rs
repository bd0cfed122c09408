//! Carrying out commands, each on the state it meets.

use bytes::Bytes;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{Command, Intent, LeaseToken, Outcome, Refusal, Task, TaskId};
use tasklane_store::Changed;
use tokio_postgres::types::Type;

use super::Session;
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    pub(crate) async fn execute(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<Changed, Refusal>>, Fault> {
        let ids: Vec<TaskId> = commands.iter().map(|command| command.task).collect();
        for command in commands {
            if let Some(subject) = self.shared.held.take(command) {
                self.work.entry(command.task).or_insert(subject);
            }
        }
        self.load_with_keys(&ids).await?;
        let mut verdicts = Vec::with_capacity(commands.len());
        for command in commands {
            verdicts.push(self.execute_one(command.task, &command.intent, None).await?);
        }
        Ok(verdicts)
    }

    /// `gone` stands in for a task's deadlines when its worker leaves.
    pub(super) async fn execute_one(
        &mut self,
        id: TaskId,
        intent: &Intent,
        gone: Option<Elapsed>,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let there = self.work.get(&id).filter(|subject| !subject.is_discarded);
        let Some(subject) = there else { return Ok(Err(Refusal::NotFound)) };
        let elapsed = gone.unwrap_or_else(|| subject.elapsed(self.now));
        let key = subject.task.spec.ordering_key.clone().map(|key| (subject.queue, key));
        let key_free = match (intent, key) {
            (Intent::Retry { .. }, Some((queue, key))) => {
                self.lock_keys(vec![(queue, key.as_str().into())]).await?;
                self.key_is_free(queue, key.as_str()).await?
            }
            _ => true,
        };
        let moment = Moment { now: self.now, rules: &self.shared.rules, elapsed, key_free };
        let subject = self.subject(id)?;
        let task = &subject.task;
        let decision = lifecycle::decide(task, intent, &moment, &mut self.random());
        if subject.guard.is_some() && !subject.is_changed && !is_change(&decision) {
            // What is only remembered can be written, if it is still so, and nothing else.
            self.work.remove(&id);
            self.load_with_keys(&[id]).await?;
            return Box::pin(self.execute_one(id, intent, gone)).await;
        }
        match decision {
            Ok(Decision::Change(event)) => {
                self.happen(id, event, result_of(intent)).await?;
                let subject = self.subject(id)?;
                let answer = changed(&subject.task, false);
                if subject.is_discarded {
                    self.remember_end(id).await?;
                }
                Ok(Ok(answer))
            }
            Ok(Decision::Nothing) => Ok(Ok(changed(task, true))),
            Err(Refusal::LeaseLost) => self.repeated(id, intent).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// A settle whose token is not the current one may be the repetition of one that succeeded.
    async fn repeated(
        &mut self,
        id: TaskId,
        intent: &Intent,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let Some((token, outcome)) = settle_of(intent) else { return Ok(Err(Refusal::LeaseLost)) };
        let sql = "SELECT entry FROM trail WHERE id = $1 ORDER BY sequence";
        let found = self.transaction.query(sql, &[(&rows::uuid(id), Type::UUID)]).await?;
        let (mut entries, _) = rows::entries(found.iter().map(|row| row.get(0)))?;
        entries.extend(self.subject(id)?.entries.iter().cloned());
        let repeat = lifecycle::repeated(&entries, token, outcome.digest());
        Ok(repeat.ok_or(Refusal::LeaseLost).map(|repeat| Changed {
            state: repeat.state,
            due_at: repeat.due_at,
            cancel_requested: false,
            repeated: true,
        }))
    }

    /// The idempotency record of a task that is removed learns how it ended.
    async fn remember_end(&self, id: TaskId) -> Result<(), Fault> {
        let subject = self.subject(id)?;
        let Some(key) = &subject.task.spec.idempotency_key else { return Ok(()) };
        let (key, state) = (key.as_str(), subject.task.state.name().index() as i16);
        let sql = "UPDATE idempotency SET ended = $1
                   WHERE queue = $2 AND key = $3 AND id = $4 AND ended IS NULL";
        let parameters = [
            (&state as _, Type::INT2),
            (&subject.queue as _, Type::INT4),
            (&key as _, Type::TEXT),
            (&rows::uuid(id) as _, Type::UUID),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }
}

const fn is_change(decision: &Result<Decision, Refusal>) -> bool {
    matches!(decision, Ok(Decision::Change(_)))
}

fn result_of(intent: &Intent) -> Option<Bytes> {
    match settle_of(intent) {
        Some((_, Outcome::Completed(result))) => Some(result.clone()),
        _ => None,
    }
}

const fn settle_of(intent: &Intent) -> Option<(&LeaseToken, &Outcome)> {
    match intent {
        Intent::Settle(token, outcome) => Some((token, outcome)),
        _ => None,
    }
}

fn changed(task: &Task, repeated: bool) -> Changed {
    Changed {
        state: task.state.name(),
        due_at: task.state.due_at(),
        cancel_requested: task.state.lease().is_some_and(|lease| lease.cancel_requested.is_some()),
        repeated,
    }
}
