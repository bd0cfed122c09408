//! Producers: new tasks alone and in batches, and the same again where no answer came.

use std::sync::atomic::{AtomicU64, Ordering};

use tasklane_core::{Random as _, SeededRandom, TaskId};

use super::line::{Caller, Gone};
use super::load::{Known, rest};
use crate::history::{Answer, Operation, Plan};

/// Tasks of one batch at most.
const BATCH_TASKS_MAX: u64 = 12;
/// Ids begin at this time, whenever the test runs: a seed gives the same ids again.
const FIRST_MILLIS: u64 = 1_750_000_000_000;

/// Numbers for ids and keys, used once in a chapter.
#[derive(Debug, Default)]
pub(super) struct Numbers(AtomicU64);

impl Numbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Some ids fall on the row of another one, which the store has to tell apart.
    fn id(&self, random: &mut SeededRandom) -> TaskId {
        let number = self.next();
        let counter = if random.below(40) == 0 { number.saturating_sub(1) } else { number };
        TaskId::generate(FIRST_MILLIS + (counter >> 8), counter, random)
    }

    pub(super) fn plan(&self, random: &mut SeededRandom) -> Plan {
        let (id, body) = (self.id(random), random.next_u64() >> 8);
        let key = (random.below(4) == 0).then(|| format!("key-{}", self.next()).into());
        Plan { id, body, key }
    }
}

/// A client that submits.
#[derive(Debug, Default)]
pub(super) struct Producer {
    /// Sent, and no answer came: it may be there or not (S2).
    unanswered: Option<Vec<Plan>>,
    /// The last that was acknowledged.
    acknowledged: Vec<Plan>,
}

impl Producer {
    /// Submits until the child is gone.
    pub(super) fn run(
        &mut self,
        caller: &dyn Caller,
        connection: usize,
        known: &Known,
        mut random: SeededRandom,
    ) -> Gone {
        loop {
            let plans = self.choose(&known.numbers, &mut random);
            self.unanswered = Some(plans.clone());
            match caller.call(connection, &Operation::Submit(plans)) {
                Err(gone) => return gone,
                Ok(Answer::Submitted(taken)) => {
                    known.submitted(taken.iter().map(|taken| taken.id));
                    self.acknowledged = self.unanswered.take().unwrap_or_default();
                }
                // Nobody knows: it is sent again, as long as somebody listens.
                Ok(Answer::Unknown(_)) => rest(),
                // The checker sees it in the history.
                Ok(_) => self.unanswered = None,
            }
        }
    }

    fn choose(&mut self, numbers: &Numbers, random: &mut SeededRandom) -> Vec<Plan> {
        if let Some(mut plans) = self.unanswered.take()
            && random.below(10) > 0
        {
            // With a key, a client that has forgotten the id may send another one.
            for plan in &mut plans {
                if plan.key.is_some() && random.below(2) == 0 {
                    plan.id = numbers.id(random);
                }
            }
            return plans;
        }
        if !self.acknowledged.is_empty() && random.below(16) == 0 {
            return self.acknowledged.clone();
        }
        let count = if random.below(4) == 0 { 2 + random.below(BATCH_TASKS_MAX - 1) } else { 1 };
        (0..count).map(|_| numbers.plan(random)).collect()
    }
}
