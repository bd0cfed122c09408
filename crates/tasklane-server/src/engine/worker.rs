//! Workers come, are directed, and go.

use tasklane_core::{Worker, WorkerId, WorkerSpec, WorkerState};
use tasklane_store::Direction;

use super::Engine;
use super::breaker::Breaker;
use super::error::EngineError;

impl Engine {
    /// Makes a worker known.
    pub async fn register(&self, spec: WorkerSpec) -> Result<WorkerId, EngineError> {
        let worker = self.store.register(spec.clone()).await?;
        self.roster.joined(worker, spec);
        Ok(worker)
    }

    /// Changes what a worker may do.
    pub async fn direct(&self, worker: WorkerId, direction: Direction) -> Result<(), EngineError> {
        self.store.direct(worker, direction).await??;
        match direction {
            Direction::Leave | Direction::DeclareDead => self.roster.left(worker),
            Direction::Pause => self.roster.changed(worker, WorkerState::Paused),
            Direction::Drain => self.roster.changed(worker, WorkerState::Draining),
            // What it comes to depends on the state it was in.
            Direction::Resume | Direction::Recover | Direction::MarkUnhealthy => {
                if direction == Direction::Resume {
                    // An operator's word clears its past.
                    self.roster.forgive(worker);
                }
                self.refresh_workers().await?;
            }
        }
        Ok(())
    }

    /// All workers, each with its breaker on this server.
    pub async fn workers(&self) -> Result<Vec<(Worker, Breaker)>, EngineError> {
        let workers = self.store.workers().await?;
        Ok(workers
            .into_iter()
            .map(|worker| {
                let breaker = self.roster.breaker(worker.id);
                (worker, breaker)
            })
            .collect())
    }

    /// One worker.
    pub async fn worker(&self, id: WorkerId) -> Result<(Worker, Breaker), EngineError> {
        let found = self.workers().await?.into_iter().find(|(worker, _)| worker.id == id);
        found.ok_or(EngineError::NotFound("worker"))
    }

    /// Learns what other servers and maintenance did to workers, and gives those whose open
    /// breaker is over a few tasks to try.
    pub async fn refresh_workers(&self) -> Result<(), EngineError> {
        let asked = self.roster.asks();
        let workers = self.store.workers().await?;
        for worker in self.roster.refresh(&workers, asked, self.now()) {
            match self.store.direct(worker, Direction::Recover).await {
                Ok(Ok(())) => self.roster.changed(worker, WorkerState::Active),
                // Gone meanwhile.
                Ok(Err(_)) => {}
                Err(error) => tracing::warn!(%error, %worker, "could not recover; tried again"),
            }
        }
        Ok(())
    }

    /// Waits until the feed tells of workers what is not known here.
    pub async fn workers_doubted(&self) {
        self.roster.doubted().await;
    }
}
