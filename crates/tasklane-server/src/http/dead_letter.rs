//! Dead letters: listed, looked at, grouped, replayed, discarded (S14).

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{Command, Intent, Invalid, StateName, TaskId};
use tasklane_store::{Filter, StoredTask};

use super::filter::{COUNTS, CURSOR, PAGE, TASKS};
use super::list::{changed, matched, next_cursor};
use super::problem::{self, Refused};
use super::query::{Nothing, Parameters, parameters};
use super::task::reached;
use super::{App, body, filter, render, respond, story};
use crate::engine::{Caller, Engine, Sweep, Swept, attempts, fingerprint};
use crate::limits::REPLAY_RATE_MAX;

use wire::{KindWord, TaskIdText, Time};

parameters!(
    /// Of a list of dead letters.
    ListDeadLetters = [TASKS, PAGE, COUNTS]
);
parameters!(
    /// Of what chooses dead letters.
    ChooseDeadLetters = [TASKS]
);
parameters!(
    /// Of discarding dead letters.
    DiscardDeadLetters = [TASKS, CURSOR]
);

/// List dead letters, the last to end first
#[utoipa::path(get, path = "/dlq", tag = "producers", params(ListDeadLetters),
    responses((status = 200, description = "A page", body = wire::DeadLetterPage)))]
pub(crate) async fn list_dead_letters(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<ListDeadLetters>,
) -> Result<Response, Refused> {
    let filter = dead(filter::from_query(&parameters, &caller.reach)?);
    let mut query = filter::page(&parameters, filter.clone())?;
    query.bodies = true;
    let page = engine.list(query).await?;
    let (count, exact) = match parameters.flag("counts")? {
        true => engine.count(filter).await.map(|(count, exact)| (Some(count), Some(exact)))?,
        false => (None, None),
    };
    let next_cursor = page.next.map(|next| next.to_string().into());
    let entries = page.tasks.into_iter().map(|stored| shown(&engine, stored)).collect();
    let answer = wire::DeadLetterPage { entries, next_cursor, count, exact };
    Ok(respond::json(StatusCode::OK, &answer))
}

/// Look at a dead letter, with every attempt
#[utoipa::path(get, path = "/dlq/{id}", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 200, description = "The whole task", body = wire::Task)))]
pub(crate) async fn get_dead_letter(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let stored = engine.get(id).await?;
    if stored.task.state.name() != StateName::DeadLetter {
        return Err(Refused::not_found("dead letter"));
    }
    let trail = engine.trail(id).await?;
    let mut task = shown(&engine, stored);
    // The last failure with its details and stack, which only the trail keeps.
    let attempts = attempts(&trail.entries);
    if let Some(failure) = attempts.iter().rev().find_map(|attempt| attempt.failure.as_deref()) {
        task.error = Some(render::failure(failure));
    }
    task.attempt_history = Some(attempts.iter().map(story::attempt).collect());
    task.history_cut = trail.cut.then_some(true);
    Ok(respond::json(StatusCode::OK, &task))
}

fn shown(engine: &Engine, stored: StoredTask) -> wire::Task {
    let order = engine.order(&stored.task.spec.lane.queue);
    let print = fingerprint(&stored.task);
    let mut task = render::stored(stored, &order, engine.now());
    task.fingerprint = Some(print.into());
    task
}

/// Replay a dead letter
///
/// Without a body its attempts start from nought.
#[utoipa::path(post, path = "/dlq/{id}/replay", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    request_body = Option<wire::ReplayOne>,
    responses((status = 200, description = "The task, pending again", body = wire::Task),
        (status = 409, description = "It is not a dead letter", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn replay_dead_letter(
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
    must_be_dead(&engine, id).await?;
    replay_one(&engine, &caller, id, &wanted).await
}

/// Revives a task and shows it.
pub(crate) async fn replay_one(
    engine: &Engine,
    caller: &Caller,
    id: TaskId,
    wanted: &wire::ReplayOne,
) -> Result<Response, Refused> {
    let intent = Intent::Retry {
        reset_attempts: wanted.reset_attempts,
        priority: wanted.new_priority.map(|priority| priority.0),
    };
    engine.execute_one(Command { task: id, intent }).await?;
    super::task::show(engine, caller, id, StatusCode::OK).await
}

/// Replay all dead letters that match
///
/// In slices, up to 10,000 tasks or about five seconds; then `more` says that there is more.
#[utoipa::path(post, path = "/dlq/replay", tag = "producers", request_body = wire::ReplayMany,
    responses((status = 200, description = "What was replayed; with `dry_run`, how many match",
        body = ReplayDone)))]
pub(crate) async fn replay_dead_letters(
    State(engine): App,
    caller: Caller,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::ReplayMany = body::parse(&bytes)?;
    let after = filter::cursor_in(wanted.cursor.as_deref())?;
    let mut filter = filter::within(filter::from_body(&wanted.filter, "/filter")?, &caller.reach);
    filter::only_states(&mut filter, &[StateName::DeadLetter], "/filter/states")?;
    if wanted.rate_per_second.is_some_and(|rate| !(1..=REPLAY_RATE_MAX).contains(&rate)) {
        let invalid = Invalid::out_of_range("rate_per_second", "1 to 100000");
        return Err(Refused::invalid("", &invalid));
    }
    if wanted.dry_run {
        return matched(&engine, filter).await;
    }
    let intent = Intent::Retry {
        reset_attempts: wanted.reset_attempts,
        priority: wanted.new_priority.map(|priority| priority.0),
    };
    let (what, per_second) = ("replay dead letters", wanted.rate_per_second);
    let swept = engine.sweep(Sweep { what, filter, after, intent, per_second }).await?;
    Ok(replayed(&engine, &swept))
}

