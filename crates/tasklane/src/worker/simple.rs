//! Handlers to try things with.

use std::time::Duration;

use serde::Deserialize;
use tasklane_client::wire::Json;
use tasklane_client::worker::{Context, TaskError};

/// Gives back what came.
pub(super) async fn echo(_: Context, payload: Json) -> Result<Json, TaskError> {
    Ok(payload)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nap {
    seconds: f64,
}

/// Takes as long as it is told, unless it is told to stop.
pub(super) async fn sleep(context: Context, nap: Nap) -> Result<(), TaskError> {
    let time = Duration::try_from_secs_f64(nap.seconds)
        .map_err(|_| TaskError::permanent("seconds: give a number from 0 on"))?;
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        _ = context.cancelled() => Err(TaskError::cancelled()),
    }
}
