//! Commands.

use tasklane_core::lifecycle::{self, Decision};
use tasklane_core::{Command, Event, Intent, Outcome, Refusal, Task};

use super::memory::{Memory, Now, Record};
use crate::request::Changed;

impl Memory {
    pub(super) fn execute(&mut self, command: &Command, now: Now) -> Result<Changed, Refusal> {
        let record = self.tasks.get(&command.task).ok_or(Refusal::NotFound)?;
        let mut random = self.random.clone();
        let moment = self.moment(record, now);
        let decision = lifecycle::decide(&record.task, &command.intent, &moment, &mut random);
        let unchanged = changed(&record.task, true);
        let event = match decision {
            Ok(Decision::Change(event)) => event,
            Ok(Decision::Nothing) => return Ok(unchanged),
            Err(Refusal::LeaseLost) => {
                return repeated(record, &command.intent).ok_or(Refusal::LeaseLost);
            }
            Err(refusal) => return Err(refusal),
        };
        self.random = random;
        let discarded = event == Event::Discarded;
        self.happen(command.task, event, now);
        let record = self.tasks.get_mut(&command.task).expect("it was there");
        if let (Intent::Settle(_, Outcome::Completed(result)), None) =
            (&command.intent, &record.result)
        {
            record.result = Some(result.clone());
        }
        let answer = changed(&record.task, false);
        if discarded {
            self.remove(command.task);
        }
        Ok(answer)
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

/// The answer that an earlier settle with the same token and outcome got.
fn repeated(record: &Record, intent: &Intent) -> Option<Changed> {
    let Intent::Settle(token, outcome) = intent else { return None };
    let repeat = lifecycle::repeated(&record.entries, token, outcome.digest())?;
    let lifecycle::Repeat { state, due_at } = repeat;
    Some(Changed { state, due_at, cancel_requested: false, repeated: true })
}
