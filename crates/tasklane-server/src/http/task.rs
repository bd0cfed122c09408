//! Producers' calls on single tasks.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tasklane_client::wire;
use tasklane_core::{
    Command, IdempotencyKey, Intent, NewTask, Reach, StateName, TaskId, TraceContext, Verb,
};
use tasklane_store::Submitted;

use super::observe::Answer;
use super::problem::{self, Refused};
use super::query::{Form, Known, Nothing, Parameters, known, parameters};
use super::{App, body, guard, observe, receive, render, respond, story};
use crate::aside::aside;
use crate::engine::{Arrival, Caller, Engine};
use crate::limits::{LONG_BODY_BYTES, WAIT_MAX};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Submit a task
#[utoipa::path(post, path = "/api/v1/tasks", tag = "producers", request_body = wire::NewTask,
    responses((status = 201, body = wire::Task), (status = 200, body = wire::Task)))]
pub(crate) async fn submit(
    State(engine): App,
    caller: Caller,
    request: Request,
) -> Result<Answer, Refused> {
    let trace = receive::trace(request.headers());
    let key = header_key(&request)?;
    let Some(_under_way) = engine.admission().enter(body::declared(&request)) else {
        return Err(body::refuse_unread(request).await);
    };
    let bytes = body::read(&engine, request).await?;
    let submission = engine.submit_one(sent_task(&bytes, trace.as_ref(), key, &caller)?);
    drop(bytes);
    let (submitted, arrival) = submission.await?;
    let Some(Arrival { stored, order, estimate }) = arrival else {
        let mut response = respond::written(&engine, StatusCode::OK, &receipt(&submitted));
        mark_replayed(&mut response);
        return Ok(Answer::about(submitted.id, Ok(response)));
    };
    let mut shown = render::stored(stored, &order, engine.now());
    shown.queue_position = estimate.position;
    shown.estimated_wait_seconds = estimate.wait.map(wire::Seconds);
    let status = if submitted.replayed { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = respond::written(&engine, status, &shown);
    if submitted.replayed {
        mark_replayed(&mut response);
        return Ok(Answer::about(submitted.id, Ok(response)));
    }
    Ok(Answer::made(submitted.id, response))
}

/// The task in a body. Apart, so that nothing of its making is kept while its submission is awaited.
fn sent_task(
    bytes: &Bytes,
    trace: Option<&TraceContext>,
    key: Option<IdempotencyKey>,
    caller: &Caller,
) -> Result<NewTask, Refused> {
    let sent: wire::NewTask<'_> = body::parse(bytes)?;
    let mut task = receive::new_task(bytes, &sent, trace, &mut receive::Names::default())
        .map_err(|invalid| Refused::invalid("", &invalid))?;
    if let Some(key) = key {
        if task.idempotency_key.as_ref().is_some_and(|own| *own != key) {
            let detail = "differs from the Idempotency-Key header";
            let pointer = "/idempotency_key";
            return Err(Refused::field(problem::VALIDATION_FAILED, pointer, "conflict", detail));
        }
        task.idempotency_key = Some(key);
    }
    must_take(caller, &task)?;
    Ok(task)
}

/// A key may bring in only what is within its reach.
fn must_take(caller: &Caller, task: &NewTask) -> Result<(), Refused> {
    let Reach { queues, types } = &caller.reach;
    if queues.contain(task.queue.as_str()) && types.contain(task.task_type.as_str()) {
        return Ok(());
    }
    let detail = "the key does not submit tasks of this type to this queue";
    Err(Refused::new(problem::INSUFFICIENT_SCOPE, detail))
}

fn header_key(request: &Request) -> Result<Option<IdempotencyKey>, Refused> {
    let Some(value) = request.headers().get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| {
        Refused::field(
            problem::INVALID_CHARACTERS,
            "/idempotency_key",
            "invalid-characters",
            "is not UTF-8",
        )
    })?;
    IdempotencyKey::new(text).map(Some).map_err(|invalid| Refused::invalid("", &invalid))
}

fn mark_replayed(response: &mut Response) {
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
}

fn receipt(submitted: &Submitted) -> wire::Receipt {
    wire::Receipt {
        id: wire::TaskIdText(submitted.id),
        state: wire::StateWord(submitted.state),
        replayed: submitted.replayed,
        expired: submitted.expired,
    }
}

/// Submit many tasks in one atomic write
#[utoipa::path(post, path = "/api/v1/tasks/batch", tag = "producers", request_body = wire::Batch,
    responses((status = 201, body = wire::BatchAnswer)))]
pub(crate) async fn submit_batch(
    State(engine): App,
    caller: Caller,
    request: Request,
) -> Result<Response, Refused> {
    let trace = receive::trace(request.headers());
    if request.headers().contains_key(IDEMPOTENCY_KEY) {
        let detail = "a batch takes an idempotency_key for each of its tasks, not one for all";
        let pointer = "/idempotency_key";
        return Err(Refused::field(problem::VALIDATION_FAILED, pointer, "unexpected", detail));
    }
    let Some(_under_way) = engine.admission().enter(body::declared(&request)) else {
        return Err(body::refuse_unread(request).await);
    };
    let bytes = body::read(&engine, request).await?;
    let turn = engine.admission().turn(bytes.len()).await;
    let is_long = bytes.len() >= LONG_BODY_BYTES;
    let drafts = aside(is_long, || {
        let tasks = tasks_of(&engine, &caller, &bytes, trace.as_ref())?;
        engine.drafts(tasks).map_err(in_batch)
    })?;
    drop(turn);
    let submitted = engine.submit(drafts).await.map_err(in_batch)?;
    let answer = wire::BatchAnswer { tasks: submitted.iter().map(receipt).collect() };
    Ok(respond::written(&engine, StatusCode::CREATED, &answer))
}

