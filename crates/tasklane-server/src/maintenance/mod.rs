//! What happens because time passes: each duty is a `run_once`, driven by one ticker, and safe to
//! run on every server at once, because each command is decided on the state it meets.

mod overdue;
mod request;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use tasklane_store::StoreError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{Engine, EngineError};
use crate::limits::{KEYS_REFRESHED_EVERY, REFUSALS_RECORDED_EVERY};

/// How long a duty rests after the store failed it.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// How long the workers are not asked for again, whatever the feed tells of them.
const WORKERS_REST: Duration = Duration::from_millis(10);

/// Starts every duty; they end with `stop`.
pub fn start(engine: &Arc<Engine>, tracker: &TaskTracker, stop: &CancellationToken) {
    tracker.spawn(overdue::run(Arc::clone(engine), stop.clone()));
    tracker.spawn(retention::run(Arc::clone(engine), stop.clone()));
    if engine.store().takes_requests() {
        tracker.spawn(request::run(Arc::clone(engine), stop.clone()));
    }
    let every = Duration::from_secs(1);
    let (workers, stopped) = (Arc::clone(engine), stop.clone());
    tracker.spawn(tick("workers", WORKERS_REST, stop.clone(), move || {
        let (engine, stopped) = (Arc::clone(&workers), stopped.clone());
        async move {
            let refreshed = engine.refresh_workers().await;
            // Also after a failure: a store that is away is not asked more often.
            tokio::select! {
                _ = rests(every, &stopped) => {}
                () = engine.workers_doubted() => {}
            }
            refreshed
        }
    }));
    let keys = Arc::clone(engine);
    tracker.spawn(tick("keys", KEYS_REFRESHED_EVERY, stop.clone(), move || {
        let engine = Arc::clone(&keys);
        async move { engine.refresh_keys().await }
    }));
    let refusals = Arc::clone(engine);
    tracker.spawn(tick("refusals", REFUSALS_RECORDED_EVERY, stop.clone(), move || {
        let engine = Arc::clone(&refusals);
        async move { engine.record_refusals(false).await }
    }));
    let queues = Arc::clone(engine);
    tracker.spawn(tick("snapshot", every, stop.clone(), move || {
        let engine = Arc::clone(&queues);
        async move {
            engine.configure_queues().await?;
            engine.refresh_snapshot().await
        }
    }));
}

/// Runs a duty every so often until `stop`.
async fn tick<F>(
    duty: &'static str,
    every: Duration,
    stop: CancellationToken,
    mut run_once: impl FnMut() -> F,
) where
    F: Future<Output = Result<(), EngineError>>,
{
    loop {
        if let Err(error) = run_once().await {
            tracing::warn!(duty, %error, "maintenance failed and is tried again");
        }
        if rests(every, &stop).await {
            return;
        }
    }
}

/// Waits; says whether it should end.
async fn rests(time: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => false,
        () = stop.cancelled() => true,
    }
}

fn warn(duty: &'static str, error: &StoreError) {
    tracing::warn!(duty, %error, "maintenance failed and is tried again");
}
