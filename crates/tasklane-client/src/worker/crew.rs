//! A worker at work: one task that owns all it knows and decides what to begin next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::WorkerId;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::breaker::Breakers;
use super::builder::WorkerBuilder;
use super::context::StopReason;
use super::floor::Floor;
use super::handler::Handlers;
use super::outcome::Done;
use super::turn::{self, Event};
use crate::call::{Backoff, Client, Error, Retries};
use crate::limits::{
    AWAY_PAUSE_MAX, CALL_WITHIN, FAREWELL_WITHIN, LAST_POLL_WITHIN, REPORT_BYTES_AT_ONCE,
    REPORTS_AT_ONCE,
};
use crate::wire::Registered;

/// Runs handlers for the tasks of a server.
#[derive(Debug)]
pub struct Worker {
    settings: WorkerBuilder,
}

impl Worker {
    /// A worker of this server.
    pub fn builder(client: Client) -> WorkerBuilder {
        WorkerBuilder::new(client)
    }

    pub(super) const fn new(settings: WorkerBuilder) -> Self {
        Self { settings }
    }

    /// Works until `shutdown`, or until an operator has drained it. Then it takes no more tasks,
    /// gives those that run their time to finish, gives back the rest, and leaves.
    ///
    /// A server that is away is waited for: running tasks go on, and their results are told when
    /// it is back. An error means that the server does not want this worker.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let mut crew = Crew::new(self.settings);
        tokio::pin!(shutdown);
        let mut told = false;
        loop {
            crew.act();
            if crew.is_over() {
                return crew.leave().await;
            }
            let wake_at = crew.wake_at();
            tokio::select! {
                Some(ended) = crew.begun.join_next() => match ended {
                    Ok(event) => crew.learn(event),
                    // Only polls are ever given up.
                    Err(_) => crew.poll = None,
                },
                () = &mut shutdown, if !told => {
                    told = true;
                    crew.drain(Some(Instant::now() + crew.settings.drain_within));
                }
                () = sleep_until(wake_at) => {}
            }
        }
    }
}

/// All that a worker at work knows.
pub(super) struct Crew {
    pub(super) settings: WorkerBuilder,
    pub(super) handlers: Arc<Handlers>,
    pub(super) breakers: Arc<Breakers>,
    /// Tries once: when to try again is decided here.
    pub(super) once: Client,
    /// Calls and attempts that were begun.
    pub(super) begun: JoinSet<Event>,
    pub(super) floor: Floor,
    /// What is over and not told.
    pub(super) outbox: VecDeque<Done>,
    /// One result at a time, because one of many was refused.
    pub(super) singly: bool,
    pub(super) registered: Option<Registered>,
    pub(super) worker: watch::Sender<WorkerId>,
    pub(super) registering: bool,
    pub(super) poll: Option<AbortHandle>,
    pub(super) reporting: bool,
    pub(super) renewing: bool,
    pub(super) poll_at: Instant,
    pub(super) renew_at: Instant,
    /// Nothing is asked before: the server is away, or wants a rest.
    pub(super) resume_at: Instant,
    pub(super) away: Backoff,
    pub(super) ending: Ending,
    pub(super) refused: Option<Error>,
}

/// How far a worker is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// It takes no more; what runs may finish until then.
    Draining {
        until: Option<Instant>,
        last_poll: Instant,
    },
    /// What runs was told to stop; after this it leaves in any case.
    Stopping {
        until: Instant,
    },
}

impl Crew {
    fn new(settings: WorkerBuilder) -> Self {
        let now = Instant::now();
        let pauses =
            Retries { retries_max: u32::MAX, delay_max: AWAY_PAUSE_MAX, ..Retries::default() };
        Self {
            handlers: Arc::new(settings.handlers.clone()),
            breakers: Breakers::new(settings.breaker),
            once: settings.client.once(CALL_WITHIN),
            settings,
            begun: JoinSet::new(),
            floor: Floor::default(),
            outbox: VecDeque::new(),
            singly: false,
            registered: None,
            worker: watch::Sender::new(WorkerId::from_bytes([0; 16])),
            registering: false,
            poll: None,
            reporting: false,
            renewing: false,
            poll_at: now,
            renew_at: now,
            resume_at: now,
            away: pauses.begin(),
            ending: Ending::No,
            refused: None,
        }
    }

