//! What is told of a call once it is answered: a line in the log if it was slow, and its span where
//! it is sampled.

use std::borrow::Cow;
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

/// The task that a call was about, where its path does not say so.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    task: TaskId,
    /// It began with the call.
    is_made: bool,
}

/// An answer, with the task that its call was about. Beside the answer and not in it: what is put into
/// an answer is allocated, and the busiest calls do without.
pub(crate) struct Answer {
    pub(super) response: Response,
    pub(super) about: Option<About>,
}

impl Answer {
    /// To a submission, of which this task came.
    pub(super) fn made(task: TaskId, response: Response) -> Self {
        Self { response, about: Some(About { task, is_made: true }) }
    }

    /// To a call whose body named this task, whatever became of it.
    pub(super) fn about(task: TaskId, answer: Result<Response, Refused>) -> Self {
        let response = answer.unwrap_or_else(Refused::into_response);
        Self { response, about: Some(About { task, is_made: false }) }
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self { response, about: None }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Self { mut response, about } = self;
        if let Some(about) = about {
            response.extensions_mut().insert(about);
        }
        response
    }
}

/// A call while it is under way.
pub(super) struct Observed {
    pub(super) started: Instant,
    /// Where it went past the router.
    pub(super) route: Option<&'static str>,
    pub(super) about: Option<About>,
    method: Method,
    traceparent: Option<HeaderValue>,
    begun: Option<Begun>,
}

impl Observed {
    pub(super) fn new(engine: &Engine, request: &Request) -> Self {
        let begun = engine.tracer().and_then(|tracer| tracer.begin(request.headers()));
        let traceparent = request.headers().get(TRACEPARENT).cloned();
        let (method, started) = (request.method().clone(), Instant::now());
        Self { started, route: None, about: None, method, traceparent, begun }
    }

    /// It was answered.
    pub(super) fn end(
        mut self,
        engine: &Engine,
        slow: &SlowCalls,
        path: &str,
        request_id: &HeaderValue,
        response: &mut Response,
    ) {
        let extensions = response.extensions_mut();
        let found = extensions.remove::<Route>().map(|Route(route)| route);
        self.about = self.about.or_else(|| extensions.remove());
        let wait = extensions.remove::<AskedToWait>().map_or(Duration::ZERO, |asked| asked.0);
        let route = self.route.or(found).unwrap_or(NO_ROUTE);
        let (status, took) = (response.status().as_u16(), self.started.elapsed());
        if !wait.is_zero() && engine.is_draining() {
            // Nobody can wait here any more.
            response.headers_mut().entry(header::RETRY_AFTER).or_insert(SOON);
        }
        self.log(response.status(), route, path, took, request_id);
        let after = engine.settings().slow_call_after;
        if after.is_some_and(|after| counted(took, wait) >= after)
            && let Some(left_out) = slow.tell(Instant::now())
        {
            let method = self.method.as_str();
            let task_id = self.task(route, path).map(tracing::field::display);
            let trace_id = self.trace_id().map(tracing::field::display);
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
        let task_id = self.task(route, path);
        let Self { method, begun, about, .. } = self;
        let Some((begun, tracer)) = begun.zip(engine.tracer()) else { return };
        let call = Call {
            method,
            route,
            status,
            request_id: request_id.clone(),
            task_id,
            is_submission: about.is_some_and(|about| about.is_made),
        };
        tracer.end(begun, call);
    }

    /// One line of the call, where such lines are wanted.
    fn log(
        &self,
        status: StatusCode,
        route: &str,
        path: &str,
        took: Duration,
        request_id: &HeaderValue,
    ) {
        let is_fault = status == StatusCode::INTERNAL_SERVER_ERROR;
        if !is_fault && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let task_id = self.task(route, path).map(tracing::field::display);
        let trace_id = self.trace_id().map(tracing::field::display);
        let (status, took_ms) = (status.as_u16(), took.as_secs_f64() * 1e3);
        if is_fault {
            tracing::error!(?request_id, task_id, trace_id, path, status, took_ms, "a fault");
        } else {
            tracing::debug!(?request_id, task_id, trace_id, path, status, took_ms);
        }
    }

    /// The task that it was about, if it was about one.
    fn task(&self, route: &str, path: &str) -> Option<TaskId> {
        self.about.map(|about| about.task).or_else(|| task_in(route, path))
    }

    /// The trace that it belongs to, or that its task began.
    fn trace_id(&self) -> Option<Cow<'_, str>> {
        if let Some(given) = self.traceparent.as_ref().and_then(trace_id) {
            return Some(given.into());
        }
        let made = self.about.filter(|about| about.is_made)?;
        Some(format!("{:032x}", u128::from_be_bytes(*made.task.as_bytes())).into())
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
    use std::fmt::{Debug, Write};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::{Event, Level, Metadata, span};

    use super::*;

    /// What is logged at the usual level.
    #[derive(Default, Clone)]
    struct Log(Arc<Mutex<String>>);

    impl tracing::Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }
        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            writeln!(self.0.lock().unwrap(), "{}={value:?}", field.name()).unwrap();
        }
    }

    /// A call whose body named a task.
    fn observed(status: StatusCode, is_made: bool) -> String {
        let task = "0198c2f0-7a3e-7000-8000-000000000001".parse().unwrap();
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        let observed = Observed {
            started: Instant::now(),
            route: None,
            about: Some(About { task, is_made }),
            method: Method::POST,
            traceparent: (!is_made).then(|| HeaderValue::from_static(traceparent)),
            begun: None,
        };
        let (log, id) = (Log::default(), HeaderValue::from_static("r"));
        tracing::subscriber::with_default(log.clone(), || {
            observed.log(status, NO_ROUTE, "/api/v1/tasks", Duration::ZERO, &id);
        });
        let text = log.0.lock().unwrap();
        text.clone()
    }

    #[test]
    fn a_fault_names_the_task_and_its_trace_at_the_usual_level() {
        let text = observed(StatusCode::INTERNAL_SERVER_ERROR, false);
        assert!(text.contains("task_id=0198c2f0-7a3e-7000-8000-000000000001"), "{text}");
        assert!(text.contains("trace_id=0af7651916cd43dd8448eb211c80319c"), "{text}");
        let text = observed(StatusCode::INTERNAL_SERVER_ERROR, true);
        assert!(text.contains("trace_id=0198c2f07a3e70008000000000000001"), "its own: {text}");
        assert_eq!(observed(StatusCode::OK, false), "");
    }

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
