//! HTTP: reads requests, calls the engine, writes answers. Knows nothing of a store's inside.

mod body;
mod dead_letter;
mod document;
mod filter;
mod guard;
mod handle;
mod json;
mod lately;
mod list;
mod live;
mod machine;
mod metrics;
mod observe;
mod operator;
mod origin;
mod permission;
mod problem;
mod query;
mod rate;
mod receive;
mod render;
mod report;
mod respond;
mod shortcut;
mod slow;
mod stats;
mod story;
mod task;
mod worker;

use std::sync::Arc;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use handle::Front;
pub(crate) use live::tell;
pub use problem::{KINDS, Kind, Refused};

use crate::engine::Engine;

/// What every handler gets.
pub(crate) type App = axum::extract::State<Arc<Engine>>;

/// Every route, with the document that describes them.
pub(crate) fn routes() -> (Router<Arc<Engine>>, utoipa::openapi::OpenApi) {
    let router = OpenApiRouter::with_openapi(document::base())
        .merge(submissions())
        .merge(workers())
        .nest("/api/v1", producers())
        .nest("/admin", operators())
        .merge(machines());
    let (router, document) = router.split_for_parts();
    let router = router
        .fallback(|| async { Refused::not_found("route") })
        .method_not_allowed_fallback(|| async { Refused::method_not_allowed() });
    (router, document)
}

/// The busiest routes name their whole path: a nested one strips its prefix from each call.
fn submissions() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(task::submit, list::list_tasks))
        .routes(routes!(task::submit_batch))
}

fn producers() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(list::cancel_tasks))
        .routes(routes!(task::get, task::cancel))
        .routes(routes!(story::task_history))
        .routes(routes!(story::task_progress))
        .routes(routes!(story::explain_task))
        .routes(routes!(stats::queue_stats))
        .routes(routes!(dead_letter::list_dead_letters))
        .routes(routes!(dead_letter::replay_dead_letters))
        .routes(routes!(dead_letter::summarise_dead_letters))
        .routes(routes!(dead_letter::get_dead_letter, dead_letter::discard_dead_letter))
        .routes(routes!(dead_letter::replay_dead_letter))
        .routes(routes!(live::events))
        .routes(routes!(live::socket))
        .routes(routes!(lately::minutes))
}

fn workers() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(worker::register))
        .routes(routes!(worker::deregister))
        .routes(routes!(worker::poll))
        .routes(routes!(worker::start))
        .routes(routes!(worker::progress))
        .routes(routes!(report::result))
        .routes(routes!(worker::heartbeat))
}

fn operators() -> OpenApiRouter<Arc<Engine>> {
    use operator::{audit, key, maintenance, queue, task, worker};
    OpenApiRouter::new()
        .routes(routes!(maintenance::get_health))
        .routes(routes!(maintenance::clean_up))
        .routes(routes!(maintenance::back_up))
        .routes(routes!(maintenance::reload))
        .routes(routes!(key::list_keys, key::create_key))
        .routes(routes!(key::revoke_key))
        .routes(routes!(audit::list_audit))
        .routes(routes!(worker::list_workers))
        .routes(routes!(worker::get_worker))
        .routes(routes!(worker::pause_worker))
        .routes(routes!(worker::resume_worker))
        .routes(routes!(worker::drain_worker))
        .routes(routes!(queue::list_queues))
        .routes(routes!(queue::get_queue, queue::update_queue, queue::purge_priority))
        .routes(routes!(queue::pause_queue))
        .routes(routes!(queue::resume_queue))
        .routes(routes!(task::list_stuck_tasks))
        .routes(routes!(task::requeue_tasks))
        .routes(routes!(task::update_task))
        .routes(routes!(task::retry_task))
        .routes(routes!(dead_letter::list_dead_letters, dead_letter::discard_dead_letters))
        .routes(routes!(dead_letter::retry_dead_letters))
}

fn machines() -> OpenApiRouter<Arc<Engine>> {
    OpenApiRouter::new()
        .routes(routes!(metrics::metrics))
        .route("/events", axum::routing::get(live::events))
        .route("/ws", axum::routing::get(live::socket))
        .routes(routes!(machine::livez))
        .routes(routes!(machine::healthz))
        .routes(routes!(machine::readyz))
        .routes(routes!(machine::openapi))
        .routes(routes!(machine::docs))
        .routes(routes!(machine::docs_script))
        .routes(routes!(machine::docs_style))
}
