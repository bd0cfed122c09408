//! How far an attempt is, told now and then.

use serde_json::value::RawValue;
use tasklane_core::WorkerId;
use tasklane_core::limits::PROGRESS_MESSAGE_BYTES_MAX;
use tokio::sync::watch;
use tokio::time::sleep;

use super::context::{Stop, StopReason};
use crate::call::Client;
use crate::limits::PROGRESS_EVERY;
use crate::wire::{Json, LeaseRef, ProgressReport};

/// How far an attempt is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// 0 to 100.
    pub percent: Option<f64>,
    /// Which step.
    pub step: Option<u32>,
    /// Of how many.
    pub steps: Option<u32>,
    /// For people.
    pub message: Option<Box<str>>,
    /// More, as the worker's own JSON.
    pub metadata: Option<Box<RawValue>>,
}

/// Tells what a handler says, the latest and not too often. Ends only by being dropped.
pub(super) async fn tell(
    client: &Client,
    worker: &watch::Receiver<WorkerId>,
    lease: &LeaseRef,
    said: &mut watch::Receiver<Option<Progress>>,
    stop: &Stop,
) {
    while said.changed().await.is_ok() {
        let Some(progress) = said.borrow_and_update().clone() else { continue };
        let worker = *worker.borrow();
        match client.progress(worker, &report(lease, progress)).await {
            Ok(answer) if answer.cancel => stop.trip(StopReason::Cancelled),
            Err(error) if error.is("lease-lost") => stop.trip(StopReason::LeaseLost),
            Ok(_) => {}
            // The next one may get through, and heartbeats keep the lease.
            Err(error) => tracing::debug!(%error, "progress was not told"),
        }
        sleep(PROGRESS_EVERY).await;
    }
    std::future::pending().await
}

fn report(lease: &LeaseRef, progress: Progress) -> ProgressReport {
    let message = progress.message.map(|message| {
        let end = message.floor_char_boundary(PROGRESS_MESSAGE_BYTES_MAX);
        message.split_at(end).0.into()
    });
    let metadata =
        progress.metadata.map(|metadata| Json(Box::<str>::from(metadata).into_string().into()));
    ProgressReport {
        task_id: lease.task_id,
        lease_token: lease.lease_token,
        percent: progress.percent.map(|percent| percent.clamp(0.0, 100.0)),
        step: progress.step,
        steps: progress.steps,
        message,
        metadata,
    }
}
