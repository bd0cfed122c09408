//! Commands.

use bytes::Bytes;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{
    Command, Entry, Event, Intent, LeaseToken, Outcome, Refusal, State, Task, TaskId,
};
use tasklane_store::{Changed, codec};

use super::Session;
use crate::fault::Fault;
use crate::keys::Key;

impl Session<'_> {
    pub(crate) fn execute(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<Changed, Refusal>>, Fault> {
        commands
            .iter()
            .map(|command| self.execute_one(command.task, &command.intent, None))
            .collect()
    }

    /// `gone` stands in for its deadlines when its worker leaves.
    pub(super) fn execute_one(
        &mut self,
        id: TaskId,
        intent: &Intent,
        gone: Option<Elapsed>,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let Some(stored) = self.task(id)? else { return Ok(Err(Refusal::NotFound)) };
        let task = stored.task.clone();
        let elapsed = match gone {
            Some(elapsed) => elapsed,
            None => self.elapsed(id, intent)?,
        };
        let key_free = match (intent, self.line(&task)?) {
            (Intent::Retry { .. }, Some(line)) => self.is_line_empty(&line),
            _ => true,
        };
        let rules = *self.rules;
        let moment = Moment { now: self.now, rules: &rules, elapsed, key_free };
        match lifecycle::decide(&task, intent, &moment, self.random) {
            Ok(Decision::Change(Event::Discarded)) => {
                self.discard(id, &task)?;
                Ok(Ok(changed(&task, false)))
            }
            Ok(Decision::Change(event)) => {
                self.change(id, event, result_of(intent))?;
                let after = self.task(id)?.map_or(task, |stored| stored.task.clone());
                Ok(Ok(changed(&after, false)))
            }
            Ok(Decision::Nothing) => Ok(Ok(changed(&task, true))),
            Err(Refusal::LeaseLost) => self.repeated(id, intent),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Which deadlines of a held task have passed, as far as the intent asks.
    pub(super) fn elapsed(&mut self, id: TaskId, intent: &Intent) -> Result<Elapsed, Fault> {
        if !matches!(intent, Intent::LoseLease(_) | Intent::TimeOut(_) | Intent::Unassign(_)) {
            return Ok(Elapsed::default());
        }
        let Some(stored) = self.task(id)? else { return Ok(Elapsed::default()) };
        let (task, renewed) = (stored.task.clone(), stored.renewed);
        let Some(lease) = task.state.lease() else { return Ok(Elapsed::default()) };
        let lease_ends = renewed.lease_ends(self.renewed(lease.worker)?, self.rules);
        let started = lease.started.filter(|_| matches!(task.state, State::Running(_)));
        let is_assigned = matches!(task.state, State::Assigned(_));
        Ok(Elapsed {
            lease: lease_ends <= self.now,
            execution: started.is_some_and(|started| started.at.plus(task.timeout) <= self.now),
            assignment: is_assigned && lease.claimed.at.plus(self.rules.assignment) <= self.now,
        })
    }

    /// A settle whose token is not the current one may be the repetition of one that succeeded.
    fn repeated(&mut self, id: TaskId, intent: &Intent) -> Result<Result<Changed, Refusal>, Fault> {
        let Some((token, outcome)) = settle_of(intent) else { return Ok(Err(Refusal::LeaseLost)) };
        let entries = self.trail(id)?;
        let repeat = lifecycle::repeated(&entries, token, outcome.digest());
        Ok(repeat.ok_or(Refusal::LeaseLost).map(|repeat| Changed {
            state: repeat.state,
            due_at: repeat.due_at,
            cancel_requested: false,
            repeated: true,
        }))
    }

    fn trail(&mut self, id: TaskId) -> Result<Vec<Entry>, Fault> {
        let entries = self.task(id)?.map(|stored| stored.entries.clone()).unwrap_or_default();
        crate::trail::unpack(entries.or_read(|| self.field(&Key::Trail, id.as_bytes())))
    }

    /// Tells of the removal, then removes.
    fn discard(&mut self, id: TaskId, task: &Task) -> Result<(), Fault> {
        let entry = Entry { stamp: self.stamp(), event: Event::Discarded };
        let lane = self.task(id)?.map_or(0, |stored| stored.lane);
        let before = codec::Before::of(task);
        codec::encode_feed(&mut self.events, lane.into(), &before, task, &entry);
        self.remove(id)?;
        Ok(())
    }
}

fn result_of(intent: &Intent) -> Option<&Bytes> {
    match settle_of(intent) {
        Some((_, Outcome::Completed(result))) => Some(result),
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
