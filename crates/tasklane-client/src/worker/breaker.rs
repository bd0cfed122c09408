//! Breakers for what handlers depend on: closed, open, half-open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When what fails is left alone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it; 5 by default.
    pub failures: u32,
    /// How long it stays open; 30 s by default.
    pub open_for: Duration,
    /// Tasks that may try at once when that time is over; 1 by default.
    pub trials: u32,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(30), trials: 1 }
    }
}

/// The breakers of a worker, by the name of what they guard.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    settings: BreakerSettings,
    states: Mutex<HashMap<Box<str>, State>>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { trials: u32 },
}

/// Whether something may be tried.
pub(super) enum Pass<'a> {
    /// Yes; say how it went.
    Go(Ticket<'a>),
    /// Not for this long.
    Wait(Duration),
}

/// A try that is on its way. One that is dropped says nothing, and frees its place.
pub(super) struct Ticket<'a> {
    breakers: &'a Breakers,
    name: Box<str>,
    told: bool,
}

impl Breakers {
    pub(super) fn new(settings: BreakerSettings) -> Arc<Self> {
        Arc::new(Self { settings, states: Mutex::default() })
    }

    pub(super) fn enter(&self, name: &str) -> Pass<'_> {
        let now = Instant::now();
        let ticket = || Pass::Go(Ticket { breakers: self, name: name.into(), told: false });
        let mut states = self.lock();
        let Some(state) = states.get_mut(name) else {
            states.insert(name.into(), State::Closed { failures: 0 });
            return ticket();
        };
        match *state {
            State::Closed { .. } => ticket(),
            State::Open { until } if until > now => Pass::Wait(until - now),
            State::Open { .. } => {
                *state = State::HalfOpen { trials: 1 };
                ticket()
            }
            State::HalfOpen { trials } if trials < self.settings.trials => {
                *state = State::HalfOpen { trials: trials + 1 };
                ticket()
            }
            // Somebody is trying: look again soon.
            State::HalfOpen { .. } => Pass::Wait(self.settings.open_for.min(TRIAL_WAIT)),
        }
    }

    fn change(&self, name: &str, change: impl FnOnce(&BreakerSettings, State) -> State) {
        if let Some(state) = self.lock().get_mut(name) {
            *state = change(&self.settings, *state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a task waits while another one tries.
const TRIAL_WAIT: Duration = Duration::from_secs(1);

impl Ticket<'_> {
    pub(super) fn went_well(mut self) {
        self.told = true;
        self.breakers.change(&self.name, |_, _| State::Closed { failures: 0 });
    }

    pub(super) fn failed(mut self) {
        self.told = true;
        self.breakers.change(&self.name, |settings, state| {
            let open = State::Open { until: Instant::now() + settings.open_for };
            match state {
                State::Closed { failures } if failures + 1 < settings.failures => {
                    State::Closed { failures: failures + 1 }
                }
                State::Closed { .. } | State::HalfOpen { .. } => open,
                // One of those that were on their way when it opened.
                State::Open { until } => State::Open { until },
            }
        });
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        self.breakers.change(&self.name, |_, state| match state {
            State::HalfOpen { trials } => State::HalfOpen { trials: trials.saturating_sub(1) },
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breakers() -> Arc<Breakers> {
        let open_for = Duration::from_secs(10);
        Breakers::new(BreakerSettings { failures: 2, open_for, trials: 1 })
    }

    fn enter<'a>(breakers: &'a Breakers, name: &str) -> Option<Ticket<'a>> {
        match breakers.enter(name) {
            Pass::Go(ticket) => Some(ticket),
            Pass::Wait(_) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_a_trial_closes_it() {
        let breakers = breakers();
        enter(&breakers, "smtp").unwrap().failed();
        enter(&breakers, "smtp").unwrap().went_well();
        enter(&breakers, "smtp").unwrap().failed();
        enter(&breakers, "smtp").unwrap().failed();
        assert!(enter(&breakers, "smtp").is_none());
        assert!(enter(&breakers, "http").is_some(), "another name, another breaker");
        tokio::time::advance(Duration::from_secs(11)).await;
        let trial = enter(&breakers, "smtp").unwrap();
        assert!(enter(&breakers, "smtp").is_none(), "one trial at a time");
        trial.went_well();
        assert!(enter(&breakers, "smtp").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_fails_opens_it_again_and_one_that_is_given_up_frees_its_place() {
        let breakers = breakers();
        for _ in 0..2 {
            enter(&breakers, "smtp").unwrap().failed();
        }
        tokio::time::advance(Duration::from_secs(11)).await;
        drop(enter(&breakers, "smtp").unwrap());
        enter(&breakers, "smtp").unwrap().failed();
        assert!(enter(&breakers, "smtp").is_none());
    }
}
