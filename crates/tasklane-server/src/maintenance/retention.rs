//! Removes what has been kept long enough, a slice at a time (S21).

use std::sync::Arc;

use tasklane_store::StoreError;
use tokio_util::sync::CancellationToken;

use super::warn;
use crate::engine::Engine;

pub(super) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    loop {
        if let Err(error) = run_once(&engine, &stop).await {
            warn("retention", &error);
        }
        tokio::select! {
            () = engine.live_settings().sleep(|settings| settings.prune_every) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Slices until nothing is left.
async fn run_once(engine: &Engine, stop: &CancellationToken) -> Result<(), StoreError> {
    while !stop.is_cancelled() {
        let pruned = engine.store().prune(engine.settings().prune).await?;
        engine.note_pruned(&pruned);
        if !pruned.more {
            break;
        }
    }
    Ok(())
}
