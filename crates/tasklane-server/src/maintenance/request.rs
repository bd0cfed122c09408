//! Tasks that applications asked for inside the store.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::rests;
use crate::engine::Engine;
use crate::limits::REQUESTS_LOOKED_FOR_EVERY;

pub(super) async fn run(engine: Arc<Engine>, stop: CancellationToken) {
    loop {
        match engine.admit_requested().await {
            Ok(true) if !stop.is_cancelled() => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(duty = "requests", %error, "maintenance failed and is tried again");
            }
        }
        if rests(REQUESTS_LOOKED_FOR_EVERY, &stop).await {
            return;
        }
    }
}
