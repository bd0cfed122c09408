//! From what core knows to what goes over the wire.

use tasklane_client::wire;
use tasklane_core::{
    Backoff, Failure, Jitter, Lease, Names, Order, Progress, RetryPolicy, State, Task, Timestamp,
};
use tasklane_store::{Changed, Claimed, StoredTask};

use wire::{KindWord, PriorityWord, Seconds, StateWord, TaskIdText, Time, TokenText, WorkerIdText};

/// Names as patterns; `None` for all.
pub(crate) fn names(names: &Names) -> Option<Vec<Box<str>>> {
    let Names::Matching(patterns) = names else { return None };
    Some(patterns.iter().map(|pattern| pattern.to_string().into()).collect())
}

/// A task with its bodies.
pub(crate) fn stored(stored: StoredTask, order: &Order, now: Timestamp) -> wire::Task {
    let mut shown = task(&stored.task, order, now);
    shown.payload = Some(wire::Json(stored.payload));
    shown.result = stored.result.map(wire::Json);
    shown
}

/// A task without its bodies.
pub(crate) fn task(task: &Task, order: &Order, now: Timestamp) -> wire::Task {
    let spec = &task.spec;
    let lease = lease_of(task);
    let waits = task.state.name().is_waiting();
    let effective = match waits {
        true => order.effective(spec.priority, task.place.ready_at, now),
        false => spec.priority,
    };
    let reason = match &task.state {
        State::Cancelled { reason, .. } => Some(reason.as_str()),
        State::Failed { reason, .. } | State::DeadLetter { reason, .. } => Some(reason.as_str()),
        _ => None,
    };
    let retrying = match &task.state {
        State::Retrying { due_at } => Some(*due_at),
        _ => None,
    };
    let scheduled_at = match &task.state {
        State::Scheduled { due_at } => Some(*due_at),
        _ => task.admission.scheduled_at,
    };
    wire::Task {
        id: TaskIdText(task.id),
        task_type: spec.lane.task_type.as_str().into(),
        queue: spec.lane.queue.as_str().into(),
        payload: None,
        priority: PriorityWord(spec.priority),
        effective_priority: PriorityWord(effective),
        state: StateWord(task.state.name()),
        reason: reason.map(Into::into),
        attempts: task.counts.attempts,
        max_retries: spec.max_retries,
        deliveries: task.counts.deliveries,
        lease_losses: task.counts.lease_losses,
        replays: task.counts.replays,
        required_capabilities: spec.lane.capabilities.iter().map(|c| c.as_str().into()).collect(),
        timeout_seconds: Seconds(task.timeout),
        retry: retry(&spec.retry),
        dead_letter: spec.dead_letter,
        idempotency_key: spec.idempotency_key.as_ref().map(|key| key.as_str().into()),
        ordering_key: spec.ordering_key.as_ref().map(|key| key.as_str().into()),
        metadata: metadata(task),
        trace_id: Some(trace_id(task)),
        progress: task.progress.as_deref().map(|progress| self::progress(progress, lease, now)),
        result: None,
        error: task.error.as_deref().map(failure),
        worker_id: lease.map(|lease| WorkerIdText(lease.worker)),
        created_at: Time(task.admission.created.at),
        updated_at: Time(task.updated_at),
        scheduled_at: scheduled_at.map(Time),
        assigned_at: lease.map(|lease| Time(lease.claimed.at)),
        started_at: lease.and_then(|lease| lease.started).map(|started| Time(started.at)),
        completed_at: task.state.ended().map(|ended| Time(ended.at)),
        next_retry_at: retrying.map(Time),
        expires_at: task.expires_at.map(Time),
        cancel_requested_at: lease
            .and_then(|lease| lease.cancel_requested)
            .map(|asked| Time(asked.at)),
        age_seconds: Seconds(now.since(task.admission.created.at)),
        state_seconds: Seconds(now.since(task.state_since())),
        queue_position: None,
        estimated_wait_seconds: None,
        history: None,
        history_cut: None,
        fingerprint: None,
        attempt_history: None,
    }
}

fn lease_of(task: &Task) -> Option<&Lease> {
    match &task.state {
        State::Completed { lease, .. } => Some(lease),
        state => state.lease(),
    }
}

