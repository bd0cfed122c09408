//! Operators look at the audit log.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_store::AuditFrom;

use crate::http::filter::{self, PAGE};
use crate::http::problem::Refused;
use crate::http::query::{Form, Known, Parameters, known, parameters};
use crate::http::{App, respond};

const ORDER: &[Known] =
    &[known("oldest_first", Form::Flag, "`true`: from the oldest record on, to follow the chain.")];

parameters!(
    /// Of the audit log.
    ListAudit = [ORDER, PAGE]
);

/// List what operators did and who was refused, the newest first
///
/// Each record holds the hash of the one before it, so that a change in the middle shows. Calls
/// that were refused alike are one record with a count.
#[utoipa::path(get, path = "/audit", tag = "operators", params(ListAudit),
    responses((status = 200, description = "A page", body = wire::AuditPage)))]
pub(crate) async fn list_audit(
    State(engine): App,
    parameters: Parameters<ListAudit>,
) -> Result<Response, Refused> {
    let limit = filter::limit(&parameters)?;
    let cursor: Option<u64> = match parameters.text("cursor")? {
        Some(text) => Some(text.parse().map_err(|_| filter::bad_cursor())?),
        None => None,
    };
    let from = match (parameters.flag("oldest_first")?, cursor) {
        (true, cursor) => AuditFrom::After(cursor.unwrap_or_default()),
        (false, Some(cursor)) => AuditFrom::Before(cursor),
        (false, None) => AuditFrom::Newest,
    };
    let records = engine.audit(from, limit).await?;
    // A full page may be the last: then the next one is empty.
    let last = records.last().filter(|_| records.len() == limit);
    let page = wire::AuditPage {
        next_cursor: last.map(|last| last.number.to_string().into()),
        records: records.into_iter().map(wire::AuditRecord::of).collect(),
    };
    Ok(respond::json(StatusCode::OK, &page))
}
