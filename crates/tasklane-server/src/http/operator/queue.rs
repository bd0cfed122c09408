//! Operators' calls on queues.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{
    Aging, DepthLimits, Intent, Invalid, Names, Order, Priority, QueueName, QueueSettings,
    Retention, StateName, Weight, Weights, limits,
};
use tasklane_store::{Filter, LaneStats, QueueState};

use crate::engine::{Caller, Engine, EngineError, Sweep};
use crate::http::filter::{CURSOR, PAGE};
use crate::http::list::changed;
use crate::http::problem::{self, Refused};
use crate::http::query::{self, Form, Known, Nothing, Parameters, known, parameters};
use crate::http::{App, body, filter, respond};
use crate::settings::QueueDefaults;

use wire::Seconds;

const QUEUE: &[Known] =
    &[known("queue", Form::Text, "In this queue, or queues that begin so with `*`; else in all.")];

parameters!(
    /// Of a list of queues.
    ListQueues = [PAGE]
);
parameters!(
    /// Of cancelling what waits.
    PurgePriority = [QUEUE, CURSOR]
);

/// List queues, by name
#[utoipa::path(get, path = "/queues", tag = "operators", params(ListQueues),
    responses((status = 200, description = "A page", body = wire::QueuePage)))]
pub(crate) async fn list_queues(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<ListQueues>,
) -> Result<Response, Refused> {
    let limit = filter::limit(&parameters)?;
    let after = parameters.text("cursor")?.map(filter::queue_before).transpose()?;
    let mut queues = engine.queues().await?;
    queues.retain(|state| {
        caller.reach.queues.contain(state.queue.as_str())
            && after.as_ref().is_none_or(|after| state.queue.as_str().as_bytes() > &after[..])
    });
    let more = queues.len() > limit;
    queues.truncate(limit);
    narrow_depths(&engine, &caller, &mut queues).await?;
    let last = queues.last().map(|state| filter::cursor_behind(&state.queue));
    let page = wire::QueuePage {
        queues: queues.iter().map(|state| shown(&engine, state)).collect(),
        next_cursor: last.filter(|_| more),
    };
    Ok(respond::json(StatusCode::OK, &page))
}

/// Look at a queue
#[utoipa::path(get, path = "/queues/{name}", tag = "operators",
    params(("name" = String, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = wire::Queue)))]
pub(crate) async fn get_queue(
    State(engine): App,
    caller: Caller,
    Path(name): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    // What is no name cannot be there.
    let name = QueueName::new(name).map_err(|_| Refused::not_found("queue"))?;
    if !caller.reach.queues.contain(name.as_str()) {
        return Err(Refused::not_found("queue"));
    }
    let mut queues = [engine.queue(&name).await?];
    narrow_depths(&engine, &caller, &mut queues).await?;
    let [state] = queues;
    Ok(respond::json(StatusCode::OK, &shown(&engine, &state)))
}

/// Change a queue's settings; makes the queue known
///
/// What is set here wins over the server's configuration, until `reset` gives it back.
#[utoipa::path(patch, path = "/queues/{name}", tag = "operators",
    params(("name" = String, Path, description = "The queue")),
    request_body = wire::QueuePatch,
    responses((status = 200, description = "The queue", body = wire::Queue)))]
pub(crate) async fn update_queue(
    State(engine): App,
    caller: Caller,
    Path(name): Path<String>,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let name = queue_name(&name)?;
    must_set(&caller, &name)?;
    let bytes = body::read(&engine, request).await?;
    let patch: wire::QueuePatch = body::parse(&bytes)?;
    if patch == wire::QueuePatch::default() {
        let detail = "give at least one member to change";
        return Err(Refused::field(problem::VALIDATION_FAILED, "", "empty", detail));
    }
    let state = engine.adjust(&name, |settings| Ok(apply(&patch, settings)?)).await?;
    Ok(respond::written(&engine, StatusCode::OK, &shown(&engine, &state)))
}

/// Pause a queue: nothing is claimed from it
#[utoipa::path(post, path = "/queues/{name}/pause", tag = "operators",
    params(("name" = String, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = wire::Queue)))]
pub(crate) async fn pause_queue(
    State(engine): App,
    caller: Caller,
    Path(name): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    set_paused(&engine, &caller, &name, true).await
}

/// Resume a queue
#[utoipa::path(post, path = "/queues/{name}/resume", tag = "operators",
    params(("name" = String, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = wire::Queue)))]
pub(crate) async fn resume_queue(
    State(engine): App,
    caller: Caller,
    Path(name): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    set_paused(&engine, &caller, &name, false).await
}

