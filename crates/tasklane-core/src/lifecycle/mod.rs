//! The transitions of a task as pure functions: a command on a state gives an event or a refusal.
//!
//! `decide` says what would happen and changes nothing; [`Task::apply`](crate::Task::apply) makes
//! it happen and is the only code that changes a task. Stores do both inside one atomic write.

mod admit;
mod apply;
mod claim;
mod lapse;
mod operate;
mod settle;

pub use admit::{admit, check_admission};
pub use apply::Illegal;
pub use claim::{Claim, claim};
pub use settle::{Repeat, repeated};

use std::time::Duration;

use crate::command::Intent;
use crate::error::{Invalid, Refusal};
use crate::event::Event;
use crate::failure::KindLimits;
use crate::id::LeaseToken;
use crate::limits::LEASE_MIN;
use crate::random::Random;
use crate::state::Lease;
use crate::task::Task;
use crate::time::Timestamp;

/// The numbers that transitions follow; configurable, the same for every task of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// How long a lease lasts without a sign of life (S5).
    pub lease: Duration,
    /// How long a worker may be silent before it is dead: three heartbeats (S5).
    pub silence: Duration,
    /// How long a claimed task may wait for its start (S6).
    pub assignment: Duration,
    /// Leases lost in a row that make a task poison (S6).
    pub lease_losses_max: u32,
    /// How long a worker does not get back what it released (S8).
    pub withhold: Duration,
    /// What a timeout is multiplied by after it was too short (S11).
    pub timeout_growth: f64,
    /// What the growth does not pass.
    pub timeout_growth_max: Duration,
    /// Retries by kind of failure (S12).
    pub kinds: KindLimits,
}

impl Rules {
    /// Checks the ranges.
    pub fn check(&self) -> Result<(), Invalid> {
        let require = |fits: bool, field, expected| {
            if fits { Ok(()) } else { Err(Invalid::out_of_range(field, expected)) }
        };
        require(self.lease >= LEASE_MIN, "rules.lease", "at least 10 ms")?;
        require(self.silence >= LEASE_MIN, "rules.silence", "at least 10 ms")?;
        require(!self.assignment.is_zero(), "rules.assignment", "longer than nothing")?;
        require(self.lease_losses_max >= 1, "rules.lease_losses_max", "at least 1")?;
        let growth = (1.0..=100.0).contains(&self.timeout_growth);
        require(growth, "rules.timeout_growth", "1 to 100")
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            assignment: Duration::from_secs(30),
            lease_losses_max: 5,
            withhold: Duration::from_secs(1),
            timeout_growth: 1.5,
            timeout_growth_max: Duration::from_secs(3_600),
            kinds: KindLimits::default(),
        }
    }
}

/// What a store knows at the moment of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The store's wall time.
    pub now: Timestamp,
    /// The numbers to follow.
    pub rules: &'a Rules,
    /// Which of the task's running deadlines have passed on the clock that counts them.
    pub elapsed: Elapsed,
    /// No other live task has this one's ordering key.
    pub key_free: bool,
}

/// Deadlines that only a store can tell, because its clock counts them (S7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// The lease has ended.
    pub lease: bool,
    /// The execution timeout has passed.
    pub execution: bool,
    /// The time for starting has passed, or the worker has left.
    pub assignment: bool,
}

/// What comes of a command that is not refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// This happens.
    Change(Event),
    /// It is already so: answer with success, write nothing.
    Nothing,
}

/// What `intent` does to `task` at this moment.
pub fn decide(
    task: &Task,
    intent: &Intent,
    moment: &Moment<'_>,
    random: &mut impl Random,
) -> Result<Decision, Refusal> {
    match intent {
        Intent::Start(token) => settle::start(task, token),
        Intent::Progress(token, progress) => settle::progress(task, token, progress, moment),
        Intent::Settle(token, outcome) => settle::settle(task, token, outcome, moment, random),
        Intent::ComeDue => lapse::come_due(task, moment),
        Intent::Expire => lapse::expire(task, moment),
        Intent::LoseLease(token) => lapse::lose_lease(task, token, moment),
        Intent::TimeOut(token) => lapse::time_out(task, token, moment, random),
        Intent::Unassign(token) => lapse::unassign(task, token, moment),
        Intent::Cancel => operate::cancel(task),
        Intent::Refuse(why) => operate::refuse(task, why),
        Intent::Retry { reset_attempts, priority } => {
            operate::retry(task, *reset_attempts, *priority, moment)
        }
        Intent::Requeue => operate::requeue(task),
        Intent::Update(update) => operate::update(task, update, moment),
        Intent::Discard => operate::discard(task),
    }
}

/// What happens to a blocked task when the one before it has ended.
pub fn unblock(task: &Task) -> Result<Decision, Refusal> {
    match task.state {
        crate::State::Blocked => Ok(Decision::Change(Event::Unblocked)),
        _ => Err(invalid_state(task)),
    }
}

/// The lease that `token` proves, or the refusal that every stale or forged token gets.
fn held<'a>(task: &'a Task, token: &LeaseToken) -> Result<&'a Lease, Refusal> {
    task.state.lease().filter(|lease| lease.token == *token).ok_or(Refusal::LeaseLost)
}

const fn invalid_state(task: &Task) -> Refusal {
    Refusal::InvalidState { current: task.state.name() }
}
