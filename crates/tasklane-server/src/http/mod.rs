//! HTTP: reads requests, calls the engine, writes answers. Knows nothing of a store's inside.

mod body;
mod handle;
mod lately;
mod live;
mod metrics;
mod problem;
mod receive;
mod render;
mod respond;
mod task;
mod worker;

use std::sync::Arc;

use axum::Router;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use handle::Front;
pub(crate) use live::tell;
pub use problem::{KINDS, Kind, Refused};

use crate::engine::Engine;

/// What every handler gets.
pub(crate) type App = axum::extract::State<Arc<Engine>>;

#[derive(OpenApi)]
#[openapi(info(
    title = "Tasklane",
    description = "A task queue: submit tasks, let workers claim them by priority, watch it live."
))]
struct Document;

/// Every route, with the document that describes them.
pub(crate) fn routes() -> (Router<Arc<Engine>>, utoipa::openapi::OpenApi) {
    let router = OpenApiRouter::with_openapi(Document::openapi())
        .nest("/api/v1", producers())
        .nest("/internal/workers", workers())
        .merge(machines());
    let (router, document) = router.split_for_parts();
    let router =
        router.fallback(|| async { Refused::not_found("route") }).method_not_allowed_fallback(
            || async { Refused::new(problem::METHOD_NOT_ALLOWED, "see the Allow header") },
        );
    (router, document)
}

fn producers() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(task::submit))
        .routes(routes!(task::submit_batch))
        .routes(routes!(task::get, task::cancel))
        .routes(routes!(live::events))
        .routes(routes!(live::socket))
        .routes(routes!(lately::minutes))
}

fn machines() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(metrics::metrics))
        .route("/events", axum::routing::get(live::events))
        .route("/ws", axum::routing::get(live::socket))
}

fn workers() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(worker::register))
        .routes(routes!(worker::deregister))
        .routes(routes!(worker::poll))
        .routes(routes!(worker::start))
        .routes(routes!(worker::progress))
        .routes(routes!(worker::result))
        .routes(routes!(worker::heartbeat))
}
