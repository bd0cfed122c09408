//! Polls: claim, or wait until there is something to claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tasklane_core::{CapabilitySet, WorkerId, WorkerState};
use tasklane_store::{ClaimRequest, Claimed, Store, WorkerRefusal};
use tokio_util::task::TaskTracker;

use super::batcher::{Verb, Verdicts};
use super::error::EngineError;
use super::roster::Leave;
use super::{Engine, orphan};
use crate::limits::WAIT_MAX;

/// How long a worker that gets nothing for now is kept waiting, so that it does not ask in a loop.
const REST: Duration = Duration::from_secs(1);

/// A worker asks for tasks.
#[derive(Debug, Clone)]
pub struct Poll {
    /// Who.
    pub worker: WorkerId,
    /// How many at most.
    pub count: usize,
    /// Straight to `running`.
    pub auto_start: bool,
    /// Only with these of its capabilities.
    pub narrowed: Option<CapabilitySet>,
    /// How long to wait for a task.
    pub wait: Duration,
}

impl Poll {
    pub(super) fn request(&self, count: usize) -> ClaimRequest {
        ClaimRequest {
            worker: self.worker,
            count,
            auto_start: self.auto_start,
            narrowed: self.narrowed.clone(),
        }
    }
}

/// What a worker gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Polled {
    /// Tasks.
    pub tasks: Vec<Claimed>,
    /// What it should do besides.
    pub directive: Directive,
}

/// What a settle claimed already.
pub(super) struct First {
    /// So many at most.
    pub(super) asked: usize,
    pub(super) tasks: Vec<Claimed>,
    /// The hint that was there before it.
    pub(super) seen: u64,
}

/// What a worker should do besides its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directive {
    /// Nothing.
    #[default]
    None,
    /// Take no tasks for now.
    Pause,
    /// Finish what it has.
    Drain,
    /// Stop; register again if it should go on.
    Terminate,
}

impl Directive {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pause => "pause",
            Self::Drain => "drain",
            Self::Terminate => "terminate",
        }
    }

    /// What a worker in `state` should do.
    pub const fn of(state: WorkerState) -> Self {
        match state {
            WorkerState::Active => Self::None,
            WorkerState::Paused | WorkerState::Unhealthy => Self::Pause,
            WorkerState::Draining => Self::Drain,
            WorkerState::Dead => Self::Terminate,
        }
    }
}

/// Claims as one call on the store.
pub(super) struct Claim {
    pub(super) store: Arc<dyn Store>,
    pub(super) errands: TaskTracker,
}

impl Verb for Claim {
    type Unit = ClaimRequest;
    type Verdict = Result<Vec<Claimed>, WorkerRefusal>;

    /// What a worker says it could take must not keep others waiting.
    fn weight(&self, _: &ClaimRequest) -> usize {
        1
    }

    fn call(self: Arc<Self>, units: Vec<ClaimRequest>) -> Verdicts<Self::Verdict> {
        Box::pin(async move { self.store.claim(units).await })
    }

    fn orphaned(&self, verdict: Self::Verdict) {
        orphan::give_back(&self.store, &self.errands, verdict.unwrap_or_default());
    }
}

impl Engine {
    /// Hands tasks to a worker; waits for some if it asks for that.
    pub async fn poll(&self, poll: Poll) -> Result<Polled, EngineError> {
        self.poll_until(&poll, Instant::now() + poll.wait.min(WAIT_MAX), None).await
    }

    /// The hint as it is now: read before looking, so that what comes in between is not missed.
    pub(super) fn hint(&self) -> u64 {
        self.store.watch().borrow().claimable
    }

    /// The same, after a settle that already claimed.
    pub(super) async fn poll_until(
        &self,
        poll: &Poll,
        until: Instant,
        mut first: Option<First>,
    ) -> Result<Polled, EngineError> {
        loop {
            let Leave { count, directive, spec } = self.roster.leave(poll.worker, poll.count);
            let left = until.saturating_duration_since(Instant::now());
            // It asked for none, and may have some since its results counted.
            let (tasks, seen) = match first.take().filter(|first| first.asked > 0 || count == 0) {
                Some(first) => (first.tasks, first.seen),
                None => {
                    let seen = self.hint();
                    let asked = Instant::now();
                    let tasks = self.claims.call(poll.request(count)).await??;
                    self.metrics.claimed_within(asked.elapsed());
                    (tasks, seen)
                }
            };
            let tasks = self.hand(poll.worker, tasks);
            if !tasks.is_empty() || left.is_zero() {
                return Ok(Polled { tasks, directive });
            }
            if count == 0 || directive != Directive::None {
                tokio::select! {
                    () = tokio::time::sleep(left.min(REST)) => {}
                    () = self.draining.cancelled() => {}
                }
                return Ok(Polled { tasks, directive });
            }
            let served = tokio::select! {
                // What was handed over already must not be dropped.
                biased;
                served = self.parking.wait(poll.request(count), spec, seen, left) => served,
                () = self.draining.cancelled() => return Ok(Polled { tasks, directive }),
            };
            if let Some(served) = served {
                let tasks = self.hand(poll.worker, served??);
                let directive = self.roster.directive(poll.worker);
                return Ok(Polled { tasks, directive });
            }
        }
    }

    /// What a worker gets of tasks that were claimed for it. Its breaker may have opened meanwhile, or
    /// other polls have had the trials: then they are given back.
    fn hand(&self, worker: WorkerId, mut tasks: Vec<Claimed>) -> Vec<Claimed> {
        let count = self.roster.hand(worker, tasks.len());
        orphan::give_back(&self.store, &self.errands, tasks.split_off(count));
        tasks
    }
}
