//! Operators' calls on workers.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{Worker, WorkerId, WorkerState};
use tasklane_store::Direction;

use crate::engine::{Breaker, Caller, Engine};
use crate::http::filter::{self, PAGE};
use crate::http::problem::{self, Refused};
use crate::http::query::{Form, Known, Nothing, Parameters, known, parameters};
use crate::http::worker::worker_id;
use crate::http::{App, render, respond};

const STATE: &[Known] = &[known(
    "state",
    Form::Text,
    "In this state: `active`, `paused`, `draining`, `unhealthy` or `dead`.",
)];

parameters!(
    /// Of a list of workers.
    ListWorkers = [STATE, PAGE]
);

/// List workers, by id
#[utoipa::path(get, path = "/workers", tag = "operators", params(ListWorkers),
    responses((status = 200, description = "A page", body = wire::WorkerPage)))]
pub(crate) async fn list_workers(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<ListWorkers>,
) -> Result<Response, Refused> {
    let limit = filter::limit(&parameters)?;
    let after: Option<WorkerId> = match parameters.text("cursor")? {
        Some(text) => Some(text.parse().map_err(|_| filter::bad_cursor())?),
        None => None,
    };
    let wanted = match parameters.text("state")? {
        Some(word) => Some(state(word)?),
        None => None,
    };
    let mut workers = engine.workers().await?;
    workers.retain(|(worker, _)| {
        caller.reach.touches(&worker.spec.selection)
            && after.is_none_or(|after| worker.id > after)
            && wanted.is_none_or(|wanted| worker.state == wanted)
    });
    workers.sort_by_key(|(worker, _)| worker.id);
    let more = workers.len() > limit;
    workers.truncate(limit);
    let last = workers.last().map(|(worker, _)| worker.id.to_string().into());
    let page = wire::WorkerPage {
        workers: workers.iter().map(|(worker, breaker)| shown(worker, *breaker)).collect(),
        next_cursor: last.filter(|_| more),
    };
    Ok(respond::json(StatusCode::OK, &page))
}

fn state(word: &str) -> Result<WorkerState, Refused> {
    let found = WorkerState::ALL.into_iter().find(|state| state.as_str() == word);
    found.ok_or_else(|| {
        let detail = "must be active, paused, draining, unhealthy or dead";
        Refused::field(problem::VALIDATION_FAILED, "?state", "malformed", detail)
    })
}

/// Look at a worker
#[utoipa::path(get, path = "/workers/{id}", tag = "operators",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = wire::Worker)))]
pub(crate) async fn get_worker(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let (worker, breaker) = engine.worker(worker_id(&id)?).await?;
    if !caller.reach.touches(&worker.spec.selection) {
        return Err(Refused::not_found("worker"));
    }
    Ok(respond::json(StatusCode::OK, &shown(&worker, breaker)))
}

/// Pause a worker: it gets no more tasks
#[utoipa::path(post, path = "/workers/{id}/pause", tag = "operators",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = wire::Worker),
        (status = 404, description = "It is not known", body = wire::Problem,
            content_type = "application/problem+json"),
        (status = 410, description = "It was declared dead", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn pause_worker(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    direct(&engine, &caller, &id, Direction::Pause).await
}

/// Resume a worker: it gets tasks again
#[utoipa::path(post, path = "/workers/{id}/resume", tag = "operators",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = wire::Worker),
        (status = 404, description = "It is not known", body = wire::Problem,
            content_type = "application/problem+json"),
        (status = 410, description = "It was declared dead", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn resume_worker(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    direct(&engine, &caller, &id, Direction::Resume).await
}

/// Drain a worker: it finishes what it has and gets no more
#[utoipa::path(post, path = "/workers/{id}/drain", tag = "operators",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 200, description = "The worker", body = wire::Worker),
        (status = 404, description = "It is not known", body = wire::Problem,
            content_type = "application/problem+json"),
        (status = 410, description = "It was declared dead", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn drain_worker(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    direct(&engine, &caller, &id, Direction::Drain).await
}

async fn direct(
    engine: &Engine,
    caller: &Caller,
    id: &str,
    direction: Direction,
) -> Result<Response, Refused> {
    let id = worker_id(id)?;
    must_direct(engine, caller, id).await?;
    engine.direct(id, direction).await?;
    tracing::info!(worker = %id, ?direction, "an operator directed a worker");
    let (worker, breaker) = engine.worker(id).await?;
    Ok(respond::written(engine, StatusCode::OK, &shown(&worker, breaker)))
}

/// The worker must be known; one that also takes what is out of reach is somebody else's too.
async fn must_direct(engine: &Engine, caller: &Caller, id: WorkerId) -> Result<(), Refused> {
    let (worker, _) = engine.worker(id).await?;
    let selection = &worker.spec.selection;
    if caller.reach.holds_all_for(selection) {
        Ok(())
    } else if caller.reach.touches(selection) {
        let detail = "the worker also takes tasks that are out of the key's reach";
        Err(Refused::new(problem::INSUFFICIENT_SCOPE, detail))
    } else {
        Err(Refused::not_found("worker"))
    }
}

fn shown(worker: &Worker, breaker: Breaker) -> wire::Worker {
    let spec = &worker.spec;
    wire::Worker {
        worker_id: wire::WorkerIdText(worker.id),
        name: spec.name.clone(),
        state: worker.state.as_str().into(),
        breaker: breaker.as_str().into(),
        consecutive_failures: breaker.failures(),
        capabilities: spec.selection.capabilities.iter().map(|c| c.as_str().into()).collect(),
        queues: render::names(&spec.selection.queues),
        types: render::names(&spec.selection.types),
        capacity: spec.capacity,
        leases: worker.leases,
        current_load: worker.health.load,
        version: spec.version.clone(),
        host: spec.host.clone(),
        cpu_percent: worker.health.cpu_percent,
        memory_percent: worker.health.memory_percent,
        registered_at: wire::Time(worker.registered_at),
        seen_at: wire::Time(worker.seen_at),
    }
}
