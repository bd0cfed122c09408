//! What is told of a call once it is answered: its span, where it is sampled.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderValue, Method};
use axum::response::Response;
use tasklane_core::TaskId;

use super::metrics::NO_ROUTE;
use crate::engine::Engine;
use crate::trace::{Begun, Call};

/// The route that the router found: goes with the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route(pub(super) &'static str);

/// The task that a submission made: goes with the answer where calls are told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made(pub(super) TaskId);

/// A call while it is under way.
pub(super) struct Observed {
    pub(super) started: Instant,
    method: Method,
    begun: Option<Begun>,
}

impl Observed {
    pub(super) fn new(engine: &Engine, request: &Request) -> Self {
        let begun = engine.tracer().and_then(|tracer| tracer.begin(request.headers()));
        Self { started: Instant::now(), method: request.method().clone(), begun }
    }

    /// It was answered; `route` is known if it went past the router.
    pub(super) fn end(
        self,
        engine: &Engine,
        route: Option<&'static str>,
        path: &str,
        request_id: &HeaderValue,
        response: &mut Response,
    ) {
        let Self { method, begun, .. } = self;
        let extensions = response.extensions_mut();
        let found = extensions.remove::<Route>();
        let made = extensions.remove::<Made>();
        let Some((begun, tracer)) = begun.zip(engine.tracer()) else { return };
        let route = route.or(found.map(|Route(route)| route)).unwrap_or(NO_ROUTE);
        let (is_submission, made) = (made.is_some(), made.map(|Made(task)| task));
        let call = Call {
            method,
            route,
            status: response.status().as_u16(),
            request_id: request_id.clone(),
            task_id: made.or_else(|| task_in(route, path)),
            is_submission,
        };
        tracer.end(begun, call);
    }
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
