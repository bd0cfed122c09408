//! Workers' calls.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{
    Command, Health, Intent, Invalid, LeaseToken, Problem, Progress, TaskId, WorkerId, limits,
};
use tasklane_store::{Direction, LeaseRef, Leases, Renewal};

use super::observe::Answer;
use super::problem::{self, Refused};
use super::query::{Nothing, Parameters};
use super::{App, body, guard, observe, receive, render, report, respond};
use crate::engine::{Caller, Directive, Engine, Poll};
use crate::limits::{REPORTS_MAX, WAIT_MAX};

/// Register a worker
#[utoipa::path(post, path = "/internal/workers/register", tag = "workers", request_body = wire::Register,
    responses((status = 201, body = wire::Registered)))]
pub(crate) async fn register(
    State(engine): App,
    caller: Caller,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let register: wire::Register = body::parse(&bytes)?;
    let mut spec = receive::worker_spec(&register).map_err(|e| Refused::invalid("", &e))?;
    // It claims only what its key reaches, and answers to that key alone.
    spec.selection = caller.reach.narrow(spec.selection);
    spec.owner = caller.access.owner().map(Into::into);
    let worker_id = engine.register(spec).await?;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let settings = engine.settings();
    let registered = wire::Registered {
        worker_id: wire::WorkerIdText(worker_id),
        lease_ms: millis(settings.lease),
        heartbeat_interval_ms: millis(settings.heartbeat_every),
        poll_wait_ms: 30_000,
        poll_interval_ms: 1_000,
    };
    Ok(respond::written(&engine, StatusCode::CREATED, &registered))
}

/// Deregister a worker
#[utoipa::path(delete, path = "/internal/workers/{id}", tag = "workers", params(("id" = String, Path)),
    responses((status = 204)))]
pub(crate) async fn deregister(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    engine.direct(worker, Direction::Leave).await?;
    Ok(respond::gone(&engine))
}

/// Claim tasks
#[utoipa::path(post, path = "/internal/workers/{id}/poll", tag = "workers", params(("id" = String, Path)),
    request_body = wire::Poll, responses((status = 200, body = wire::PollAnswer)))]
pub(crate) async fn poll(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let poll = read_poll(worker, &body::parse(&bytes)?, "")?;
    let wait = poll.wait;
    let polled = engine.poll(poll).await?;
    if let Err(refused) = guard::still_holds(&engine, &caller) {
        engine.give_back(polled.tasks);
        return Err(refused);
    }
    let answer = wire::PollAnswer {
        tasks: polled.tasks.into_iter().filter_map(render::claimed).collect(),
        directive: polled.directive.as_str().into(),
    };
    Ok(observe::after_wait(respond::written(&engine, StatusCode::OK, &answer), wait))
}

pub(super) fn read_poll(worker: WorkerId, poll: &wire::Poll, under: &str) -> Result<Poll, Refused> {
    let invalid = |invalid: Invalid| Refused::invalid(under, &invalid);
    let wait = Duration::from_millis(poll.wait_ms);
    if wait > WAIT_MAX {
        return Err(invalid(Invalid::out_of_range("wait_ms", "0 to 60000")));
    }
    let names = poll.capabilities.as_ref();
    let narrowed = names.map(|names| {
        receive::capabilities(names.iter().map(AsRef::as_ref), "capabilities").map_err(invalid)
    });
    Ok(Poll {
        worker,
        count: (poll.available_capacity as usize).min(limits::CLAIM_TASKS_MAX),
        auto_start: poll.auto_start,
        narrowed: narrowed.transpose()?,
        wait,
    })
}

/// Start assigned tasks
#[utoipa::path(post, path = "/internal/workers/{id}/start", tag = "workers", params(("id" = String, Path)),
    request_body = wire::Start,
    responses((status = 200, description = "What became of it, or of each", body = Started)))]
pub(crate) async fn start(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let start: wire::Start = body::parse(&bytes)?;
    let leases = match (start.task_id, start.lease_token, start.tasks) {
        (Some(wire::TaskIdText(task)), Some(token), None) => {
            let command = Command { task, intent: Intent::Start(token.0) };
            let started = engine.settle_one(worker, command).await.map_err(Refused::from);
            let shown = |changed| {
                respond::written(&engine, StatusCode::OK, &render::verdict(task, &changed))
            };
            return Ok(Answer::about(task, started.map(shown)));
        }
        (None, None, Some(tasks)) => tasks,
        _ => {
            let detail = "give task_id and lease_token, or tasks";
            return Err(Refused::field(problem::VALIDATION_FAILED, "", "missing-field", detail));
        }
    };
    receive::check_count("tasks", leases.len(), REPORTS_MAX)
        .map_err(|e| Refused::invalid("", &e))?;
    let commands = leases
        .iter()
        .map(|lease| Command { task: lease.task_id.0, intent: Intent::Start(lease.lease_token.0) });
    let (verdicts, _) = engine.settle(worker, commands.collect(), None).await?;
    let results = leases.iter().zip(&verdicts);
    let results = results.map(|(lease, verdict)| report::shown(lease.task_id.0, verdict)).collect();
    let answer = wire::StartAnswer { results };
    Ok(respond::written(&engine, StatusCode::OK, &answer).into())
}

