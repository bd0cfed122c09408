//! What was done lately, as it goes over the wire.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire::{self, Seconds, Time};

use super::problem::{self, Refused};
use super::{App, respond};
use crate::engine::{MinuteFigures, StatisticsNow};
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

/// Look at the last minutes
#[utoipa::path(get, path = "/stats/minutes", tag = "producers",
    params(("minutes" = Option<usize>, Query, description = "How many, 1 to 1440; 60")),
    responses((status = 200, body = wire::Minutes)))]
pub(crate) async fn minutes(State(engine): App, request: Request) -> Result<Response, Refused> {
    let count = read_count(request.uri().query().unwrap_or_default())?;
    let minutes = engine.statistics().minutes(count).iter().map(minute).collect();
    Ok(respond::json(StatusCode::OK, &wire::Minutes { minutes }))
}

fn read_count(query: &str) -> Result<usize, Refused> {
    let mut count = MINUTES_SHOWN;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(("minutes", value)) = pair.split_once('=') else {
            let detail = "the only parameter is minutes";
            return Err(Refused::field(problem::VALIDATION_FAILED, "", "unknown-field", detail));
        };
        let read = value.parse().ok().filter(|count| (1..=MINUTES_MAX).contains(count));
        count = read.ok_or_else(|| {
            let detail = format!("1 to {MINUTES_MAX}");
            Refused::field(problem::OUT_OF_RANGE, "minutes", "out-of-range", detail)
        })?;
    }
    Ok(count)
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
