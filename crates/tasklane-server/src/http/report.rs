//! Workers' reports on how attempts ended.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use bytes::Bytes;
use tasklane_client::wire;
use tasklane_core::{Command, Intent, Refusal, TaskId, WorkerId};

use super::observe::Answer;
use super::problem::{Refused, refusal_word};
use super::worker::{own_worker, read_poll};
use super::{App, body, observe, receive, render, respond};
use crate::aside::aside;
use crate::engine::{Caller, Directive, Engine};
use crate::limits::{LONG_BODY_BYTES, REPORTS_MAX};

/// Report results, and poll for the next tasks in the same round trip
#[utoipa::path(post, path = "/internal/workers/{id}/result", tag = "workers", params(("id" = String, Path)),
    request_body = OneOrMany,
    responses((status = 200, description = "What became of it, or of each", body = Settled)))]
pub(crate) async fn result(
    State(engine): App,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer, Refused> {
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

async fn one(engine: &Engine, worker: WorkerId, bytes: &Bytes) -> Result<Answer, Refused> {
    let report: wire::Report<'_> = body::parse(bytes)?;
    let outcome = receive::outcome(bytes, &report, &engine.settings())?;
    let task = report.task_id.0;
    let command = Command { task, intent: Intent::Settle(report.lease_token.0, outcome) };
    let settled = engine.settle_one(worker, command).await.map_err(Refused::from);
    let cancel = match &settled {
        Ok(_) => told(engine, worker).await,
        // A refusal has no room for it.
        Err(_) => Vec::new(),
    };
    let answer = settled.map(|changed| {
        let verdict = wire::ReportVerdict { cancel, ..render::verdict(task, &changed) };
        respond::written(engine, StatusCode::OK, &verdict)
    });
    Ok(Answer::about(task, answer))
}

/// What a worker should stop besides.
async fn told(engine: &Engine, worker: WorkerId) -> Vec<wire::TaskIdText> {
    engine.asked_to_stop(worker).await.into_iter().map(wire::TaskIdText).collect()
}

async fn results(
    engine: &Engine,
    caller: &Caller,
    worker: WorkerId,
    bytes: &Bytes,
) -> Result<Answer, Refused> {
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
    let cancel = told(engine, worker).await;
    let answer = wire::ReportsAnswer { results, tasks, directive, cancel };
    let answer = observe::after_wait(respond::written(engine, StatusCode::OK, &answer), wait);
    Ok(match reports.results.as_slice() {
        [only] => Answer::about(only.task_id.0, Ok(answer)),
        _ => answer.into(),
    })
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

/// What became of one of many.
pub(super) fn shown(
    task: TaskId,
    verdict: &Result<tasklane_store::Changed, Refusal>,
) -> wire::ReportVerdict {
    match verdict {
        Ok(changed) => render::verdict(task, changed),
        Err(refusal) => wire::ReportVerdict {
            task_id: wire::TaskIdText(task),
            state: None,
            next_retry_at: None,
            error: Some(refusal_word(refusal).into()),
            cancel: Vec::new(),
        },
    }
}
