//! Carrying out commands, each on the state it meets.

use bytes::Bytes;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{Command, Entry, Event, Intent, LeaseToken, Outcome, Refusal, Task};
use tasklane_store::Changed;
use tasklane_store::codec::{self, Before};

use super::Session;
use super::change::Subject;
use crate::board::Leased;
use crate::ended::{Ended, HAS_ALIAS, HAS_KEY, HAS_TRAIL};
use crate::fault::Fault;
use crate::rows;

impl Session<'_> {
    pub(crate) fn execute(
        &mut self,
        commands: &[Command],
    ) -> Result<Vec<Result<Changed, Refusal>>, Fault> {
        let verdicts = commands.iter().map(|command| self.execute_one(command)).collect();
        self.remove_leases()?;
        verdicts
    }

    fn execute_one(&mut self, command: &Command) -> Result<Result<Changed, Refusal>, Fault> {
        let (id, intent) = (command.task, &command.intent);
        let key = id.row_key();
        if self.board.leases.get(key).is_some_and(|leased| leased.task.id == id) {
            return self.execute_leased(key, None, intent);
        }
        self.remove_leases()?;
        let Some(loaded) = rows::load(self.connection, &self.lanes, id)? else {
            return Ok(Err(Refusal::NotFound));
        };
        if self.board.leases.get(loaded.key).is_some() {
            return self.execute_leased(loaded.key, None, intent);
        }
        self.execute_loaded(
            Subject::new(loaded.key, loaded.lane, Box::new(loaded.task), loaded.fresh),
            intent,
        )
    }

    /// On a task that a worker holds: it is on the board, no row need be read. `gone` stands in
    /// for its deadlines when its worker leaves.
    pub(super) fn execute_leased(
        &mut self,
        key: i64,
        gone: Option<Elapsed>,
        intent: &Intent,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let Some(leased) = self.board.leases.get(key) else { return Ok(Err(Refusal::LeaseLost)) };
        let elapsed = gone.unwrap_or_else(|| leased.elapsed(self.tick, &self.rules));
        let moment = Moment { now: self.now, rules: &self.rules, elapsed, key_free: true };
        match lifecycle::decide(&leased.task, intent, &moment, &mut self.random) {
            Ok(Decision::Change(event)) => {
                let Some((leased, carry)) = self.board.leases.end(key) else {
                    return Ok(Err(Refusal::LeaseLost));
                };
                let Leased { lane, task, plain, .. } = leased;
                let carry = Some(carry);
                let subject =
                    Subject { key, lane, task, fresh: false, plain, claimed: false, carry };
                let subject = self.change(subject, event, result_of(intent))?;
                Ok(Ok(changed(&subject.task, false)))
            }
            Ok(Decision::Nothing) => Ok(Ok(changed(&leased.task, true))),
            Err(Refusal::LeaseLost) => self.repeated(key, intent),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// On a task that nobody holds.
    fn execute_loaded(
        &mut self,
        subject: Subject,
        intent: &Intent,
    ) -> Result<Result<Changed, Refusal>, Fault> {
        let (elapsed, key_free) = (Elapsed::default(), self.key_free_for(&subject, intent)?);
        let moment = Moment { now: self.now, rules: &self.rules, elapsed, key_free };
        match lifecycle::decide(&subject.task, intent, &moment, &mut self.random) {
            Ok(Decision::Change(event)) => {
                let subject = match event {
                    Event::Discarded => self.discard(subject, event)?,
                    event => self.change(subject, event, result_of(intent))?,
                };
                Ok(Ok(changed(&subject.task, false)))
            }
            Ok(Decision::Nothing) => Ok(Ok(changed(&subject.task, true))),
            Err(Refusal::LeaseLost) => self.repeated(subject.key, intent),
            Err(refusal) => Ok(Err(refusal)),
        }
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
    fn repeated(&mut self, key: i64, intent: &Intent) -> Result<Result<Changed, Refusal>, Fault> {
        let Some((token, outcome)) = settle_of(intent) else { return Ok(Err(Refusal::LeaseLost)) };
        let (entries, _) = rows::trail(self.connection, key)?;
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
        let Subject { key, lane, task, .. } = &subject;
        let entry = Entry { stamp: self.stamp(), event };
        codec::encode_feed(&mut self.feed.events, (*lane).into(), &Before::of(task), task, &entry);
        let state = task.state.name();
        let Some(ended) = task.state.ended() else {
            return Err(rows::corrupt(*key, "discarded before its end"));
        };
        self.forget_end(*key, *lane, state, ended.at)?;
        let (priority, flags) = (task.spec.priority, HAS_TRAIL | HAS_KEY | HAS_ALIAS);
        self.remove(state, &[Ended { key: *key, lane: *lane, priority, flags }])?;
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
