//! From what came over the wire to what core checks.

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use serde_json::value::RawValue;
use tasklane_client::wire;
use tasklane_core::{
    Backoff, Capability, CapabilitySet, ErrorKind, Failure, IdempotencyKey, Invalid, Jitter,
    Metadata, NewTask, OrderingKey, Outcome, Pattern, Problem, QueueName, RetryPolicy, Selection,
    TaskType, TraceContext, When, WorkerSpec, classify, limits,
};

use super::problem::{self, Refused};
use crate::settings::Settings;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Capacity of a worker that names none.
const CAPACITY_DEFAULT: u32 = 5;

/// The names of the task before: tasks of a batch are mostly alike, and then share them.
#[derive(Default)]
pub(crate) struct Names {
    task_type: Option<TaskType>,
    queue: Option<QueueName>,
}

impl Names {
    fn task_type(&mut self, text: &str) -> Result<TaskType, Invalid> {
        match &self.task_type {
            Some(known) if known.as_str() == text => Ok(known.clone()),
            _ => Ok(self.task_type.insert(TaskType::new(text)?).clone()),
        }
    }

    fn queue(&mut self, text: &str) -> Result<QueueName, Invalid> {
        match &self.queue {
            Some(known) if known.as_str() == text => Ok(known.clone()),
            _ => Ok(self.queue.insert(QueueName::new(text)?).clone()),
        }
    }
}

/// A task of a submission. `body` is what `task` was read from, so that the payload is not copied.
pub(crate) fn new_task(
    body: &Bytes,
    task: &wire::NewTask<'_>,
    trace: Option<&TraceContext>,
    names: &mut Names,
) -> Result<NewTask, Invalid> {
    if task.scheduled_at.is_some() && task.delay_seconds.is_some() {
        let expected = "left out when scheduled_at is given";
        return Err(Invalid::new("delay_seconds", Problem::Malformed { expected }));
    }
    let schedule = match (task.scheduled_at, task.delay_seconds) {
        (Some(at), _) => Some(When::At(at.0)),
        (None, delay) => delay.map(|delay| When::After(delay.0)),
    };
    let mut new = NewTask::new(names.task_type(&task.task_type)?, raw(body, task.payload));
    if let Some(queue) = &task.queue {
        new.queue = names.queue(queue)?;
    }
    new.id = task.id.map(|id| id.0);
    new.priority = task.priority.map(|priority| priority.0);
    if let Some(names) = &task.required_capabilities {
        new.capabilities = capabilities(names.iter().map(AsRef::as_ref), "required_capabilities")?;
    }
    new.max_retries = task.max_retries;
    new.timeout = task.timeout_seconds.map(|seconds| seconds.0);
    new.retry = task.retry.map(retry).transpose()?;
    new.schedule = schedule;
    new.expires = task.expires_at.map(|at| When::At(at.0));
    new.idempotency_key = task.idempotency_key.as_ref().map(IdempotencyKey::new).transpose()?;
    new.ordering_key = task.ordering_key.as_ref().map(OrderingKey::new).transpose()?;
    if let Some(labels) = &task.metadata {
        new.metadata = Metadata::new(labels.0.iter().map(|(name, value)| (name, value)))?;
    }
    new.dead_letter = task.dead_letter;
    new.trace = trace.cloned();
    Ok(new)
}

/// JSON as it stands in the body; `null` where it is absent.
fn raw(body: &Bytes, value: Option<&RawValue>) -> Bytes {
    value.map_or(Bytes::from_static(b"null"), |value| body.slice_ref(value.get().as_bytes()))
}

fn retry(retry: wire::Retry) -> Result<RetryPolicy, Invalid> {
    let default = RetryPolicy::default();
    let strategy = retry.strategy.map_or(default.strategy(), |strategy| match strategy {
        wire::Strategy::Exponential => Backoff::Exponential,
        wire::Strategy::Linear => Backoff::Linear,
        wire::Strategy::Fixed => Backoff::Fixed,
    });
    let jitter = retry.jitter.map_or(default.jitter(), |jitter| match jitter {
        wire::Jitter::None => Jitter::None,
        wire::Jitter::Proportional => Jitter::Proportional,
        wire::Jitter::Full => Jitter::Full,
    });
    let initial = retry.initial_seconds.map_or(default.initial(), |seconds| seconds.0);
    // A first delay above the default bound raises it, unless another bound is named.
    let max = retry.max_seconds.map_or(default.max().max(initial), |seconds| seconds.0);
    RetryPolicy::new(strategy, initial, retry.factor.unwrap_or(default.factor()), max, jitter)
}

/// A set of capabilities, or what is wrong with one of them.
pub(crate) fn capabilities<'a>(
    names: impl Iterator<Item = &'a str>,
    field: &'static str,
) -> Result<CapabilitySet, Invalid> {
    let names: Result<Vec<_>, _> = names.map(Capability::new).collect();
    names.and_then(CapabilitySet::new).map_err(|invalid| Invalid::new(field, invalid.problem))
}

