//! Workers' calls.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use tasklane_client::wire;
use tasklane_core::{
    Command, Health, Intent, Invalid, LeaseToken, Problem, Progress, Refusal, TaskId, WorkerId,
    limits,
};
use tasklane_store::{Direction, LeaseRef, Leases, Renewal};

use super::problem::{self, Refused, refusal_word};
use super::query::{Nothing, Parameters};
use super::{App, body, guard, observe, receive, render, respond};
use crate::aside::aside;
use crate::engine::{Caller, Directive, Engine, Poll};
use crate::limits::{LONG_BODY_BYTES, REPORTS_MAX, WAIT_MAX};

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

fn read_poll(worker: WorkerId, poll: &wire::Poll, under: &str) -> Result<Poll, Refused> {
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
) -> Result<Response, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let start: wire::Start = body::parse(&bytes)?;
    let many = start.tasks.is_some();
    let leases = match (start.task_id, start.lease_token, start.tasks) {
        (Some(task_id), Some(lease_token), None) => vec![wire::LeaseRef { task_id, lease_token }],
        (None, None, Some(tasks)) => tasks,
        _ => {
            let detail = "give task_id and lease_token, or tasks";
            return Err(Refused::field(problem::VALIDATION_FAILED, "", "missing-field", detail));
        }
    };
    receive::check_count("tasks", leases.len(), REPORTS_MAX)
        .map_err(|e| Refused::invalid("", &e))?;
    let ids: Vec<TaskId> = leases.iter().map(|lease| lease.task_id.0).collect();
    let commands = leases
        .iter()
        .map(|lease| Command { task: lease.task_id.0, intent: Intent::Start(lease.lease_token.0) });
    let (verdicts, _) = engine.settle(worker, commands.collect(), None).await?;
    answer_verdicts(&engine, &ids, verdicts, many)
}

/// Report progress
#[utoipa::path(post, path = "/internal/workers/{id}/progress", tag = "workers", params(("id" = String, Path)),
    request_body = wire::ProgressReport, responses((status = 200, body = wire::ProgressAnswer)))]
pub(crate) async fn progress(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
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
    let (mut verdicts, _) = engine.settle(worker, vec![command], None).await?;
    let Some(verdict) = verdicts.pop() else { return Err(no_verdict()) };
    let answer = verdict.map_err(Refused::from).map(|changed| {
        let answer = wire::ProgressAnswer { cancel: changed.cancel_requested };
        respond::written(&engine, StatusCode::OK, &answer)
    });
    observe::about(&engine, report.task_id.0, answer)
}

/// Report results, and poll for the next tasks in the same round trip
#[utoipa::path(post, path = "/internal/workers/{id}/result", tag = "workers", params(("id" = String, Path)),
    request_body = OneOrMany,
    responses((status = 200, description = "What became of it, or of each", body = Settled)))]
