//! Carrying out commands, each on the state it meets.

use bytes::Bytes;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{Command, Event, Intent, LeaseToken, Outcome, Refusal, Task, TaskId};
use tasklane_store::Changed;

use super::Session;
use super::change::{EndedRow, HAS_ALIAS, HAS_KEY, HAS_TRAIL, Subject};
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    pub(crate) fn execute(
        &mut self,
        commands: Vec<Command>,
    ) -> Result<Vec<Result<Changed, Refusal>>, Fault> {
        commands.iter().map(|command| self.execute_one(command)).collect()
    }

    fn execute_one(&mut self, command: &Command) -> Result<Result<Changed, Refusal>, Fault> {
        let Some((subject, elapsed)) = self.subject(command.task)? else {
            return Ok(Err(Refusal::NotFound));
        };
        self.carry_out(subject, elapsed, &command.intent)
    }

    /// Lets core decide on a task as it is, and makes what comes of it.
    pub(super) fn carry_out(
        &mut self,
        subject: Subject,
        elapsed: Elapsed,
        intent: &Intent,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let key_free = self.key_free_for(&subject, intent)?;
        let moment = Moment { now: self.now, rules: &self.rules, elapsed, key_free };
        match lifecycle::decide(&subject.task, intent, &moment, &mut self.random) {
            Ok(Decision::Change(event)) => {
                let discarded = matches!(event, Event::Discarded);
                let subject = if discarded {
                    self.discard(subject, event)?
                } else {
                    self.change(subject, event, result_of(intent))?
                };
                Ok(Ok(changed(&subject.task, false)))
            }
            Ok(Decision::Nothing) => Ok(Ok(changed(&subject.task, true))),
            Err(Refusal::LeaseLost) => self.repeated(&subject, intent),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// A task by its id, and which of its deadlines have passed.
    fn subject(&mut self, id: TaskId) -> Result<Option<(Subject, Elapsed)>, Fault> {
        let key = id.row_key();
        if let Some(found) = self.leased(key).filter(|(subject, _)| subject.task.id == id) {
            return Ok(Some(found));
        }
        let Some(loaded) = rows::load(self.connection, &self.lanes, id)? else { return Ok(None) };
        if let Some(found) = self.leased(loaded.key) {
            return Ok(Some(found));
        }
        let subject = Subject::new(loaded.key, loaded.lane, loaded.task, loaded.fresh);
        Ok(Some((subject, Elapsed::default())))
    }

    pub(super) fn leased(&self, key: i64) -> Option<(Subject, Elapsed)> {
        let leased = self.board.leases.get(key)?;
        let elapsed = leased.elapsed(self.tick, &self.rules);
        let (lane, task, plain) = (leased.lane, leased.task.clone(), leased.plain);
        Some((Subject { key, lane, task, fresh: false, plain, claimed: false }, elapsed))
    }

    fn key_free_for(&self, subject: &Subject, intent: &Intent) -> Result<bool, Fault> {
        match (intent, &subject.task.spec.ordering_key) {
            (Intent::Retry { .. }, Some(ordering)) => {
                let queue = self.board.lane(subject.lane)?.queue;
                self.key_is_free(queue, ordering.as_str())
            }
            _ => Ok(true),
        }
    }

    /// A settle whose token is not the current one may be the repetition of one that succeeded.
    fn repeated(
        &mut self,
        subject: &Subject,
        intent: &Intent,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let Some((token, outcome)) = settle_of(intent) else { return Ok(Err(Refusal::LeaseLost)) };
        let (entries, _) = rows::trail(self.connection, subject.key)?;
        let repeat = lifecycle::repeated(&entries, token, outcome.digest());
        Ok(repeat.ok_or(Refusal::LeaseLost).map(|repeat| Changed {
            state: repeat.state,
            due_at: repeat.due_at,
            cancel_requested: false,
            repeated: true,
        }))
    }

    /// Tells of the removal, then removes.
    fn discard(&mut self, subject: Subject, event: Event) -> Result<Subject, Fault> {
        let lane = subject.lane;
        let entry = tasklane_core::Entry { stamp: self.stamp(), event };
        let (task, events) = (&subject.task, &mut self.feed.events);
        tasklane_store::codec::encode_feed(events, lane.into(), task, task, &entry);
        let Some(ended) = task.state.ended() else {
            return Err(rows::corrupt(subject.key, "discarded before its end"));
        };
        self.remove(&EndedRow {
            key: subject.key,
            state: task.state.name(),
            queue: self.board.lane(lane)?.queue,
            at: ended.at.as_micros(),
            lane,
            priority: task.spec.priority,
            flags: HAS_TRAIL | HAS_KEY | HAS_ALIAS,
        })?;
        Ok(subject)
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
