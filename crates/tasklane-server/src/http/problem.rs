//! Refusals on their way to a client.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tasklane_client::wire::{FieldError, Problem as WireProblem, StateWord};
use tasklane_core::{Invalid, Problem, Refusal, StateName};
use tasklane_store::{StoreError, SubmitProblem, SubmitRefusal, WorkerRefusal};

use crate::engine::EngineError;

/// A row of the bad-input table: status, type and title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Of HTTP.
    pub status: StatusCode,
    /// The word to act on.
    pub word: &'static str,
    /// For people.
    pub title: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $status:ident, $word:literal, $title:literal;)*) => {
        $(
            #[doc = $title]
            pub(crate) const $name: Kind =
                Kind { status: StatusCode::$status, word: $word, title: $title };
        )*
        /// All of them.
        pub const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    MALFORMED_JSON = BAD_REQUEST, "malformed-json", "The body is not well-formed JSON";
    JSON_TOO_DEEP = BAD_REQUEST, "json-too-deep", "The body is nested too deeply";
    INVALID_CURSOR = BAD_REQUEST, "invalid-cursor", "The cursor is not one of this server";
    PAYLOAD_TOO_LARGE = PAYLOAD_TOO_LARGE, "payload-too-large", "The body or payload is too large";
    UNSUPPORTED_MEDIA_TYPE = UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body is not JSON in a known encoding";
    VALIDATION_FAILED = UNPROCESSABLE_ENTITY, "validation-failed", "The request is not acceptable";
    OUT_OF_RANGE = UNPROCESSABLE_ENTITY, "out-of-range", "A value is out of range";
    INVALID_CHARACTERS = UNPROCESSABLE_ENTITY, "invalid-characters", "A text has characters that are not allowed";
    INVALID_CONFIGURATION = UNPROCESSABLE_ENTITY, "invalid-configuration", "What is configured is wrong; nothing was changed";
    IDEMPOTENCY_MISMATCH = UNPROCESSABLE_ENTITY, "idempotency-mismatch", "The key or id was used with another body";
    UNAUTHENTICATED = UNAUTHORIZED, "unauthenticated", "A key is needed";
    INSUFFICIENT_SCOPE = FORBIDDEN, "insufficient-scope", "The key does not allow that";
    NOT_FOUND = NOT_FOUND, "not-found", "There is no such thing";
    WORKER_GONE = GONE, "worker-gone", "The worker is not known any more; register again";
    LEASE_LOST = CONFLICT, "lease-lost", "The lease is not held";
    INVALID_STATE = CONFLICT, "invalid-state", "Not possible in the present state";
    RATE_LIMITED = TOO_MANY_REQUESTS, "rate-limited", "Too many calls";
    QUEUE_FULL = TOO_MANY_REQUESTS, "queue-full", "The queue is full";
    QUEUE_FULL_FOR_ALL = SERVICE_UNAVAILABLE, "queue-full", "The queue is full";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded", "The server has too much to do";
    STORE_UNAVAILABLE = SERVICE_UNAVAILABLE, "store-unavailable", "The store takes no calls";
    STORAGE_FULL = SERVICE_UNAVAILABLE, "storage-full", "The disk is full";
    OUTCOME_UNKNOWN = SERVICE_UNAVAILABLE, "outcome-unknown", "It may or may not have happened";
    SHUTTING_DOWN = SERVICE_UNAVAILABLE, "shutting-down", "The server is going away";
    NOT_SUPPORTED = NOT_IMPLEMENTED, "not-supported", "This server or its store cannot do that";
    REQUEST_TIMEOUT = REQUEST_TIMEOUT, "request-timeout", "The request came too slowly";
    HEADERS_TOO_LARGE = REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "The headers are too large";
    URI_TOO_LONG = URI_TOO_LONG, "uri-too-long", "The target is too long";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed here";
    ORIGIN_FORBIDDEN = FORBIDDEN, "origin-forbidden", "The origin is not allowed";
    INTERNAL = INTERNAL_SERVER_ERROR, "internal", "A fault in the server";
}

/// How long to wait before trying again, unless something better is known.
const RETRY_AFTER_SECONDS: u32 = 1;

