//! One call, as it is told.

use std::time::SystemTime;

use axum::http::{HeaderValue, Method};
use tasklane_core::TaskId;

use super::context::Context;

/// What a call was.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Its route, with names in place of what varies.
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) request_id: HeaderValue,
    /// The task that it was about, if it was about one.
    pub(crate) task_id: Option<TaskId>,
    /// Whether that task began with it.
    pub(crate) is_submission: bool,
}

#[cfg(test)]
impl Call {
    pub(super) fn example() -> Self {
        let (method, request_id) = (Method::GET, HeaderValue::from_static("1"));
        let (route, status) = ("/livez", 200);
        Self { method, route, status, request_id, task_id: None, is_submission: false }
    }
}

/// A call with its place in a trace.
#[derive(Debug)]
pub(crate) struct Span {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) state: Option<Box<str>>,
    pub(super) began_at: SystemTime,
    pub(super) ended_at: SystemTime,
    pub(super) call: Call,
}

impl Span {
    pub(super) fn of(parent: Option<Context>, began_at: SystemTime, call: Call) -> Self {
        let (trace_id, span_id) = match (&parent, call.task_id.filter(|_| call.is_submission)) {
            (Some(parent), _) => (parent.trace_id, random()),
            // A task without a trace has one of its own, which its worker is told as this.
            (None, Some(task)) => own_trace(task),
            (None, None) => (random(), random()),
        };
        let (parent, state) = match parent {
            Some(parent) => (Some(parent.span_id), parent.state),
            None => (None, None),
        };
        let ended_at = SystemTime::now().max(began_at);
        Self { trace_id, span_id, parent, state, began_at, ended_at, call }
    }
}

fn own_trace(task: TaskId) -> ([u8; 16], [u8; 8]) {
    let trace_id = *task.as_bytes();
    (trace_id, trace_id.last_chunk().copied().unwrap_or_default())
}

/// Never nothing but noughts, which would be no id.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes = [1; N];
    }
    bytes
}