fn metadata(task: &Task) -> std::collections::BTreeMap<Box<str>, Box<str>> {
    task.spec.metadata.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The trace a task belongs to: its producer's, or one of its own, which is its id.
fn trace_id(task: &Task) -> Box<str> {
    let given = task.spec.trace.as_ref().and_then(|trace| trace.traceparent.split('-').nth(1));
    given.map_or_else(|| own_trace_id(task).into(), Into::into)
}

fn own_trace_id(task: &Task) -> String {
    String::from_utf8_lossy(&wire::hex(task.id.as_bytes())).into_owned()
}

/// What a worker continues. A trace that begins here is not sampled unless the worker says so.
fn traceparent(task: &Task) -> Box<str> {
    match &task.spec.trace {
        Some(trace) => trace.traceparent.as_ref().into(),
        None => {
            let id = own_trace_id(task);
            let span = id.get(16..).unwrap_or_default();
            ["00-", &id, "-", span, "-00"].concat().into()
        }
    }
}

fn retry(policy: &RetryPolicy) -> wire::Retry {
    wire::Retry {
        strategy: Some(match policy.strategy() {
            Backoff::Exponential => wire::Strategy::Exponential,
            Backoff::Linear => wire::Strategy::Linear,
            Backoff::Fixed => wire::Strategy::Fixed,
        }),
        initial_seconds: Some(Seconds(policy.initial())),
        factor: Some(policy.factor()),
        max_seconds: Some(Seconds(policy.max())),
        jitter: Some(match policy.jitter() {
            Jitter::None => wire::Jitter::None,
            Jitter::Proportional => wire::Jitter::Proportional,
            Jitter::Full => wire::Jitter::Full,
        }),
    }
}

/// What went wrong.
pub(crate) fn failure(failure: &Failure) -> wire::Failure {
    wire::Failure {
        message: failure.message.clone(),
        kind: Some(KindWord(failure.kind)),
        code: failure.code.clone(),
        retryable: Some(failure.retryable),
        details: failure.details.clone().map(wire::Json),
        stack: failure.stack.clone(),
    }
}

/// How far an attempt is, and about how long it still takes at the pace so far.
pub(crate) fn progress(
    progress: &Progress,
    lease: Option<&Lease>,
    now: Timestamp,
) -> wire::Progress {
    let percent = progress.percent.or_else(|| {
        let (step, steps) = (progress.step?, progress.steps.filter(|steps| *steps > 0)?);
        Some(f64::from(step.min(steps)) * 100.0 / f64::from(steps))
    });
    let started = lease.and_then(|lease| lease.started).map(|started| started.at);
    let eta = started.zip(percent).filter(|(_, percent)| (0.1..100.0).contains(percent));
    let eta = eta.map(|(started, percent)| {
        let taken = progress.updated_at.since(started);
        let whole = taken.mul_f64(100.0 / percent);
        whole.saturating_sub(now.since(started))
    });
    wire::Progress {
        percent: progress.percent,
        step: progress.step,
        steps: progress.steps,
        message: progress.message.clone(),
        metadata: progress.details.clone().map(wire::Json),
        updated_at: Some(Time(progress.updated_at)),
        eta_seconds: eta.map(Seconds),
    }
}

/// A task in a worker's hands.
pub(crate) fn claimed(claimed: Claimed) -> Option<wire::ClaimedTask> {
    let task = &claimed.task;
    let lease = task.state.lease()?;
    let trace = task.spec.trace.as_ref();
    Some(wire::ClaimedTask {
        id: TaskIdText(task.id),
        task_type: task.spec.lane.task_type.as_str().into(),
        queue: task.spec.lane.queue.as_str().into(),
        priority: PriorityWord(task.spec.priority),
        attempt: task.attempt(),
        max_retries: task.spec.max_retries,
        lease_token: TokenText(lease.token),
        fence: lease.fence.as_u64(),
        lease_ms: u64::try_from(claimed.lease.as_millis()).unwrap_or(u64::MAX),
        timeout_seconds: Seconds(task.timeout),
        metadata: metadata(task),
        ordering_key: task.spec.ordering_key.as_ref().map(|key| key.as_str().into()),
        traceparent: Some(traceparent(task)),
        tracestate: trace.and_then(|trace| trace.tracestate.as_deref()).map(Into::into),
        created_at: Time(task.admission.created.at),
        payload: wire::Json(claimed.payload),
    })
}

/// What became of a report.
pub(crate) fn verdict(task: tasklane_core::TaskId, changed: &Changed) -> wire::ReportVerdict {
    wire::ReportVerdict {
        task_id: TaskIdText(task),
        state: Some(StateWord(changed.state)),
        next_retry_at: changed.due_at.map(Time),
        error: None,
        cancel: Vec::new(),
    }
}