async fn set_paused(
    engine: &Engine,
    caller: &Caller,
    name: &str,
    paused: bool,
) -> Result<Response, Refused> {
    let name = queue_name(name)?;
    must_set(caller, &name)?;
    let set = |settings: &mut QueueSettings| {
        settings.paused = paused;
        Ok::<_, EngineError>(())
    };
    let state = engine.adjust(&name, set).await?;
    Ok(respond::written(engine, StatusCode::OK, &shown(engine, &state)))
}

/// Cancel what waits at a priority
///
/// Pending, scheduled, retrying and blocked tasks; what a worker holds is left alone. In slices, up
/// to 10,000 tasks or about five seconds; then `more` says that there is more. Each queue that lost
/// tasks is told of as `queue.purged`.
#[utoipa::path(delete, path = "/queues/{name}", tag = "operators",
    params(("name" = String, Path,
        description = "Here the priority: critical, high, normal, low, or a number from 0 to 3"),
        PurgePriority),
    responses((status = 200, description = "What was cancelled", body = wire::Changed)))]
pub(crate) async fn purge_priority(
    State(engine): App,
    caller: Caller,
    Path(priority): Path<String>,
    parameters: Parameters<PurgePriority>,
) -> Result<Response, Refused> {
    let after = filter::after(&parameters)?;
    let priority = query::priority(&priority, "/priority")?;
    let filter = Filter {
        states: StateName::ALL.into_iter().filter(|state| state.is_waiting()).collect(),
        priority: Some(priority),
        ..filter::from_query(&parameters, &caller.reach)?
    };
    let (what, intent) = ("cancel what waits at a priority", Intent::Cancel);
    let swept = engine.purge(Sweep { what, filter, after, intent, per_second: None }).await?;
    Ok(changed(&engine, &swept))
}

/// What is set on a queue counts for all its tasks, whatever their type.
fn must_set(caller: &Caller, queue: &QueueName) -> Result<(), Refused> {
    if caller.reach.holds_all_of(queue) {
        Ok(())
    } else if caller.reach.queues.contain(queue.as_str()) {
        let detail = "the key reaches only some of the queue's types";
        Err(Refused::new(problem::INSUFFICIENT_SCOPE, detail))
    } else {
        Err(Refused::not_found("queue"))
    }
}

/// Who may see only some types sees how many of those wait.
async fn narrow_depths(
    engine: &Engine,
    caller: &Caller,
    queues: &mut [QueueState],
) -> Result<(), Refused> {
    if caller.reach.types == Names::All {
        return Ok(());
    }
    let stats = engine.stats().await?;
    for state in queues {
        let seen =
            |lane: &&LaneStats| lane.lane.queue == state.queue && caller.reach.holds(&lane.lane);
        let waiting = StateName::ALL.into_iter().filter(|state| state.is_waiting());
        let count = |lane: &LaneStats| {
            let counts = waiting.clone().filter_map(|state| lane.counts.get(state.index()));
            counts.sum::<u64>()
        };
        state.depth = stats.lanes.iter().filter(seen).map(count).sum();
    }
    Ok(())
}

fn queue_name(text: &str) -> Result<QueueName, Refused> {
    QueueName::new(text).map_err(|invalid| Refused::invalid("", &invalid))
}

/// What a patch changes; what is absent stays.
fn apply(patch: &wire::QueuePatch, settings: &mut QueueSettings) -> Result<(), Invalid> {
    for member in &patch.reset {
        match member {
            wire::QueueMember::Order => settings.pinned.order = false,
            wire::QueueMember::Weight => settings.pinned.weight = false,
            wire::QueueMember::DepthLimits => settings.pinned.depth = false,
            wire::QueueMember::Retention => settings.pinned.retention = false,
        }
    }
    if let Some(paused) = patch.paused {
        settings.paused = paused;
    }
    if let Some(weight) = patch.weight {
        (settings.weight, settings.pinned.weight) = (Weight::new(weight)?, true);
    }
    settings.pinned.order |= patch.aging.is_some() || patch.weights.is_some();
    settings.order = match (&patch.aging, patch.weights) {
        (Some(_), Some(_)) => {
            let expected = "left out when aging is given";
            let problem = tasklane_core::Problem::Malformed { expected };
            return Err(Invalid::new("weights", problem));
        }
        (Some(aging), None) => {
            let span = |seconds: Option<Seconds>| seconds.map(|seconds| bounded(seconds.0));
            let aging = Aging::new(
                span(aging.normal_seconds).transpose()?,
                span(aging.high_seconds).transpose()?,
                span(aging.critical_seconds).transpose()?,
            );
            Order::Aging(aging?)
        }
        (None, Some([critical, high, normal, low])) => {
            Order::Weighted(Weights::new(critical, high, normal, low)?)
        }
        (None, None) => settings.order,
    };
    if let Some(depth) = patch.depth_limits {
        settings.depth = DepthLimits::new(depth.normal, depth.high, depth.all)
            .map_err(|invalid| Invalid::new("depth_limits", invalid.problem))?;
        settings.pinned.depth = true;
    }
    if let Some(kept) = patch.retention {
        let span = |seconds: Option<Seconds>| seconds.map(|seconds| seconds.0);
        settings.pinned.retention = true;
        settings.retention = Some(Retention {
            completed: span(kept.completed_seconds),
            cancelled: span(kept.cancelled_seconds),
            failed: span(kept.failed_seconds),
            dead_letter: span(kept.dead_letter_seconds),
        });
    }
    Ok(())
}