/// How to say who one is.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"tasklane\"");

/// A refusal, still without the request it answers: the outermost layer adds that and renders it.
#[derive(Debug, Clone)]
pub struct Refused {
    kind: Kind,
    detail: Box<str>,
    errors: Vec<FieldError>,
    current_state: Option<StateName>,
    retry_after: u32,
}

impl Refused {
    /// A refusal of `kind`.
    pub fn new(kind: Kind, detail: impl Into<Box<str>>) -> Self {
        let (errors, current_state, retry_after) = (Vec::new(), None, RETRY_AFTER_SECONDS);
        Self { kind, detail: detail.into(), errors, current_state, retry_after }
    }

    /// Somebody has called too often, and may again after `wait`.
    pub(crate) fn too_often(wait: Duration) -> Self {
        let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
        let retry_after = seconds.max(RETRY_AFTER_SECONDS);
        let detail = format!("more calls than are allowed; the next one in {retry_after} s");
        Self { retry_after, ..Self::new(RATE_LIMITED, detail) }
    }

    /// There is no `what` by that name.
    pub fn not_found(what: &str) -> Self {
        Self::new(NOT_FOUND, format!("no such {what}"))
    }

    /// There is something by that name, but not for this method.
    pub(super) fn method_not_allowed() -> Self {
        Self::new(METHOD_NOT_ALLOWED, "see the Allow header")
    }

    /// Something is wrong with a member.
    pub fn field(
        kind: Kind,
        pointer: impl Into<Box<str>>,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<Box<str>>,
    ) -> Self {
        let (pointer, detail): (Box<str>, Box<str>) = (pointer.into(), detail.into());
        let shown = match &*pointer {
            "" => detail.clone(),
            pointer => format!("{pointer}: {detail}").into(),
        };
        let error = FieldError { pointer, code: code.into(), detail };
        Self { errors: vec![error], ..Self::new(kind, shown) }
    }

    /// What is configured is wrong, a line for each fault.
    fn configuration(lines: Vec<String>) -> Self {
        let detail = match lines.as_slice() {
            [line] => line.clone(),
            lines => format!("{} faults: see errors", lines.len()),
        };
        let error = |line: String| FieldError {
            pointer: "".into(),
            code: "configuration".into(),
            detail: line.into(),
        };
        let errors = lines.into_iter().map(error).collect();
        Self { errors, ..Self::new(INVALID_CONFIGURATION, detail) }
    }

    /// A value is not acceptable; `under` is the pointer to what holds it.
    pub fn invalid(under: &str, invalid: &Invalid) -> Self {
        let name = matches!(invalid.field, "queue" | "type" | "capability" | "pattern");
        let body = matches!(invalid.field, "payload" | "result");
        let (kind, code) = match &invalid.problem {
            Problem::Empty => (VALIDATION_FAILED, "empty"),
            Problem::TooLong { .. } if body => (PAYLOAD_TOO_LARGE, "too-long"),
            // Over-long names share a row with the characters that names may not have.
            Problem::TooLong { .. } if name => (INVALID_CHARACTERS, "too-long"),
            Problem::TooLong { .. } => (VALIDATION_FAILED, "too-long"),
            Problem::TooMany { .. } => (VALIDATION_FAILED, "too-many"),
            Problem::Characters => (INVALID_CHARACTERS, "invalid-characters"),
            Problem::OutOfRange { .. } => (OUT_OF_RANGE, "out-of-range"),
            Problem::Malformed { .. } => (VALIDATION_FAILED, "malformed"),
        };
        let pointer = format!("{under}/{}", invalid.field.replace('.', "/"));
        Self::field(kind, pointer, code, invalid.problem.to_string())
    }

    /// The same, about something that stands deeper in the body.
    pub(crate) fn under(mut self, pointer: &str) -> Self {
        for error in &mut self.errors {
            error.pointer = format!("{pointer}{}", error.pointer).into();
        }
        self.detail = format!("{pointer}: {}", self.detail).into();
        self
    }

