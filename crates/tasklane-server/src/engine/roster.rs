//! What this server knows of workers beyond the store: how their last tasks ended, and what they
//! reported of their machines.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tasklane_core::{Health, Timestamp, Worker, WorkerId, WorkerSpec, WorkerState};
use tasklane_store::{Direction, WorkerChange};

use super::breaker::Breaker;
use super::claim::Directive;
use crate::settings::LiveSettings;

/// What a worker may have right now.
pub(super) struct Leave {
    /// So many tasks.
    pub(super) count: usize,
    /// What it should do besides.
    pub(super) directive: Directive,
    /// What it takes, where that is known.
    pub(super) spec: Option<Arc<WorkerSpec>>,
}

#[derive(Debug, Default)]
struct Member {
    spec: Option<Arc<WorkerSpec>>,
    state: WorkerState,
    breaker: Breaker,
    /// Reports in a row over a limit.
    strikes: u32,
    /// Since when it has been seen as unhealthy.
    unhealthy_since: Option<Timestamp>,
    /// When it came, among all that came.
    number: u64,
}

/// The workers this server has heard of. The store is the truth; this is a cache and a memory.
#[derive(Debug)]
pub(super) struct Roster {
    settings: LiveSettings,
    members: Mutex<HashMap<WorkerId, Member>>,
    /// How many came.
    arrivals: AtomicU64,
}

impl Roster {
    pub(super) fn new(settings: LiveSettings) -> Self {
        Self { settings, members: Mutex::default(), arrivals: AtomicU64::new(0) }
    }

    /// How much of what it wants a worker may have. An unknown one is the store's to refuse.
    pub(super) fn leave(&self, worker: WorkerId, wanted: usize) -> Leave {
        let members = self.lock();
        let Some(member) = members.get(&worker) else {
            return Leave { count: wanted, directive: Directive::None, spec: None };
        };
        let directive = Directive::of(member.state);
        let count = if directive == Directive::None { member.breaker.allows(wanted) } else { 0 };
        Leave { count, directive, spec: member.spec.clone() }
    }

    /// Tasks were handed to a worker.
    pub(super) fn took(&self, worker: WorkerId, count: usize) {
        if count == 0 {
            return;
        }
        if let Some(member) = self.lock().get_mut(&worker) {
            member.breaker.took(count);
        }
    }

    /// A task of a worker ended. Says whether its breaker opened with that.
    pub(super) fn settled(&self, worker: WorkerId, failed: bool, now: Timestamp) -> bool {
        let settings = self.settings.now();
        let mut members = self.lock();
        match members.get_mut(&worker) {
            Some(member) => member.breaker.settled(failed, now, &settings.breaker),
            None => false,
        }
    }

    /// A worker reported its health. Says what should follow, if anything.
    pub(super) fn reported(
        &self,
        worker: WorkerId,
        state: WorkerState,
        health: Option<Health>,
    ) -> Option<Direction> {
        let limits = self.settings.now().health;
        let mut members = self.lock();
        let member = members.entry(worker).or_default();
        member.state = state;
        let health = health.filter(|h| h.cpu_percent.is_some() || h.memory_percent.is_some())?;
        let over = health.memory_percent.is_some_and(|now| now > limits.memory_percent)
            || health.cpu_percent.is_some_and(|now| now > limits.cpu_percent);
        member.strikes = if over { member.strikes.saturating_add(1) } else { 0 };
        let open = matches!(member.breaker, Breaker::Open { .. });
        match state {
            WorkerState::Active if member.strikes >= limits.reports => {
                Some(Direction::MarkUnhealthy)
            }
            WorkerState::Unhealthy if !over && !open => Some(Direction::Recover),
            _ => None,
        }
    }

    /// The feed tells of a worker.
    pub(super) fn heard(&self, worker: WorkerId, change: WorkerChange) {
        match change {
            WorkerChange::Joined => {}
            WorkerChange::Resumed => self.changed(worker, WorkerState::Active),
            WorkerChange::Paused => self.changed(worker, WorkerState::Paused),
            WorkerChange::Draining => self.changed(worker, WorkerState::Draining),
            WorkerChange::Unhealthy => self.changed(worker, WorkerState::Unhealthy),
            WorkerChange::Left | WorkerChange::Dead => self.left(worker),
        }
    }

    /// A worker's state changed.
    pub(super) fn changed(&self, worker: WorkerId, state: WorkerState) {
        self.lock().entry(worker).or_default().state = state;
    }

