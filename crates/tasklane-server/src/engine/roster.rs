//! What this server knows of workers beyond the store: how their last tasks ended, and what they
//! reported of their machines.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tasklane_core::{Health, Timestamp, Worker, WorkerId, WorkerSpec, WorkerState};
use tasklane_store::{Direction, WorkerChange};
use tokio::sync::Notify;

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
    /// When this server last learnt something of it.
    number: u64,
}

/// The workers this server has heard of. The store is the truth; this is a cache and a memory.
#[derive(Debug)]
pub(super) struct Roster {
    settings: LiveSettings,
    members: Mutex<HashMap<WorkerId, Member>>,
    /// Numbers what is learnt, and the questions to the store.
    news: AtomicU64,
    /// The feed tells something else than what is known here.
    doubt: Notify,
}

impl Roster {
    pub(super) fn new(settings: LiveSettings) -> Self {
        Self { settings, members: Mutex::default(), news: AtomicU64::new(0), doubt: Notify::new() }
    }

    /// How much of what it wants a worker may have. An unknown one is the store's to refuse.
    pub(super) fn leave(&self, worker: WorkerId, wanted: usize) -> Leave {
        let members = self.lock();
        let Some(member) = members.get(&worker) else {
            return Leave { count: wanted, directive: Directive::None, spec: None };
        };
        let directive = Directive::of(member.state);
        let is_free = directive == Directive::None;
        let count = if is_free { member.breaker.allows(wanted) } else { 0 };
        Leave { count, directive, spec: member.spec.clone() }
    }

    /// So many tasks were claimed for a worker: how many of them it gets, now that others may have
    /// been handed to it or have failed since it had leave.
    pub(super) fn hand(&self, worker: WorkerId, count: usize) -> usize {
        let mut members = self.lock();
        let Some(member) = members.get_mut(&worker) else { return count };
        let allowed = member.breaker.allows(count);
        member.breaker.took(allowed);
        allowed
    }