/// A waiting time longer than any task can wait is a mistake.
fn bounded(span: Duration) -> Result<Duration, Invalid> {
    let fits = span <= limits::SCHEDULE_AHEAD_MAX;
    fits.then_some(span).ok_or(Invalid::out_of_range("aging", "up to five years"))
}

fn shown(engine: &Engine, state: &QueueState) -> wire::Queue {
    let settings = &state.settings;
    let (order, aging, weights) = match &settings.order {
        Order::Aging(aging) => {
            let after = |level| aging.threshold(level).map(Seconds);
            let aging = wire::AgingSettings {
                normal_seconds: after(Priority::Normal),
                high_seconds: after(Priority::High),
                critical_seconds: after(Priority::Critical),
            };
            ("aging", Some(aging), None)
        }
        Order::Weighted(weights) => {
            ("weighted", None, Some(Priority::DESCENDING.map(|priority| weights.of(priority))))
        }
    };
    let DepthLimits { normal, high, all } = settings.depth;
    let retention = settings.retention.map(|kept| wire::RetentionSettings {
        completed_seconds: kept.completed.map(Seconds),
        cancelled_seconds: kept.cancelled.map(Seconds),
        failed_seconds: kept.failed.map(Seconds),
        dead_letter_seconds: kept.dead_letter.map(Seconds),
    });
    wire::Queue {
        name: state.queue.as_str().into(),
        paused: settings.paused,
        depth: state.depth,
        weight: settings.weight.get(),
        order: order.into(),
        aging,
        weights,
        depth_limits: wire::DepthSettings { normal, high, all },
        retention,
        origins: origins(settings, &engine.settings().configured(&state.queue)),
    }
}

fn origins(settings: &QueueSettings, configured: &QueueDefaults) -> wire::QueueOrigins {
    let origin = |pinned, configured| match (pinned, configured) {
        (true, _) => "operator".into(),
        (false, true) => "configuration".into(),
        (false, false) => "default".into(),
    };
    let pinned = settings.pinned;
    wire::QueueOrigins {
        order: origin(pinned.order, configured.order.is_some()),
        weight: origin(pinned.weight, configured.weight.is_some()),
        depth_limits: origin(pinned.depth, configured.depth.is_some()),
        retention: origin(pinned.retention, configured.retention.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::Pinned;

    fn patched(patch: &str) -> Result<QueueSettings, Invalid> {
        let mut settings = QueueSettings::default();
        apply(&serde_json::from_str(patch).unwrap(), &mut settings)?;
        Ok(settings)
    }

    #[test]
    fn what_is_absent_stays() {
        let settings = patched(r#"{"paused": true}"#).unwrap();
        assert_eq!(settings, QueueSettings { paused: true, ..QueueSettings::default() });
        let settings = patched(r#"{"aging": {}}"#).unwrap();
        assert_eq!(settings.order, Order::Aging(Aging::OFF));
        let settings = patched(r#"{"weights": [4, 3, 2, 1]}"#).unwrap();
        assert_eq!(settings.order, Order::Weighted(Weights::new(4, 3, 2, 1).unwrap()));
        assert_eq!(settings.pinned, Pinned { order: true, ..Pinned::default() });
    }

    #[test]
    fn contradictions_are_refused() {
        let field = |patch| patched(patch).unwrap_err().field;
        assert_eq!(field(r#"{"weight": 0}"#), "weight");
        assert_eq!(field(r#"{"weights": [1, 1, 1, 0]}"#), "weights");
        assert_eq!(field(r#"{"weights": [1, 1, 1, 1], "aging": {}}"#), "weights");
        let aging = r#"{"aging": {"normal_seconds": 9, "high_seconds": 1}}"#;
        assert_eq!(field(aging), "aging");
        let depth = r#"{"depth_limits": {"normal": 9, "high": 1, "all": 10}}"#;
        assert_eq!(field(depth), "depth_limits");
    }
}
