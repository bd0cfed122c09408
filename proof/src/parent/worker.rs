//! Workers and operators: what is done to tasks once they are there.

use tasklane_core::{SeededRandom, StateName, TaskId, WorkerId};

use super::line::{Caller, Gone};
use super::load::{Known, rest};
use crate::history::{Answer, Ending, Hold, Operation};

/// Tasks of one claim at most.
const CLAIM_TASKS_MAX: u64 = 3;
/// Claims after one of which, on average, a worker is killed.
const CLAIMS_OF_A_LIFE: u64 = 200;

/// A client that claims. It outlives the child: it goes on with what it holds.
#[derive(Debug, Default)]
pub(super) struct Worker {
    id: Option<WorkerId>,
    work: Vec<Work>,
}

/// A claimed task in the worker's hands.
#[derive(Debug, Clone, Copy)]
struct Work {
    hold: Hold,
    started: bool,
    /// Decided, and perhaps already sent: a repeat must say the same.
    ending: Option<Ending>,
}

impl Worker {
    /// Works until the child is gone.
    pub(super) fn run(
        &mut self,
        caller: &dyn Caller,
        connection: usize,
        known: &Known,
        mut random: SeededRandom,
    ) -> Gone {
        loop {
            if random.below(CLAIMS_OF_A_LIFE) == 0 {
                // As a killed process does: what it held is nobody's, and another comes in its place.
                *self = Self::default();
            }
            let round = self
                .finish(caller, connection, known, &mut random)
                .and_then(|()| self.claim(caller, connection, &mut random));
            if let Err(gone) = round {
                return gone;
            }
        }
    }

    fn claim(
        &mut self,
        caller: &dyn Caller,
        connection: usize,
        random: &mut SeededRandom,
    ) -> Result<(), Gone> {
        let Some(worker) = self.id else {
            if let Answer::Registered(id) = caller.call(connection, &Operation::Register)? {
                self.id = Some(id);
            }
            return Ok(());
        };
        let count = 1 + random.below(CLAIM_TASKS_MAX) as usize;
        let auto_start = random.below(3) > 0;
        let claim = Operation::Claim { worker, count, auto_start };
        match caller.call(connection, &claim)? {
            Answer::Claimed(grants) => self.work.extend(grants.iter().map(|grant| {
                let hold = Hold { task: grant.task, token: grant.token };
                Work { hold, started: auto_start, ending: None }
            })),
            Answer::Unknown(_) => rest(),
            // Declared dead: a new life begins with a new id.
            _ => self.id = None,
        }
        Ok(())
    }

    fn finish(
        &mut self,
        caller: &dyn Caller,
        connection: usize,
        known: &Known,
        random: &mut SeededRandom,
    ) -> Result<(), Gone> {
        while let Some(work) = self.work.last_mut() {
            let forgets = work.ending.is_none() && random.below(12) == 0;
            if forgets || !work.start(caller, connection)? {
                self.work.pop();
                continue;
            }
            let ending = *work.ending.get_or_insert_with(|| choose(random));
            let settle = Operation::Settle(work.hold, ending);
            let answer = caller.call(connection, &settle)?;
            if let Answer::Unknown(_) = answer {
                // Decided, and told again.
                rest();
                return Ok(());
            }
            known.changed(work.hold.task, &answer);
            if random.below(8) == 0 {
                caller.call(connection, &settle)?;
            }
            self.work.pop();
        }
        Ok(())
    }
}

impl Work {
    /// Whether the task is still the worker's, and running.
    fn start(&mut self, caller: &dyn Caller, connection: usize) -> Result<bool, Gone> {
        if !self.started {
            let answer = caller.call(connection, &Operation::Start(self.hold))?;
            self.started = matches!(answer, Answer::Changed { .. });
        }
        Ok(self.started)
    }
}

fn choose(random: &mut SeededRandom) -> Ending {
    match random.below(32) {
        0..=20 => Ending::Completed,
        21..=24 => Ending::Failed,
        25 => Ending::FailedForGood,
        26 => Ending::Cancelled,
        27..=29 => Ending::Released,
        _ => Ending::Delayed,
    }
}

/// Cancels what was submitted and revives what ended without success, until the child is gone.
pub(super) fn operate(
    caller: &dyn Caller,
    connection: usize,
    known: &Known,
    mut random: SeededRandom,
) -> Gone {
    loop {
        let retries = random.below(3) == 0;
        let chosen: Option<TaskId> = match retries {
            true => known.pick_ended(&mut random),
            false => known.pick_submitted(&mut random),
        };
        let operation = match chosen {
            Some(task) if retries => Operation::Retry(task),
            Some(task) => Operation::Cancel(task),
            // Nothing to operate on yet.
            None => Operation::Submit(vec![known.numbers.plan(&mut random)]),
        };
        match (caller.call(connection, &operation), chosen) {
            (Err(gone), _) => return gone,
            (Ok(answer), Some(task)) => known.changed(task, &answer),
            (Ok(_), None) => {}
        }
    }
}

/// Ends that an operator may undo.
pub(super) const fn may_be_revived(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Changed {
            state: StateName::Failed | StateName::Cancelled | StateName::DeadLetter,
            ..
        }
    )
}