/// The trace of a submission, where it names one.
pub(crate) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    // A header that is no trace context is no reason to refuse a task.
    let parent = text(TRACEPARENT).filter(|parent| is_traceparent(parent))?;
    TraceContext::new(parent, text(TRACESTATE)).ok()
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let zero = |part: &str| part.bytes().all(|b| b == b'0');
    match parts.as_slice() {
        [version, trace, span, flags, ..] => {
            hex(version, 2)
                && *version != "ff"
                && (*version != "00" || parts.len() == 4)
                && hex(trace, 32)
                && !zero(trace)
                && hex(span, 16)
                && !zero(span)
                && hex(flags, 2)
        }
        _ => false,
    }
}

/// How an attempt ended, as its worker says.
pub(crate) fn outcome(
    body: &Bytes,
    report: &wire::Report<'_>,
    settings: &Settings,
) -> Result<Outcome, Refused> {
    let stray = |field: &str, given: bool| {
        let detail = "does not belong to this status";
        given.then(|| {
            Refused::field(problem::VALIDATION_FAILED, format!("/{field}"), "unexpected", detail)
        })
    };
    let status = report.status;
    let strays = [
        stray("result", report.result.is_some() && status != wire::ReportStatus::Completed),
        stray("error", report.error.is_some() && status != wire::ReportStatus::Failed),
        stray(
            "retry_after_seconds",
            report.retry_after_seconds.is_some() && status != wire::ReportStatus::Failed,
        ),
        stray(
            "delay_seconds",
            report.delay_seconds.is_some() && status != wire::ReportStatus::Released,
        ),
    ];
    if let Some(refused) = strays.into_iter().flatten().next() {
        return Err(refused);
    }
    let outcome = match status {
        wire::ReportStatus::Completed => {
            let result = raw(body, report.result);
            if result.len() > settings.policies.payload_bytes_max {
                let max = settings.policies.payload_bytes_max;
                return Err(Refused::invalid(
                    "",
                    &Invalid::new("result", Problem::TooLong { max }),
                ));
            }
            Outcome::Completed(result)
        }
        wire::ReportStatus::Failed => Outcome::Failed {
            failure: failure(report.error.as_ref(), settings),
            retry_after: report.retry_after_seconds.map(|seconds| seconds.0),
        },
        wire::ReportStatus::Cancelled => Outcome::Cancelled,
        wire::ReportStatus::Released => {
            Outcome::Released { delay: report.delay_seconds.map(|seconds| seconds.0) }
        }
    };
    outcome.check().map_err(|invalid| Refused::invalid("", &invalid))?;
    Ok(outcome)
}

fn failure(error: Option<&wire::Failure>, settings: &Settings) -> Failure {
    let Some(error) = error else {
        return Failure::new(ErrorKind::Unknown, "the worker gave no reason");
    };
    let mut failure = Failure::new(ErrorKind::Unknown, &error.message);
    if let Some(code) = &error.code {
        failure = failure.with_code(code);
    }
    if let Some(details) = &error.details {
        failure = failure.with_details(details.0.clone());
    }
    if let Some(stack) = &error.stack {
        failure = failure.with_stack(stack);
    }
    failure.kind = match error.kind {
        Some(kind) => kind.0,
        None => classify(&settings.classify, failure.code.as_deref(), &failure.message),
    };
    failure.retryable = error.retryable.unwrap_or(true);
    failure
}

/// What a worker says of itself.
pub(crate) fn worker_spec(register: &wire::Register) -> Result<WorkerSpec, Invalid> {
    let names = |list: &Option<Vec<Box<str>>>, field: &'static str| match list {
        None => Ok(tasklane_core::Names::All),
        Some(list) => {
            let patterns: Result<Vec<_>, _> = list.iter().map(|name| Pattern::new(name)).collect();
            patterns
                .and_then(tasklane_core::Names::matching)
                .map_err(|invalid| Invalid::new(field, invalid.problem))
        }
    };
    let own = register.capabilities.iter().flatten().map(AsRef::as_ref);
    let selection = Selection {
        queues: names(&register.queues, "queues")?,
        types: names(&register.types, "types")?,
        capabilities: capabilities(own, "capabilities")?,
    };
    let capacity = register.capacity.unwrap_or(CAPACITY_DEFAULT);
    WorkerSpec::new(selection, capacity)?.described(
        register.name.as_deref(),
        register.version.as_deref(),
        register.host.as_deref(),
    )
}

/// A number of things in one call.
pub(crate) fn check_count(field: &'static str, count: usize, max: usize) -> Result<(), Invalid> {
    if count > max { Err(Invalid::new(field, Problem::TooMany { max })) } else { Ok(()) }
}

/// A batch is neither empty nor too large.
pub(crate) fn check_batch(count: usize) -> Result<(), Invalid> {
    if count == 0 {
        return Err(Invalid::new("tasks", Problem::Empty));
    }
    check_count("tasks", count, limits::BATCH_TASKS_MAX)
}
