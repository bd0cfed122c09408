//! Due tasks, lost leases, timeouts, expiry and silent workers.

use std::sync::Arc;
use std::time::Duration;

use tasklane_store::maintain;
use tokio_util::sync::CancellationToken;

use super::{REST_AFTER_FAILURE, rests, warn};
use crate::engine::Engine;

/// Carries out what is overdue, then sleeps until the next thing is.
pub(super) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    loop {
        let next_in = match run_once(&engine).await {
            Ok(next_in) => next_in,
            Err(error) => {
                warn("overdue", &error);
                if rests(REST_AFTER_FAILURE, &stop).await {
                    return;
                }
                continue;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next_in) => {}
            () = engine.alarm().sooner() => {}
            () = stop.cancelled() => return,
        }
    }
}

/// One round; gives the time until the next.
async fn run_once(engine: &Engine) -> Result<Duration, tasklane_store::StoreError> {
    let soonest = engine.alarm().take();
    let done = maintain(engine.store().as_ref()).await?;
    engine.metrics().unassigned(done.unassigned);
    if done.changed > 0 || done.dead_workers > 0 {
        tracing::debug!(changed = done.changed, dead_workers = done.dead_workers, "overdue");
    }
    let known = soonest.map(|at| at.since(engine.now()));
    let until = [done.next_in, known].into_iter().flatten().min();
    let every = engine.settings().maintain_every;
    // Never not at all: a deadline that is refused as too early would otherwise be asked in a loop.
    Ok(until.map_or(every, |until| until.min(every)).max(Duration::from_millis(1)))
}
