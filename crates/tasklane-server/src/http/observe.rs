//! What is told of a call once it is answered: a line in the log if it was slow, and its span where
//! it is sampled.

use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tasklane_core::TaskId;

use super::metrics::NO_ROUTE;
use super::problem::Refused;
use super::slow::{SlowCalls, counted};
use crate::engine::Engine;
use crate::trace::{Begun, Call};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// When to come back after a call that was ended because the server goes away.
const SOON: HeaderValue = HeaderValue::from_static("1");

/// The route that the router found: goes with the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route(pub(super) &'static str);

/// How long a call had asked to wait: goes with the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedToWait(pub(super) Duration);

/// An answer to a call that had asked to wait.
pub(super) fn after_wait(mut response: Response, wait: Duration) -> Response {
    if !wait.is_zero() {
        response.extensions_mut().insert(AskedToWait(wait));
    }
    response
}

/// The task that a submission made: goes with the answer where calls are told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made(pub(super) TaskId);

/// The task that a body named: goes with the answer where calls are told of.
#[derive(Debug, Clone, Copy)]
struct About(TaskId);

/// An answer to a call whose body named one task.
pub(super) fn about(
    engine: &Engine,
    task: TaskId,
    answer: Result<Response, Refused>,
) -> Result<Response, Refused> {
    if engine.tracer().is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
        return answer;
    }
    let mut response = answer.unwrap_or_else(Refused::into_response);
    response.extensions_mut().insert(About(task));
    Ok(response)
}

/// A call while it is under way.
pub(super) struct Observed {
    pub(super) started: Instant,
    method: Method,
    traceparent: Option<HeaderValue>,
    begun: Option<Begun>,
}

impl Observed {
    pub(super) fn new(engine: &Engine, request: &Request) -> Self {
        let begun = engine.tracer().and_then(|tracer| tracer.begin(request.headers()));
        let traceparent = request.headers().get(TRACEPARENT).cloned();
        Self { started: Instant::now(), method: request.method().clone(), traceparent, begun }
    }

    /// It was answered; `route` is known if it went past the router.
    pub(super) fn end(
        self,
        engine: &Engine,
        slow: &SlowCalls,
        route: Option<&'static str>,
        path: &str,
        request_id: &HeaderValue,
        response: &mut Response,
    ) {
        let extensions = response.extensions_mut();
        let found = extensions.remove::<Route>().map(|Route(route)| route);
        let made = extensions.remove::<Made>();
        let about = extensions.remove::<About>().map(|About(task)| task);
        let wait = extensions.remove::<AskedToWait>().map_or(Duration::ZERO, |asked| asked.0);
        let route = route.or(found).unwrap_or(NO_ROUTE);
        let (status, took) = (response.status().as_u16(), self.started.elapsed());
        if !wait.is_zero() && engine.is_draining() {
            // Nobody can wait here any more.
            response.headers_mut().entry(header::RETRY_AFTER).or_insert(SOON);
        }
        let made = made.map(|Made(task)| task);
        let task = || made.or(about).or_else(|| task_in(route, path));
        self.log(response.status(), path, took, request_id, task);
        let after = engine.settings().slow_call_after;
        if after.is_some_and(|after| counted(took, wait) >= after)
            && let Some(left_out) = slow.tell(Instant::now())
        {
            let method = self.method.as_str();
            let task_id = task().map(tracing::field::display);
            let trace_id = self.traceparent.as_ref().and_then(trace_id);
            let millis = |time: Duration| time.as_millis() as u64;
            let (took_ms, asked_ms) = (millis(took), millis(wait));
            tracing::warn!(
                method,
                route,
                status,
                took_ms,
                asked_ms,
                ?request_id,
                task_id,
                trace_id,
                left_out,
                "a slow call"
            );
        }
        let Self { method, begun, .. } = self;
        let Some((begun, tracer)) = begun.zip(engine.tracer()) else { return };
        let call = Call {
            method,
            route,
            status,
            request_id: request_id.clone(),
            task_id: task(),
            is_submission: made.is_some(),
        };
        tracer.end(begun, call);
    }

    /// One line of the call, where such lines are wanted.
    fn log(
        &self,
        status: StatusCode,
        path: &str,
        took: Duration,
        request_id: &HeaderValue,
        task_id: impl FnOnce() -> Option<TaskId>,
    ) {
        let is_fault = status == StatusCode::INTERNAL_SERVER_ERROR;
        if !is_fault && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let task_id = task_id().map(tracing::field::display);
        let trace_id = self.traceparent.as_ref().and_then(trace_id);
        let (status, took_ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
        if is_fault {
            tracing::error!(?request_id, task_id, trace_id, path, status, took_ms, "a fault");
        } else {
            tracing::debug!(?request_id, task_id, trace_id, path, status, took_ms);
        }
    }
}

/// The trace in a header, as far as it looks like one.
fn trace_id(traceparent: &HeaderValue) -> Option<&str> {
    let id = traceparent.to_str().ok()?.split('-').nth(1)?;
    let is_hex = id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (id.len() == 32 && is_hex).then_some(id)
}

/// The task that a path names.
fn task_in(route: &str, path: &str) -> Option<TaskId> {
    let is_of_tasks = route.contains("/tasks/{id}") || route.contains("/dlq/{id}");
    let at = route.split('/').position(|part| part == "{id}").filter(|_| is_of_tasks)?;
    path.split('/').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_where_a_route_has_one() {
        let id = "0198c2f0-7a3e-7000-8000-000000000001";
        let found = |route: &str, path: &str| task_in(route, path).map(|id| id.to_string());
        let path = format!("/api/v1/tasks/{id}/history");
        assert_eq!(found("/api/v1/tasks/{id}/history", &path).as_deref(), Some(id));
        assert_eq!(found("/api/v1/dlq/{id}", &format!("/api/v1/dlq/{id}")).as_deref(), Some(id));
        assert_eq!(found("/admin/workers/{id}", &format!("/admin/workers/{id}")), None);
        assert_eq!(found("/api/v1/tasks/{id}", "/api/v1/tasks/x"), None);
        assert_eq!(found("/api/v1/tasks", "/api/v1/tasks"), None);
    }
}