    /// What a worker should do besides its tasks.
    pub(super) fn directive(&self, worker: WorkerId) -> Directive {
        self.state(worker).map(Directive::of).unwrap_or_default()
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

    /// The feed tells which workers' attempts ran too long and whose tasks were completed. Gives those
    /// whose breaker opened with that.
    pub(super) fn heard_ends(
        &self,
        ends: impl Iterator<Item = (WorkerId, bool)>,
        now: Timestamp,
    ) -> Vec<WorkerId> {
        let (mut opened, mut members, mut completed) = (Vec::new(), None, None);
        for (worker, too_long) in ends {
            // Completions in a row say no more than the first.
            if !too_long && completed == Some(worker) {
                continue;
            }
            completed = (!too_long).then_some(worker);
            let members = members.get_or_insert_with(|| self.lock());
            if let Some(member) = members.get_mut(&worker)
                && member.breaker.heard(too_long, now, &self.settings.now().breaker)
            {
                opened.push(worker);
            }
        }
        opened
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

    /// The feed tells of a worker. That may be long ago, so what it says is only compared.
    pub(super) fn heard(&self, worker: WorkerId, change: WorkerChange) {
        let state = match change {
            WorkerChange::Joined => return,
            WorkerChange::Left | WorkerChange::Dead => return self.left(worker),
            WorkerChange::Resumed => WorkerState::Active,
            WorkerChange::Paused => WorkerState::Paused,
            WorkerChange::Draining => WorkerState::Draining,
            WorkerChange::Unhealthy => WorkerState::Unhealthy,
        };
        if self.state(worker) != Some(state) {
            self.doubt.notify_one();
        }
    }

    /// Waits until the store should be asked anew.
    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// A worker's state changed by this server's doing.
    pub(super) fn changed(&self, worker: WorkerId, state: WorkerState) {
        let number = self.number();
        let mut members = self.lock();
        let member = members.entry(worker).or_default();
        (member.state, member.number) = (state, number);
    }

    /// A worker registered here.
    pub(super) fn joined(&self, worker: WorkerId, spec: WorkerSpec) {
        let number = self.number();
        let mut members = self.lock();
        let member = members.entry(worker).or_default();
        (member.spec, member.number) = (Some(Arc::new(spec)), number);
    }

    fn number(&self) -> u64 {
        self.news.fetch_add(1, Ordering::Relaxed) + 1
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

    /// The number of a list that the store is about to be asked for.
    pub(super) fn asks(&self) -> u64 {
        self.number()
    }

    /// Takes over what the store knew, and gives the unhealthy workers that nothing speaks against
    /// any more. What was learnt of a worker since the store was `asked`, at first hand or from a
    /// later list, counts more than this list, in which the worker may be missing.
    pub(super) fn refresh(&self, workers: &[Worker], asked: u64, now: Timestamp) -> Vec<WorkerId> {
        let settings = self.settings.now().breaker;
        let mut members = self.lock();
        let mut known: HashMap<WorkerId, Member> = std::mem::take(&mut members);
        let mut over = Vec::new();
        for worker in workers {
            let mut member = known.remove(&worker.id).unwrap_or_default();
            if member.number <= asked {
                (member.state, member.number) = (worker.state, asked);
            }
            if member.spec.is_none() {
                member.spec = Some(Arc::new(worker.spec.clone()));
            }
            member.breaker.try_again(now, &settings);
            if member.state != WorkerState::Unhealthy {
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
        members.extend(known.into_iter().filter(|(_, member)| member.number > asked));
        over
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkerId, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    use crate::settings::{BreakerSettings, Settings};
    use tasklane_core::Selection;

    fn worker(id: WorkerId, state: WorkerState) -> Worker {
        Worker {
            id,
            spec: WorkerSpec::new(Selection::default(), 1).unwrap(),
            state,
            registered_at: Timestamp::EPOCH,
            seen_at: Timestamp::EPOCH,
            leases: 0,
            health: Health::default(),
        }
    }

    #[test]
    fn who_came_while_the_store_was_asked_is_not_forgotten() {
        let breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
        let settings = Settings { breaker, ..Settings::default() };
        let roster = Roster::new(LiveSettings::new(settings));
        let (now, worker) = (Timestamp::EPOCH, WorkerId::from_bytes([1; 16]));
        let before = roster.asks();
        roster.joined(worker, WorkerSpec::new(Selection::default(), 1).unwrap());
        assert!(!roster.settled(worker, true, now));
        roster.refresh(&[], before, now);
        assert!(roster.settled(worker, true, now), "its failures still count");
        roster.refresh(&[], roster.asks(), now);
        assert_eq!(roster.state(worker), None, "who has gone is forgotten");
    }

    #[test]
    fn polls_at_one_time_share_the_trials() {
        let roster = Roster::new(LiveSettings::new(Settings::default()));
        let id = WorkerId::from_bytes([1; 16]);
        roster.joined(id, WorkerSpec::new(Selection::default(), 9).unwrap());
        let leave = || roster.leave(id, 9).count;
        assert_eq!(leave(), 9);
        for _ in 0..5 {
            roster.settled(id, true, Timestamp::EPOCH);
        }
        assert_eq!((leave(), roster.hand(id, 9)), (0, 0), "none of what was claimed before");
        let later = Timestamp::EPOCH.plus(std::time::Duration::from_secs(60));
        roster.refresh(&[worker(id, WorkerState::Active)], roster.asks(), later);
        assert_eq!((leave(), leave()), (3, 3), "whoever comes first");
        assert_eq!((roster.hand(id, 2), roster.hand(id, 3)), (2, 1));
        assert_eq!((leave(), roster.hand(id, 9)), (0, 0));
    }

    #[test]
    fn what_the_feed_and_the_store_tell_late_does_not_undo_what_was_done_here() {
        let roster = Roster::new(LiveSettings::new(Settings::default()));
        let id = WorkerId::from_bytes([1; 16]);
        let before = roster.asks();
        roster.changed(id, WorkerState::Paused);
        roster.changed(id, WorkerState::Active);
        roster.heard(id, WorkerChange::Paused);
        roster.refresh(&[worker(id, WorkerState::Paused)], before, Timestamp::EPOCH);
        assert_eq!(roster.state(id), Some(WorkerState::Active));
        assert!(roster.doubted().now_or_never().is_some(), "the store is asked");
        roster.refresh(&[worker(id, WorkerState::Paused)], roster.asks(), Timestamp::EPOCH);
        assert_eq!(roster.state(id), Some(WorkerState::Paused), "and believed");
    }

    #[test]
    fn of_two_lists_the_one_that_was_asked_for_later_counts() {
        let roster = Roster::new(LiveSettings::new(Settings::default()));
        let id = WorkerId::from_bytes([1; 16]);
        let (early, late) = (roster.asks(), roster.asks());
        roster.refresh(&[worker(id, WorkerState::Active)], late, Timestamp::EPOCH);
        for stale in [&[worker(id, WorkerState::Unhealthy)][..], &[]] {
            roster.refresh(stale, early, Timestamp::EPOCH);
            assert_eq!(roster.state(id), Some(WorkerState::Active));
        }
    }

    #[test]
    fn what_another_server_marked_is_left_to_it_for_the_time_of_a_breaker() {
        let roster = Roster::new(LiveSettings::new(Settings::default()));
        let id = WorkerId::from_bytes([1; 16]);
        let worker = worker(id, WorkerState::Unhealthy);
        let at = |seconds| Timestamp::EPOCH.plus(std::time::Duration::from_secs(seconds));
        let refresh = |seconds| roster.refresh(std::slice::from_ref(&worker), 0, at(seconds));
        assert_eq!((refresh(10), refresh(69)), (vec![], vec![]));
        assert_eq!(refresh(70), [id]);
    }
}
