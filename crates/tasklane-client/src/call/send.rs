//! Sends a call, reads the answer, and asks again where that is safe.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy;
use serde::de::DeserializeOwned;

use super::client::Client;
use super::error::Error;
use super::request::{Call, Repeat};
use crate::limits::ANSWER_BYTES_MAX;
use crate::wire::Problem;

const OUTCOME_UNKNOWN: &str = "outcome-unknown";

/// A success.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Unexpected(error.to_string()))
    }
}

/// A try that failed, and what is known of the call.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) fate: Fate,
}

/// What became of a call that gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is decided, and asking again gives the same.
    Decided,
    /// Nothing was done, and another time it may be.
    NotNow,
    /// Nobody knows.
    Unknown,
}

impl Client {
    /// Makes a call and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.send(&call).await?.read()
    }

    /// Makes a call whose answer says nothing.
    pub(super) async fn tell(&self, call: Call) -> Result<(), Error> {
        self.send(&call).await.map(|_| ())
    }

    /// Makes a call until it is answered or given up.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let mut backoff = self.inner().retries.begin();
        loop {
            let Failed { error, fate } = match self.try_once(call).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let again = match fate {
                Fate::Decided => false,
                Fate::NotNow => true,
                Fate::Unknown => call.repeat == Repeat::Safe,
            };
            let retry_after = match &error {
                Error::Refused { retry_after, .. } => *retry_after,
                _ => None,
            };
            match backoff.next(retry_after).filter(|_| again) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(self.named(error)),
            }
        }
    }

    /// Says which server was not reached.
    pub(super) fn named(&self, error: Error) -> Error {
        match error {
            Error::Unreachable(reason) => {
                Error::Unreachable(format!("{}: {reason}", self.server()))
            }
            other => other,
        }
    }

    pub(super) async fn try_once(&self, call: &Call) -> Result<Answer, Failed> {
        let within = self.inner().call_within.saturating_add(call.waits);
        let exchange = async {
            let (head, body) = self.begin(call).await?.into_parts();
            let body = collect(body).await?;
            match head.status.is_success() {
                true => Ok(Answer { headers: head.headers, body }),
                false => Err(refused(head.status, &head.headers, &body)),
            }
        };
        let late = |_| lost(format!("no answer within {} s", within.as_secs_f64()));
        tokio::time::timeout(within, exchange).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
    }

    /// Sends a call; the body of its answer is still to come.
    pub(super) async fn begin(&self, call: &Call) -> Result<Response<Incoming>, Failed> {
        let request = self.request(call)?;
        self.inner().pool.request(request).await.map_err(|error| not_sent(&error))
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failed> {
        let inner = self.inner();
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", inner.base, call.target));
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &inner.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        if let Some((name, value)) = &call.header {
            request = request.header(*name, value);
        }
        let body = Full::new(call.body.clone().unwrap_or_default());
        let wrong = |error: hyper::http::Error| Failed {
            error: Error::Usage(format!("the call cannot be made: {error}")),
            fate: Fate::Decided,
        };
        request.body(body).map_err(wrong)
    }
}

/// Reads the body of an answer.
pub(super) async fn collect(body: Incoming) -> Result<Bytes, Failed> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| lost(format!("the answer broke off: {error}")))
}

/// A refusal as an error.
pub(super) fn refused(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failed {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        // Something between the server and here, for example a proxy whose server is away.
        let fate = match status.as_u16() {
            429 | 503 => Fate::NotNow,
            502 | 504 => Fate::Unknown,
            _ => Fate::Decided,
        };
        let error = match fate {
            Fate::Decided => Error::Unexpected(format!("status {status} without a problem")),
            Fate::NotNow | Fate::Unknown => Error::Unreachable(format!("status {status}")),
        };
        return Failed { error, fate };
    };
    let fate = match status.as_u16() {
        503 if problem.problem_type == OUTCOME_UNKNOWN => Fate::Unknown,
        429 | 503 => Fate::NotNow,
        _ => Fate::Decided,
    };
    let problem = Box::new(problem);
    let error = match status {
        StatusCode::NOT_FOUND => Error::NotFound { problem },
        _ => Error::Refused { problem, retry_after: retry_after(headers) },
    };
    Failed { error, fate }
}

/// In seconds; the other form, a date, would need a clock that agrees with the server's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn not_sent(error: &legacy::Error) -> Failed {
    let fate = if error.is_connect() { Fate::NotNow } else { Fate::Unknown };
    // The innermost cause says what is the matter; those around it only where.
    let mut cause = error.source();
    while let Some(inner) = cause.and_then(|cause| cause.source()) {
        cause = Some(inner);
    }
    let reason = cause.map_or_else(|| error.to_string(), ToString::to_string);
    Failed { error: Error::Unreachable(reason), fate }
}

fn lost(reason: String) -> Failed {
    Failed { error: Error::Unreachable(reason), fate: Fate::Unknown }
}