    /// The row of the table.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The whole body.
    pub(crate) fn render(self, instance: &str, request_id: &str) -> WireProblem {
        WireProblem {
            problem_type: self.kind.word.into(),
            title: self.kind.title.into(),
            status: self.kind.status.as_u16(),
            detail: self.detail,
            instance: instance.into(),
            request_id: request_id.into(),
            errors: self.errors,
            current_state: self.current_state.map(StateWord),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.kind.status.into_response();
        if matches!(self.kind.status.as_u16(), 429 | 503) {
            let seconds = HeaderValue::from(self.retry_after);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if self.kind == UNAUTHENTICATED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, BEARER);
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Submit(refusal) => refusal.into(),
            EngineError::Worker(refusal) => refusal.into(),
            EngineError::Task(refusal) => refusal.into(),
            EngineError::Invalid(invalid) => Self::invalid("", &invalid),
            EngineError::NotFound(what) => Self::not_found(what),
            EngineError::NotOwned => Self::new(INSUFFICIENT_SCOPE, error.to_string()),
            EngineError::Configuration(lines) => Self::configuration(lines),
            EngineError::NoConfiguration => Self::new(NOT_SUPPORTED, error.to_string()),
        }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Invalid(invalid) => return Self::invalid("", invalid),
            StoreError::Full(_) => STORAGE_FULL,
            StoreError::OutcomeUnknown(_) => OUTCOME_UNKNOWN,
            StoreError::Overloaded(_) | StoreError::Obstructed(_) | StoreError::TooSlow(_) => {
                OVERLOADED
            }
            StoreError::Unsupported(_) => NOT_SUPPORTED,
            StoreError::Unavailable(_)
            | StoreError::Corrupt(_)
            | StoreError::Locked(_)
            | StoreError::Version(_)
            | StoreError::Closed => STORE_UNAVAILABLE,
        };
        // A line for each refused call would make an overload worse; metrics count them.
        if kind != OVERLOADED {
            tracing::warn!(%error, "the store refused a call");
        }
        // What is inside stays in the log.
        let detail = match kind {
            OUTCOME_UNKNOWN => "sending it again with the same id or idempotency key is safe",
            STORAGE_FULL => "nothing was written",
            NOT_SUPPORTED => return Self::new(kind, error.to_string()),
            _ => "nothing was done; try again later",
        };
        Self::new(kind, detail)
    }
}

impl From<SubmitRefusal> for Refused {
    fn from(refusal: SubmitRefusal) -> Self {
        let detail = refusal.problem.to_string();
        match &refusal.problem {
            SubmitProblem::Mismatch => Self::new(IDEMPOTENCY_MISMATCH, detail),
            SubmitProblem::QueueFull { for_all: false, .. } => Self::new(QUEUE_FULL, detail),
            SubmitProblem::QueueFull { for_all: true, .. } => Self::new(QUEUE_FULL_FOR_ALL, detail),
            SubmitProblem::TooManyLanes => Self::field(VALIDATION_FAILED, "", "too-many", detail),
            SubmitProblem::Invalid(invalid) => Self::invalid("", invalid),
        }
    }
}

impl From<WorkerRefusal> for Refused {
    fn from(refusal: WorkerRefusal) -> Self {
        match refusal {
            WorkerRefusal::Gone => Self::new(WORKER_GONE, refusal.to_string()),
            WorkerRefusal::Alive => Self::new(INVALID_STATE, refusal.to_string()),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match &refusal {
            Refusal::NotFound => Self::not_found("task"),
            Refusal::LeaseLost => Self::new(LEASE_LOST, refusal.to_string()),
            Refusal::InvalidState { current } => {
                let refused = Self::new(INVALID_STATE, refusal.to_string());
                Self { current_state: Some(*current), ..refused }
            }
            Refusal::NotDue => Self::new(INVALID_STATE, refusal.to_string()),
            Refusal::Invalid(invalid) => Self::invalid("", invalid),
        }
    }
}

/// The word of a refusal inside an answer about many tasks.
pub(crate) fn refusal_word(refusal: &Refusal) -> &'static str {
    Refused::from(refusal.clone()).kind.word
}

#[cfg(test)]
#[path = "tests/problem.rs"]
mod tests;