/// Report progress
#[utoipa::path(post, path = "/internal/workers/{id}/progress", tag = "workers", params(("id" = String, Path)),
    request_body = wire::ProgressReport, responses((status = 200, body = wire::ProgressAnswer)))]
pub(crate) async fn progress(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let report: wire::ProgressReport = body::parse(&bytes)?;
    let progress = Progress::new(
        report.percent,
        report.step,
        report.steps,
        report.message.as_deref(),
        report.metadata.map(|metadata| metadata.0),
    )
    .map_err(|invalid| Refused::invalid("", &invalid))?;
    let intent = Intent::Progress(report.lease_token.0, progress);
    let command = Command { task: report.task_id.0, intent };
    let answer = engine.settle_one(worker, command).await.map_err(Refused::from).map(|changed| {
        let answer = wire::ProgressAnswer { cancel: changed.cancel_requested };
        respond::written(&engine, StatusCode::OK, &answer)
    });
    Ok(Answer::about(report.task_id.0, answer))
}

/// The two answers to a start.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only documented: each answer is written by itself")]
pub(crate) enum Started {
    /// To one.
    One(wire::ReportVerdict),
    /// To many.
    Many(wire::StartAnswer),
}

/// Renew leases and report health
#[utoipa::path(post, path = "/internal/workers/{id}/heartbeat", tag = "workers", params(("id" = String, Path)),
    request_body = wire::Heartbeat, responses((status = 200, body = wire::HeartbeatAnswer)))]
pub(crate) async fn heartbeat(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let heartbeat: wire::Heartbeat = body::parse(&bytes)?;
    let count = heartbeat.leases.as_ref().map_or(0, Vec::len);
    receive::check_count("leases", count, REPORTS_MAX).map_err(|e| Refused::invalid("", &e))?;
    let leases = heartbeat.leases.as_ref().map_or(Leases::All, |leases| {
        let lease = |lease: &wire::LeaseRef| {
            let (task, token): (TaskId, LeaseToken) = (lease.task_id.0, lease.lease_token.0);
            LeaseRef { task, token }
        };
        Leases::These(leases.iter().map(lease).collect())
    });
    let health = read_health(&heartbeat)?;
    let draining = heartbeat.status == Some(wire::HeartbeatStatus::Draining);
    let renewed = engine.renew(Renewal { worker, leases, health }, draining).await?;
    let directive = Directive::of(renewed.state);
    let texts = |ids: Vec<TaskId>| ids.into_iter().map(wire::TaskIdText).collect();
    let answer = wire::HeartbeatAnswer {
        acknowledged: true,
        should_drain: directive == Directive::Drain,
        directive: directive.as_str().into(),
        cancel: texts(renewed.cancel),
        lost: texts(renewed.lost),
    };
    Ok(respond::written(&engine, StatusCode::OK, &answer))
}

fn read_health(heartbeat: &wire::Heartbeat) -> Result<Option<Health>, Refused> {
    let reported = heartbeat.health.clone().unwrap_or_default();
    let percents =
        [("cpu_percent", reported.cpu_percent), ("memory_percent", reported.memory_percent)];
    for (field, percent) in percents {
        if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
            let problem = Problem::OutOfRange { expected: "0 to 100" };
            return Err(Refused::invalid("/health", &Invalid::new(field, problem)));
        }
    }
    let health = Health {
        cpu_percent: reported.cpu_percent,
        memory_percent: reported.memory_percent,
        load: heartbeat.current_load,
    };
    Ok((heartbeat.health.is_some() || heartbeat.current_load.is_some()).then_some(health))
}

/// The worker that a path names, if it is the caller's own.
pub(super) async fn own_worker(
    engine: &Engine,
    caller: &Caller,
    text: &str,
) -> Result<WorkerId, Refused> {
    let worker = worker_id(text)?;
    engine.check_owner(&caller.access, worker).await?;
    Ok(worker)
}

/// An id in a path; what is no id is not known.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, Refused> {
    text.parse().map_err(|_| Refused::not_found("worker"))
}
