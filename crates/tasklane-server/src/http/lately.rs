//! What was done lately, as it goes over the wire.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire::{self, Seconds, Time};

use super::problem::{self, Refused};
use super::query::{Form, Known, Parameters, known, parameters};
use super::{App, respond};
use crate::engine::{Caller, MinuteFigures, StatisticsNow};
use crate::limits::MINUTES_MAX;

/// Minutes shown when nobody says how many.
const MINUTES_SHOWN: usize = 60;

/// What was done in the last minute.
pub(crate) fn throughput(statistics: &StatisticsNow<'_>) -> wire::Throughput {
    wire::Throughput {
        completed_last_minute: statistics.completed_last_minute(),
        failed_last_minute: statistics.failed_last_minute(),
        avg_task_duration_seconds: Seconds(statistics.average_duration()),
    }
}

const COUNT: &[Known] = &[known("minutes", Form::Number, "How many, 1 to 1,440; 60 if absent.")];

parameters!(
    /// Of the last minutes.
    LastMinutes = [COUNT]
);

/// Look at the last minutes
#[utoipa::path(get, path = "/stats/minutes", tag = "producers",
    params(LastMinutes), responses((status = 200, description = "The minutes",
        body = wire::Minutes)))]
pub(crate) async fn minutes(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<LastMinutes>,
) -> Result<Response, Refused> {
    if !caller.reach.is_everything() {
        let detail = "figures are of all queues: the key's scope must not name queues or types";
        return Err(Refused::new(problem::INSUFFICIENT_SCOPE, detail));
    }
    let count = parameters.number("minutes", 1..=MINUTES_MAX as u64)?;
    let count = count.map_or(MINUTES_SHOWN, |count| count as usize);
    let minutes = engine.statistics().minutes(count).iter().map(minute).collect();
    Ok(respond::json(StatusCode::OK, &wire::Minutes { minutes }))
}

fn minute(figures: &MinuteFigures) -> wire::Minute {
    wire::Minute {
        at: Time(figures.at),
        submitted: figures.submitted,
        claimed: figures.claimed,
        completed: figures.completed,
        failed: figures.failed,
        dead_lettered: figures.dead_lettered,
        lease_losses: figures.lease_losses,
        wait_p50_seconds: Seconds(figures.wait_p50),
        wait_p95_seconds: Seconds(figures.wait_p95),
        duration_p50_seconds: Seconds(figures.duration_p50),
        duration_p95_seconds: Seconds(figures.duration_p95),
    }
}