pub(crate) async fn result(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let worker = own_worker(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    // Which of the two forms it is, without reading it twice: only the form with many has these.
    if aside(bytes.len() >= LONG_BODY_BYTES, || is_many(&bytes)) {
        results(&engine, &caller, worker, &bytes).await
    } else {
        one(&engine, worker, &bytes).await
    }
}

/// The two forms of a report.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only documented: each form is read by itself")]
pub(crate) enum OneOrMany {
    /// One.
    One(wire::Report<'static>),
    /// Many, and a poll.
    Many(wire::Reports<'static>),
}

/// The two answers to a report.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only documented: each answer is written by itself")]
pub(crate) enum Settled {
    /// To one.
    One(wire::ReportVerdict),
    /// To many.
    Many(wire::ReportsAnswer),
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

fn is_many(bytes: &Bytes) -> bool {
    #[derive(serde::Deserialize)]
    struct Form<'a> {
        #[serde(borrow, default)]
        results: Option<&'a serde_json::value::RawValue>,
        #[serde(borrow, default)]
        poll: Option<&'a serde_json::value::RawValue>,
    }
    // The usual body begins with the list.
    let begins = bytes.trim_ascii_start();
    begins.starts_with(b"{\"results\"")
        || match serde_json::from_slice::<Form<'_>>(bytes) {
            Ok(form) => form.results.is_some() || form.poll.is_some(),
            // One of the two came twice: reading it as the form with many says so.
            Err(error) => error.is_data(),
        }
}

async fn one(engine: &Engine, worker: WorkerId, bytes: &Bytes) -> Result<Response, Refused> {
    let report: wire::Report<'_> = body::parse(bytes)?;
    let outcome = receive::outcome(bytes, &report, &engine.settings())?;
    let task = report.task_id.0;
    let command = Command { task, intent: Intent::Settle(report.lease_token.0, outcome) };
    let (verdicts, _) = engine.settle(worker, vec![command], None).await?;
    answer_verdicts(engine, &[task], verdicts, false)
}

async fn results(
    engine: &Engine,
    caller: &Caller,
    worker: WorkerId,
    bytes: &Bytes,
) -> Result<Response, Refused> {
    let is_long = bytes.len() >= LONG_BODY_BYTES;
    let (reports, commands) = aside(is_long, || reported(engine, bytes))?;
    let poll = reports.poll.as_ref().map(|poll| read_poll(worker, poll, "/poll")).transpose()?;
    let wait = poll.as_ref().map_or(Duration::ZERO, |poll| poll.wait);
    let (verdicts, polled) = engine.settle(worker, commands, poll).await?;
    let results = reports.results.iter().zip(&verdicts);
    let results = results.map(|(report, verdict)| shown(report.task_id.0, verdict)).collect();
    let (tasks, directive) = match polled {
        Some(polled) if !engine.holds(&caller.access) => {
            engine.give_back(polled.tasks);
            (Some(Vec::new()), Some(Directive::Terminate.as_str().into()))
        }
        Some(polled) => (
            Some(polled.tasks.into_iter().filter_map(render::claimed).collect()),
            Some(polled.directive.as_str().into()),
        ),
        None => (None, None),
    };
    let answer = wire::ReportsAnswer { results, tasks, directive };
    Ok(observe::after_wait(respond::written(engine, StatusCode::OK, &answer), wait))
}

/// What a worker tells of its tasks, and what is to be done about each.
fn reported<'a>(
    engine: &Engine,
    bytes: &'a Bytes,
) -> Result<(wire::Reports<'a>, Vec<Command>), Refused> {
    let reports: wire::Reports<'_> = body::parse(bytes)?;
    receive::check_count("results", reports.results.len(), REPORTS_MAX)
        .map_err(|invalid| Refused::invalid("", &invalid))?;
    let mut commands = Vec::with_capacity(reports.results.len());
    let settings = engine.settings();
    for (index, report) in reports.results.iter().enumerate() {
        let outcome = receive::outcome(bytes, report, &settings)
            .map_err(|refused| refused.under(&format!("/results/{index}")))?;
        let intent = Intent::Settle(report.lease_token.0, outcome);
        commands.push(Command { task: report.task_id.0, intent });
    }
    Ok((reports, commands))
}

fn shown(task: TaskId, verdict: &Result<tasklane_store::Changed, Refusal>) -> wire::ReportVerdict {
    match verdict {
        Ok(changed) => render::verdict(task, changed),
        Err(refusal) => wire::ReportVerdict {
            task_id: wire::TaskIdText(task),
            state: None,
            next_retry_at: None,
            error: Some(refusal_word(refusal).into()),
        },
    }
}

fn answer_verdicts(
    engine: &Engine,
    ids: &[TaskId],
    mut verdicts: Vec<Result<tasklane_store::Changed, Refusal>>,
    many: bool,
) -> Result<Response, Refused> {
    if many {
        let results = ids.iter().zip(&verdicts).map(|(id, verdict)| shown(*id, verdict)).collect();
        return Ok(respond::written(engine, StatusCode::OK, &wire::StartAnswer { results }));
    }
    let (Some(id), Some(verdict)) = (ids.first(), verdicts.pop()) else {
        return Err(no_verdict());
    };
    let shown = |changed| respond::written(engine, StatusCode::OK, &render::verdict(*id, &changed));
    observe::about(engine, *id, verdict.map(shown).map_err(Refused::from))
}

fn no_verdict() -> Refused {
    Refused::new(problem::INTERNAL, "no verdict")
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
async fn own_worker(engine: &Engine, caller: &Caller, text: &str) -> Result<WorkerId, Refused> {
    let worker = worker_id(text)?;
    engine.check_owner(&caller.access, worker).await?;
    Ok(worker)
}

/// An id in a path; what is no id is not known.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, Refused> {
    text.parse().map_err(|_| Refused::not_found("worker"))
}
