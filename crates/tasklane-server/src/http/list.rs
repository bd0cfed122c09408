//! Producers' calls on many tasks.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{Intent, StateName};
use tasklane_store::{Page, Query};

use super::filter::{COUNTS, PAGE, STATE, TASKS};
use super::problem::Refused;
use super::query::{Form, Known, Nothing, Parameters, known, parameters};
use super::{App, body, filter, render, respond};
use crate::engine::{Caller, Engine, Sweep, Swept};

const BODIES: &[Known] =
    &[known("payloads", Form::Flag, "`true`: with payloads and results, which lists leave out.")];

parameters!(
    /// Of a list of tasks.
    ListTasks = [STATE, TASKS, PAGE, COUNTS, BODIES]
);

/// List tasks, newest first
///
/// A list of tasks that have all ended is by when they ended. A call looks at no more than 10,000
/// records, so a page may be short, or empty, and still have a cursor.
#[utoipa::path(get, path = "/api/v1/tasks", tag = "producers", params(ListTasks),
    responses((status = 200, description = "A page", body = wire::TaskPage)))]
pub(crate) async fn list_tasks(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<ListTasks>,
) -> Result<Response, Refused> {
    let filter = filter::from_query(&parameters, &caller.reach)?;
    let mut query = filter::page(&parameters, filter)?;
    query.bodies = parameters.flag("payloads")?;
    let counted = parameters.flag("counts")?;
    let page = task_page(&engine, query, counted).await?;
    Ok(respond::json(StatusCode::OK, &page))
}

/// A page of tasks, with a count where asked for.
pub(crate) async fn task_page(
    engine: &Engine,
    query: Query,
    counted: bool,
) -> Result<wire::TaskPage, Refused> {
    let (filter, bodies) = (query.filter.clone(), query.bodies);
    let page = engine.list(query).await?;
    let (count, exact) = match counted {
        true => engine.count(filter).await.map(|(count, exact)| (Some(count), Some(exact)))?,
        false => (None, None),
    };
    let next_cursor = page.next.map(|next| next.to_string().into());
    Ok(wire::TaskPage { tasks: shown(engine, page, bodies), next_cursor, count, exact })
}

fn shown(engine: &Engine, page: Page, bodies: bool) -> Vec<wire::Task> {
    let now = engine.now();
    let task = |stored: tasklane_store::StoredTask| {
        let order = engine.order(&stored.task.spec.lane.queue);
        match bodies {
            true => render::stored(stored, &order, now),
            false => render::task(&stored.task, &order, now),
        }
    };
    page.tasks.into_iter().map(task).collect()
}

/// Cancel all tasks that match
///
/// In slices, up to 10,000 tasks or about five seconds; then `more` says that there is more.
/// Tasks that a worker holds are asked to stop and counted as changed.
#[utoipa::path(post, path = "/tasks/cancel", tag = "producers", request_body = wire::CancelMany,
    responses(
        (status = 200, description = "What was changed; with `dry_run`, how many match",
            body = Done)))]
pub(crate) async fn cancel_tasks(
    State(engine): App,
    caller: Caller,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::CancelMany = body::parse(&bytes)?;
    let after = filter::cursor_in(wanted.cursor.as_deref())?;
    let mut filter = filter::from_body(&wanted.filter, "/filter")?;
    filter::at_least_one(&filter)?;
    filter = filter::within(filter, &caller.reach);
    let live: Vec<_> = StateName::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
    filter::only_states(&mut filter, &live, "/filter/states")?;
    if wanted.dry_run {
        return matched(&engine, filter).await;
    }
    let (what, intent) = ("cancel", Intent::Cancel);
    let swept = engine.sweep(Sweep { what, filter, after, intent, per_second: None }).await?;
    Ok(changed(&engine, &swept))
}

/// The two answers of an operation on many.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only documented: each answer is written by itself")]
pub(crate) enum Done {
    /// With `dry_run`.
    Matched(wire::Matched),
    /// Without.
    Changed(wire::Changed),
}

/// How many tasks an operation would be about.
pub(crate) async fn matched(
    engine: &Engine,
    filter: tasklane_store::Filter,
) -> Result<Response, Refused> {
    let (matched, exact) = engine.count(filter).await?;
    Ok(respond::json(StatusCode::OK, &wire::Matched { matched, exact }))
}

/// What an operation on many has done.
pub(crate) fn changed(engine: &Engine, swept: &Swept) -> Response {
    let answer = wire::Changed {
        changed: swept.changed.len() as u64,
        more: swept.more,
        operation_id: swept.operation.clone(),
        next_cursor: next_cursor(swept),
    };
    respond::written(engine, StatusCode::OK, &answer)
}

/// Where an operation goes on, if there is more.
pub(crate) fn next_cursor(swept: &Swept) -> Option<Box<str>> {
    swept.next.filter(|_| swept.more).map(|next| next.to_string().into())
}
