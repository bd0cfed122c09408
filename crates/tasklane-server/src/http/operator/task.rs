//! Operators' calls on tasks.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::limits::SCHEDULE_AHEAD_MAX;
use tasklane_core::{Command, Intent, Metadata, StateName, TaskId, Update};

use crate::engine::{Caller, Sweep, Swept};
use crate::http::dead_letter::replay_one;
use crate::http::filter::{COUNTS, PAGE, STATE, TASKS};
use crate::http::list::{next_cursor, task_page};
use crate::http::problem::{self, Refused, refusal_word};
use crate::http::query::{Form, Known, Nothing, Parameters, known, parameters};
use crate::http::task::{reached, show};
use crate::http::{App, body, filter, receive, respond};
use crate::limits::IDS_MAX;

/// How long a task is in its state before it counts as stuck, where nothing else is said.
const STUCK_AFTER: Duration = Duration::from_secs(300);

const OLDER_THAN: &[Known] =
    &[known("older_than", Form::Seconds, "In their state for longer than this; 300 seconds.")];

parameters!(
    /// Of what is stuck.
    StuckTasks = [OLDER_THAN, STATE, TASKS, PAGE, COUNTS]
);

/// List tasks that have been in their state for too long
///
/// Assigned and running ones, unless `state` names others.
#[utoipa::path(get, path = "/tasks/stuck", tag = "operators", params(StuckTasks),
    responses((status = 200, description = "A page", body = wire::TaskPage)))]
pub(crate) async fn list_stuck_tasks(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<StuckTasks>,
) -> Result<Response, Refused> {
    let older_than = parameters.seconds("older_than", SCHEDULE_AHEAD_MAX)?;
    let mut filter = filter::from_query(&parameters, &caller.reach)?;
    if filter.states.is_empty() {
        filter.states = vec![StateName::Assigned, StateName::Running];
    }
    filter.in_state_before = Some(engine.now().minus(older_than.unwrap_or(STUCK_AFTER)));
    let query = filter::page(&parameters, filter)?;
    let page = task_page(&engine, query, parameters.flag("counts")?).await?;
    Ok(respond::json(StatusCode::OK, &page))
}

/// Bring tasks back to pending, by id or by filter
///
/// What a worker holds is taken from it; what waits for its backoff goes on at once. It costs no
/// attempt. In slices, up to 10,000 tasks or about five seconds.
#[utoipa::path(post, path = "/tasks/requeue", tag = "operators", request_body = wire::Requeue,
    responses((status = 200, description = "What was brought back", body = wire::Requeued)))]
pub(crate) async fn requeue_tasks(
    State(engine): App,
    caller: Caller,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::Requeue = body::parse(&bytes)?;
    let after = filter::cursor_in(wanted.cursor.as_deref())?;
    let swept = match (&wanted.task_ids, &wanted.filter) {
        (Some(ids), None) => {
            receive::check_count("task_ids", ids.len(), IDS_MAX)
                .map_err(|invalid| Refused::invalid("", &invalid))?;
            let ids: Vec<TaskId> = ids.iter().map(|id| id.0).collect();
            engine.change_within(&caller.reach, "requeue", &ids, &Intent::Requeue).await?
        }
        (None, Some(chosen)) => {
            let mut filter = filter::from_body(chosen, "/filter")?;
            filter::at_least_one(&filter)?;
            filter = filter::within(filter, &caller.reach);
            let possible = [StateName::Assigned, StateName::Running, StateName::Retrying];
            filter::only_states(&mut filter, &possible, "/filter/states")?;
            let (what, intent) = ("requeue", Intent::Requeue);
            engine.sweep(Sweep { what, filter, after, intent, per_second: None }).await?
        }
        _ => {
            let detail = "give task_ids or filter";
            return Err(Refused::field(problem::VALIDATION_FAILED, "", "missing-field", detail));
        }
    };
    Ok(respond::written(&engine, StatusCode::OK, &requeued(&swept)))
}

fn requeued(swept: &Swept) -> wire::Requeued {
    let refused = swept.refused.iter().map(|(id, refusal)| wire::Refused {
        task_id: wire::TaskIdText(*id),
        error: refusal_word(refusal).into(),
    });
    wire::Requeued {
        requeued: swept.changed.iter().copied().map(wire::TaskIdText).collect(),
        refused: refused.collect(),
        more: swept.more,
        operation_id: swept.operation.clone(),
        next_cursor: next_cursor(swept),
    }
}

/// Retry a task that ended without success
///
/// Dead letters, failed and cancelled tasks. Without a body its attempts start from nought.
#[utoipa::path(post, path = "/tasks/{id}/retry", tag = "operators",
    params(("id" = String, Path, description = "The task")),
    request_body = Option<wire::ReplayOne>,
    responses((status = 200, description = "The task, pending again", body = wire::Task),
        (status = 409, description = "It is live, or completed", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn retry_task(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let bytes = body::read_optional(&engine, request).await?;
    let wanted: wire::ReplayOne = match &bytes {
        Some(bytes) => body::parse(bytes)?,
        None => wire::ReplayOne::default(),
    };
    replay_one(&engine, &caller, id, &wanted).await
}

/// Change a live task
#[utoipa::path(patch, path = "/tasks/{id}", tag = "operators",
    params(("id" = String, Path, description = "The task")),
    request_body = wire::UpdateTask,
    responses((status = 200, description = "The task", body = wire::Task),
        (status = 409, description = "It has ended; or it is not scheduled and was given a time",
            body = wire::Problem, content_type = "application/problem+json")))]
pub(crate) async fn update_task(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::UpdateTask = body::parse(&bytes)?;
    if wanted == wire::UpdateTask::default() {
        engine.get(id).await?;
        let detail = "give priority, scheduled_at or metadata";
        return Err(Refused::field(problem::VALIDATION_FAILED, "", "empty", detail));
    }
    let metadata = wanted.metadata.as_ref().map(Metadata::new).transpose();
    let update = Update {
        priority: wanted.priority.map(|priority| priority.0),
        scheduled_at: wanted.scheduled_at.map(|time| time.0),
        metadata: metadata.map_err(|invalid| Refused::invalid("", &invalid))?,
    };
    if let Some(at) = update.scheduled_at {
        engine.alarm().at(at);
    }
    engine.execute_one(Command { task: id, intent: Intent::Update(update) }).await?;
    show(&engine, &caller, id, StatusCode::OK).await
}