/// The tasks of a batch, all of which the caller may submit.
fn tasks_of(
    engine: &Engine,
    caller: &Caller,
    bytes: &Bytes,
    trace: Option<&TraceContext>,
) -> Result<Vec<NewTask>, Refused> {
    let batch: wire::Batch<'_> = body::parse(bytes)?;
    receive::check_batch(batch.tasks.len()).map_err(|invalid| Refused::invalid("", &invalid))?;
    engine.count_tasks(caller, batch.tasks.len()).map_err(Refused::too_often)?;
    let (mut tasks, mut names) = (Vec::with_capacity(batch.tasks.len()), Default::default());
    for (index, sent) in batch.tasks.iter().enumerate() {
        let task = receive::new_task(bytes, sent, trace, &mut names)
            .map_err(|invalid| Refused::invalid(&format!("/tasks/{index}"), &invalid))?;
        must_take(caller, &task)?;
        tasks.push(task);
    }
    Ok(tasks)
}

/// A refusal of a batch points at the task at fault.
fn in_batch(error: crate::engine::EngineError) -> Refused {
    let crate::engine::EngineError::Submit(refusal) = &error else { return error.into() };
    let index = refusal.index;
    match &refusal.problem {
        tasklane_store::SubmitProblem::Invalid(invalid) if invalid.field != "tasks" => {
            Refused::invalid(&format!("/tasks/{index}"), invalid)
        }
        _ => {
            let refused = Refused::from(error);
            let detail = format!("task {index} of the batch: {}", refused.kind().title);
            Refused::field(refused.kind(), format!("/tasks/{index}"), refused.kind().word, detail)
        }
    }
}

const LOOK: &[Known] = &[
    known("include_history", Form::Flag, "`true`: with everything that happened to it."),
    known("wait_seconds", Form::Seconds, "Wait for its end up to so long, at most 60."),
    known("as_of", Form::Time, "As it was at that time, by its history."),
];

parameters!(
    /// Of a look at a task.
    LookAtTask = [LOOK]
);

/// Look at a task
#[utoipa::path(get, path = "/tasks/{id}", tag = "producers",
    params(("id" = String, Path, description = "The task"), LookAtTask),
    responses((status = 200, description = "The task", body = wire::Task)))]
pub(crate) async fn get(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    parameters: Parameters<LookAtTask>,
) -> Result<Response, Refused> {
    let wait = parameters.seconds("wait_seconds", WAIT_MAX)?;
    let (with_history, as_of) = (parameters.flag("include_history")?, parameters.time("as_of")?);
    let id = reached(&engine, &caller, &id).await?;
    let (stored, now) = match (as_of, wait) {
        (Some(_), Some(_)) => {
            let detail = "cannot be given together with as_of";
            let kind = problem::VALIDATION_FAILED;
            return Err(Refused::field(kind, "?wait_seconds", "conflict", detail));
        }
        (Some(at), None) => (engine.get_as_of(id, at).await?, at.min(engine.now())),
        (None, Some(wait)) => {
            let stored = engine.wait_terminal(id, wait).await?;
            guard::still_holds(&engine, &caller)?;
            (stored, engine.now())
        }
        (None, None) => (engine.get(id).await?, engine.now()),
    };
    let order = engine.order(&stored.task.spec.lane.queue);
    let mut shown = render::stored(stored, &order, now);
    if with_history {
        let mut trail = engine.trail(id).await?;
        trail.entries.retain(|entry| as_of.is_none_or(|at| entry.stamp.at <= at));
        shown.history = Some(story::history(&trail.entries));
        shown.history_cut = trail.cut.then_some(true);
    }
    let answer = respond::json(StatusCode::OK, &shown);
    Ok(observe::after_wait(answer, wait.unwrap_or_default()))
}

/// A task after a write, as it is now. What it carries is for those who may read.
pub(crate) async fn show(
    engine: &Engine,
    caller: &Caller,
    id: TaskId,
    status: StatusCode,
) -> Result<Response, Refused> {
    let stored = engine.get(id).await?;
    let lane = &stored.task.spec.lane;
    let order = engine.order(&lane.queue);
    let shown = match caller.access.reach(Verb::Read).is_some_and(|reach| reach.holds(lane)) {
        true => render::stored(stored, &order, engine.now()),
        false => render::task(&stored.task, &order, engine.now()),
    };
    Ok(respond::written(engine, status, &shown))
}

/// Cancel a task
#[utoipa::path(delete, path = "/tasks/{id}", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 200, description = "It is cancelled", body = wire::Task),
        (status = 202, description = "Its worker is asked to stop", body = wire::Task),
        (status = 409, description = "It has ended", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn cancel(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let changed = engine.execute_one(Command { task: id, intent: Intent::Cancel }).await?;
    let cancelled = changed.state == StateName::Cancelled;
    let status = if cancelled { StatusCode::OK } else { StatusCode::ACCEPTED };
    show(&engine, &caller, id, status).await
}

/// The task that a path names, if it is within the caller's reach; others are not there.
pub(crate) async fn reached(
    engine: &Engine,
    caller: &Caller,
    text: &str,
) -> Result<TaskId, Refused> {
    let id = task_id(text)?;
    engine.must_reach(&caller.reach, id).await?;
    Ok(id)
}

/// An id in a path; what is no id is not there.
fn task_id(text: &str) -> Result<TaskId, Refused> {
    text.parse().map_err(|_| Refused::not_found("task"))
}