    /// A worker registered here.
    pub(super) fn joined(&self, worker: WorkerId, spec: WorkerSpec) {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed) + 1;
        let mut members = self.lock();
        let member = members.entry(worker).or_default();
        (member.spec, member.number) = (Some(Arc::new(spec)), number);
    }

    /// A worker starts anew.
    pub(super) fn forgive(&self, worker: WorkerId) {
        if let Some(member) = self.lock().get_mut(&worker) {
            (member.breaker, member.strikes) = (Breaker::default(), 0);
        }
    }

    /// A worker is gone for good.
    pub(super) fn left(&self, worker: WorkerId) {
        self.lock().remove(&worker);
    }

    /// The state a worker was last seen in.
    pub(super) fn state(&self, worker: WorkerId) -> Option<WorkerState> {
        self.lock().get(&worker).map(|member| member.state)
    }

    /// What a worker said of itself, where that is known.
    pub(super) fn spec(&self, worker: WorkerId) -> Option<Arc<WorkerSpec>> {
        self.lock().get(&worker)?.spec.clone()
    }

    /// A worker's breaker.
    pub(super) fn breaker(&self, worker: WorkerId) -> Breaker {
        self.lock().get(&worker).map(|member| member.breaker).unwrap_or_default()
    }

    /// How many breakers are open.
    pub(super) fn open_breakers(&self) -> usize {
        let open = |member: &&Member| matches!(member.breaker, Breaker::Open { .. });
        self.lock().values().filter(open).count()
    }

    /// How many have come so far: to be asked before the store is.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Takes over what the store knows, and gives the unhealthy workers that nothing speaks against
    /// any more. Who came after the first `arrivals` may be missing from the store's list and is kept.
    pub(super) fn refresh(
        &self,
        workers: &[Worker],
        arrivals: u64,
        now: Timestamp,
    ) -> Vec<WorkerId> {
        let settings = self.settings.now().breaker;
        let mut members = self.lock();
        let mut known: HashMap<WorkerId, Member> = std::mem::take(&mut members);
        let mut over = Vec::new();
        for worker in workers {
            let mut member = known.remove(&worker.id).unwrap_or_default();
            member.state = worker.state;
            if member.spec.is_none() {
                member.spec = Some(Arc::new(worker.spec.clone()));
            }
            member.breaker.try_again(now, &settings);
            if worker.state != WorkerState::Unhealthy {
                member.unhealthy_since = None;
            } else if member.strikes == 0 {
                let since = *member.unhealthy_since.get_or_insert(now);
                let recovers = match member.breaker {
                    Breaker::Open { .. } => false,
                    Breaker::HalfOpen { .. } => true,
                    // Not this server's doing: another one knows why, or knew and is gone.
                    Breaker::Closed { .. } => now.since(since) >= settings.open_for,
                };
                if recovers {
                    over.push(worker.id);
                }
            }
            members.insert(worker.id, member);
        }
        members.extend(known.into_iter().filter(|(_, member)| member.number > arrivals));
        over
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{BreakerSettings, Settings};
    use tasklane_core::Selection;

    #[test]
    fn who_came_while_the_store_was_asked_is_not_forgotten() {
        let breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let settings = Settings { breaker, ..Settings::default() };
        let roster = Roster::new(LiveSettings::new(settings));
        let (now, worker) = (Timestamp::EPOCH, WorkerId::from_bytes([1; 16]));
        let before = roster.arrivals();
        roster.joined(worker, WorkerSpec::new(Selection::default(), 1).unwrap());
        assert!(!roster.settled(worker, true, now));
        roster.refresh(&[], before, now);
        assert!(roster.settled(worker, true, now), "its failures still count");
        roster.refresh(&[], roster.arrivals(), now);
        assert_eq!(roster.state(worker), None, "who has gone is forgotten");
    }

    #[test]
    fn what_another_server_marked_is_left_to_it_for_the_time_of_a_breaker() {
        let roster = Roster::new(LiveSettings::new(Settings::default()));
        let id = WorkerId::from_bytes([1; 16]);
        let worker = Worker {
            id,
            spec: WorkerSpec::new(Selection::default(), 1).unwrap(),
            state: WorkerState::Unhealthy,
            registered_at: Timestamp::EPOCH,
            seen_at: Timestamp::EPOCH,
            leases: 0,
            health: Health::default(),
        };
        let at = |seconds| Timestamp::EPOCH.plus(std::time::Duration::from_secs(seconds));
        let refresh = |seconds| roster.refresh(std::slice::from_ref(&worker), 0, at(seconds));
        assert_eq!((refresh(10), refresh(69)), (vec![], vec![]));
        assert_eq!(refresh(70), [id]);
    }
}
