//! What happened to a task, how far it is, and why it is not running.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{Entry, Event, Priority, Timestamp, WorkerId};

use super::problem::Refused;
use super::query::{Nothing, Parameters};
use super::task::reached;
use super::{App, render, respond};
use crate::engine::{Attempt, Caller, Explanation, Obstacle};

use wire::{NumberText, PriorityWord, Seconds, StateWord, TaskIdText, Time, WorkerIdText};

/// Look at everything that happened to a task
#[utoipa::path(get, path = "/tasks/{id}/history", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 200, description = "Its history, in order", body = wire::History)))]
pub(crate) async fn task_history(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let trail = engine.trail(id).await?;
    let history = history(&trail.entries);
    let answer = wire::History { task_id: TaskIdText(id), history, cut: trail.cut };
    Ok(respond::json(StatusCode::OK, &answer))
}

/// Look at how far a task is
#[utoipa::path(get, path = "/tasks/{id}/progress", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 200, description = "Its progress", body = wire::TaskProgress)))]
pub(crate) async fn task_progress(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let stored = engine.get(reached(&engine, &caller, &id).await?).await?;
    let order = engine.order(&stored.task.spec.lane.queue);
    let task = render::task(&stored.task, &order, engine.now());
    let answer = wire::TaskProgress {
        task_id: task.id,
        state: task.state,
        progress: task.progress,
        attempts: task.attempts,
        started_at: task.started_at,
    };
    Ok(respond::json(StatusCode::OK, &answer))
}

/// Ask why a task is not running
#[utoipa::path(get, path = "/tasks/{id}/explain", tag = "producers",
    params(("id" = String, Path, description = "The task")),
    responses((status = 200, description = "Why, in words and data", body = wire::Explanation)))]
pub(crate) async fn explain_task(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id = reached(&engine, &caller, &id).await?;
    let (task, explanation) = engine.explain(id, &caller.reach).await?;
    let Explanation { summary, obstacles, estimate, bound } = explanation;
    let answer = wire::Explanation {
        task_id: TaskIdText(task.id),
        state: StateWord(task.state.name()),
        summary: summary.into(),
        obstacles: obstacles.into_iter().map(obstacle).collect(),
        queue_position: estimate.position,
        estimated_wait_seconds: estimate.wait.map(Seconds),
        wait_bound_seconds: bound.map(Seconds),
    };
    Ok(respond::json(StatusCode::OK, &answer))
}

fn obstacle(obstacle: Obstacle) -> wire::Obstacle {
    wire::Obstacle {
        code: obstacle.code.into(),
        detail: obstacle.detail.into(),
        until: obstacle.until.map(Time),
        count: obstacle.count,
        task_id: obstacle.task.map(TaskIdText),
        worker_id: obstacle.worker.map(WorkerIdText),
    }
}

/// A trail as it is shown. Each entry that a worker made, or that took a task from one, names it.
pub(crate) fn history(entries: &[Entry]) -> Vec<wire::HistoryEntry> {
    let mut holder = None;
    let mut history = Vec::with_capacity(entries.len());
    for entry in entries {
        let before = holder;
        match &entry.event {
            Event::Claimed { worker, .. } => holder = Some(*worker),
            Event::Started | Event::CancelRequested | Event::Progressed(_) | Event::Updated(_) => {}
            _ => holder = None,
        }
        history.push(shown(entry, holder.or(before)));
    }
    history
}

fn shown(entry: &Entry, worker: Option<WorkerId>) -> wire::HistoryEntry {
    let Entry { stamp, event } = entry;
    let (mut fence, mut started) = (None, None);
    let (mut due_at, mut reason): (Option<Timestamp>, Option<&str>) = (None, None);
    let (mut from, mut to): (Option<Priority>, Option<Priority>) = (None, None);
    match event {
        Event::Claimed { fence: own, started: at_once, .. } => {
            (fence, started) = (Some(own.as_u64()), Some(*at_once));
        }
        Event::Retrying { due_at: at, .. } => due_at = Some(*at),
        Event::Released { due_at: at, .. } => due_at = *at,
        Event::Failed(death) | Event::DeadLettered(death) => reason = Some(death.reason.as_str()),
        Event::Cancelled { reason: why, .. } => reason = Some(why.as_str()),
        Event::Promoted { from: base, to: counted } => (from, to) = (Some(*base), Some(*counted)),
        Event::Replayed { priority, .. } => to = *priority,
        Event::Updated(update) => (to, due_at) = (update.priority, update.scheduled_at),
        Event::Submitted
        | Event::Scheduled
        | Event::Due
        | Event::Unblocked
        | Event::Started
        | Event::Progressed(_)
        | Event::Completed { .. }
        | Event::CancelRequested
        | Event::LeaseLost
        | Event::Requeued
        | Event::Discarded => {}
    }
    wire::HistoryEntry {
        seq: NumberText(stamp.sequence.0),
        event_type: format!("task.{}", event.kind().as_str()).into(),
        timestamp: Time(stamp.at),
        worker_id: worker.map(WorkerIdText),
        fence,
        started,
        due_at: due_at.map(Time),
        error: event.failure().map(|failure| render::failure(failure)),
        reason: reason.map(Into::into),
        from: from.map(PriorityWord),
        to: to.map(PriorityWord),
    }
}

/// One attempt of a dead letter.
pub(crate) fn attempt(attempt: &Attempt) -> wire::Attempt {
    wire::Attempt {
        attempt: attempt.number,
        worker_id: WorkerIdText(attempt.worker),
        assigned_at: Time(attempt.claimed_at),
        started_at: attempt.started_at.map(Time),
        ended_at: attempt.ended_at.map(Time),
        outcome: attempt.outcome.map(Into::into),
        error: attempt.failure.as_deref().map(render::failure),
    }
}