/// The two answers of a replay.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only documented: each answer is written by itself")]
pub(crate) enum ReplayDone {
    /// With `dry_run`.
    Matched(wire::Matched),
    /// Without.
    Replayed(wire::Replayed),
}

fn replayed(engine: &Engine, swept: &Swept) -> Response {
    let answer = wire::Replayed {
        replayed: swept.changed.len() as u64,
        more: swept.more,
        operation_id: swept.operation.clone(),
        next_cursor: next_cursor(swept),
    };
    respond::written(engine, StatusCode::OK, &answer)
}

/// Look at dead letters grouped by what went wrong
///
/// Of the last 10,000 that match; the 100 largest groups.
#[utoipa::path(get, path = "/dlq/summary", tag = "producers", params(ChooseDeadLetters),
    responses((status = 200, description = "The groups", body = wire::DeadLetterSummary)))]
pub(crate) async fn summarise_dead_letters(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<ChooseDeadLetters>,
) -> Result<Response, Refused> {
    let summary = engine.summarise(filter::from_query(&parameters, &caller.reach)?).await?;
    let group = |group: crate::engine::Group| {
        let failure = group.failure.as_deref();
        wire::DeadLetterGroup {
            fingerprint: group.fingerprint.into(),
            count: group.count,
            task_type: group.task_type,
            reason: group.reason.into(),
            kind: failure.map(|failure| KindWord(failure.kind)),
            code: failure.and_then(|failure| failure.code.clone()),
            message: failure.map(|failure| failure.message.clone()),
            first_at: Time(group.first_at),
            last_at: Time(group.last_at),
            task_ids: group.tasks.into_iter().map(TaskIdText).collect(),
        }
    };
    let answer = wire::DeadLetterSummary {
        groups: summary.groups.into_iter().map(group).collect(),
        examined: summary.examined,
        exact: summary.exact,
    };
    Ok(respond::json(StatusCode::OK, &answer))
}

/// Discard a dead letter
#[utoipa::path(delete, path = "/dlq/{id}", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 204, description = "It is gone"),
        (status = 409, description = "It is not a dead letter", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn discard_dead_letter(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    must_be_dead(&engine, id).await?;
    engine.execute_one(Command { task: id, intent: Intent::Discard }).await?;
    Ok(respond::gone(&engine))
}

/// Retry one dead letter, or all of them
#[utoipa::path(post, path = "/dlq/retry", tag = "operators",
    request_body = wire::RetryDeadLetters,
    responses((status = 200, description = "What was replayed", body = wire::Replayed),
        (status = 404, description = "There is no such task", body = wire::Problem,
            content_type = "application/problem+json"),
        (status = 409, description = "It is not a dead letter", body = wire::Problem,
            content_type = "application/problem+json")))]
pub(crate) async fn retry_dead_letters(
    State(engine): App,
    caller: Caller,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::RetryDeadLetters = body::parse(&bytes)?;
    let after = filter::cursor_in(wanted.cursor.as_deref())?;
    let intent = Intent::Retry { reset_attempts: true, priority: None };
    let swept = match (wanted.task_id, wanted.retry_all) {
        (Some(TaskIdText(id)), false) => {
            engine.must_reach(&caller.reach, id).await?;
            must_be_dead(&engine, id).await?;
            let mut swept = engine.change_these("retry a dead letter", &[id], &intent).await?;
            if let Some((_, refusal)) = swept.refused.pop() {
                return Err(refusal.into());
            }
            swept
        }
        (None, true) => {
            let filter = dead(filter::within(Filter::default(), &caller.reach));
            let what = "retry dead letters";
            engine.sweep(Sweep { what, filter, after, intent, per_second: None }).await?
        }
        _ => {
            let detail = "give task_id, or retry_all as true";
            return Err(Refused::field(problem::VALIDATION_FAILED, "", "missing-field", detail));
        }
    };
    Ok(replayed(&engine, &swept))
}

/// Discard all dead letters that match
///
/// In slices, up to 10,000 tasks or about five seconds; then `more` says that there is more.
#[utoipa::path(delete, path = "/dlq", tag = "operators", params(DiscardDeadLetters),
    responses((status = 200, description = "What was discarded", body = wire::Changed)))]
pub(crate) async fn discard_dead_letters(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<DiscardDeadLetters>,
) -> Result<Response, Refused> {
    let after = filter::after(&parameters)?;
    let filter = dead(filter::from_query(&parameters, &caller.reach)?);
    let (what, intent) = ("discard dead letters", Intent::Discard);
    let swept = engine.sweep(Sweep { what, filter, after, intent, per_second: None }).await?;
    Ok(changed(&engine, &swept))
}

fn dead(filter: Filter) -> Filter {
    Filter { states: vec![StateName::DeadLetter], ..filter }
}

/// A task by that id that is no dead letter is refused, whatever else could be done to it.
async fn must_be_dead(engine: &Engine, id: TaskId) -> Result<(), Refused> {
    let current = engine.get(id).await?.task.state.name();
    match current {
        StateName::DeadLetter => Ok(()),
        _ => Err(tasklane_core::Refusal::InvalidState { current }.into()),
    }
}