    /// Begins whatever is due.
    fn act(&mut self) {
        let now = Instant::now();
        self.floor.lapse(now);
        self.end(now);
        if now < self.resume_at {
            return;
        }
        let Some(registered) = &self.registered else {
            if !std::mem::replace(&mut self.registering, true) {
                let register = self.settings.register.clone();
                self.begun.spawn(turn::register(self.once.clone(), register));
            }
            return;
        };
        let wait = Duration::from_millis(registered.poll_wait_ms);
        let (once, worker) = (self.once.clone(), registered.worker_id.0);
        if now >= self.renew_at && !std::mem::replace(&mut self.renewing, true) {
            let (leases, draining) = (self.floor.leases(), self.ending != Ending::No);
            self.begun.spawn(turn::renew(once.clone(), worker, leases, draining));
        }
        let room = self.room(now);
        if !self.reporting && !self.outbox.is_empty() {
            self.reporting = true;
            let done = self.next_reports();
            let room = room.map(|room| room + u32::try_from(done.len()).unwrap_or(0));
            self.begun.spawn(turn::report(once, worker, done, room));
        } else if let (Some(room), false) = (room.filter(|room| *room > 0), self.reporting) {
            self.poll = Some(self.begun.spawn(turn::poll(once, worker, room, wait)));
        }
    }

    /// How many tasks to ask for; nothing while another poll is on its way.
    fn room(&self, now: Instant) -> Option<u32> {
        let wanted = self.ending == Ending::No && self.poll.is_none() && now >= self.poll_at;
        let held = u32::try_from(self.floor.len()).unwrap_or(u32::MAX);
        wanted.then(|| self.settings.capacity.saturating_sub(held))
    }

    /// As much as one call takes.
    fn next_reports(&mut self) -> Vec<Done> {
        let (mut done, mut bytes) = (Vec::new(), 0);
        let most = if self.singly { 1 } else { REPORTS_AT_ONCE };
        while done.len() < most && bytes < REPORT_BYTES_AT_ONCE {
            let Some(next) = self.outbox.pop_front() else { break };
            bytes += next.outcome.weight();
            done.push(next);
        }
        done
    }

    /// Takes no more tasks from here on.
    pub(super) fn drain(&mut self, until: Option<Instant>) {
        let now = Instant::now();
        match self.ending {
            Ending::No => {
                tracing::info!(running = self.floor.running(), "taking no more tasks");
                self.ending = Ending::Draining { until, last_poll: now + LAST_POLL_WITHIN };
                // So that the server knows, and lets a poll that waits go.
                self.renew_at = now;
            }
            Ending::Draining { until: None, last_poll } => {
                self.ending = Ending::Draining { until, last_poll };
            }
            Ending::Draining { .. } | Ending::Stopping { .. } => {}
        }
    }

    fn end(&mut self, now: Instant) {
        let Ending::Draining { until, last_poll } = self.ending else { return };
        if let (Some(poll), true) = (&self.poll, now >= last_poll) {
            poll.abort();
        }
        if until.is_some_and(|until| now >= until) {
            tracing::info!(running = self.floor.running(), "giving back what is not done");
            self.floor.stop_all(StopReason::Draining);
            let until = now + self.settings.stop_within + FAREWELL_WITHIN;
            self.ending = Ending::Stopping { until };
        }
    }

    fn is_over(&self) -> bool {
        if self.refused.is_some() {
            return self.floor.running() == 0;
        }
        match self.ending {
            Ending::No => false,
            Ending::Draining { .. } => self.floor.is_empty() && self.poll.is_none(),
            Ending::Stopping { until } => self.floor.is_empty() || Instant::now() >= until,
        }
    }

    /// When there is something to do even if nothing happens.
    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let ending = match self.ending {
            Ending::No => [None, None],
            Ending::Draining { until, last_poll } => [until, Some(last_poll)],
            Ending::Stopping { until } => [Some(until), None],
        };
        let times = [Some(self.poll_at), Some(self.renew_at), Some(self.resume_at)];
        let times = times.into_iter().chain(ending).chain([self.floor.next_lapse()]).flatten();
        times.filter(|at| *at > now).min().unwrap_or(now + Duration::from_secs(1))
    }

    /// Takes leave, if there is somebody to take it from.
    async fn leave(mut self) -> Result<(), Error> {
        self.begun.shutdown().await;
        if let (Some(registered), None) = (&self.registered, &self.refused) {
            let leave = self.once.deregister(registered.worker_id.0);
            if !matches!(timeout(LAST_POLL_WITHIN, leave).await, Ok(Ok(()))) {
                tracing::info!("the server was not told that this worker leaves");
            }
        }
        self.refused.map_or(Ok(()), Err)
    }
}
