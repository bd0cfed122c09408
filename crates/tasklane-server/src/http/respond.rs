//! Answers as JSON.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tasklane_store::Durability;

use super::json;
use super::problem::{self, Refused};
use crate::engine::Engine;

/// A task with a small payload.
const USUAL_BYTES: usize = 1_024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const DURABILITY: HeaderName = HeaderName::from_static("durability");

/// An answer to a look.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match json::write(Vec::with_capacity(USUAL_BYTES), value) {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, JSON);
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            Refused::new(problem::INTERNAL, "the answer could not be written").into_response()
        }
    }
}

/// An answer to a write: says how durable it is (S1).
pub(crate) fn written(engine: &Engine, status: StatusCode, value: &impl Serialize) -> Response {
    let mut response = json(status, value);
    let durability = durability(engine.durability());
    response.headers_mut().insert(DURABILITY, durability);
    response
}

/// An answer to a write that leaves nothing to show.
pub(crate) fn gone(engine: &Engine) -> Response {
    let durability = durability(engine.durability());
    (StatusCode::NO_CONTENT, [(DURABILITY, durability)]).into_response()
}

fn durability(durability: Durability) -> HeaderValue {
    HeaderValue::from_static(durability.as_str())
}
