//! What a task is, as written once at its admission.

use tasklane_core::{
    Admission, Backoff, Capability, CapabilitySet, Digest, IdempotencyKey, Jitter, Lane,
    OrderingKey, QueueName, RetryPolicy, Spec, TaskType, TraceContext,
};

use super::primitive::{Damaged, Reader, Writer, one_of};

const BACKOFFS: [Backoff; 3] = [Backoff::Exponential, Backoff::Linear, Backoff::Fixed];
const JITTERS: [Jitter; 3] = [Jitter::None, Jitter::Proportional, Jitter::Full];

/// What is written of a task at its admission, its lane, id and payload apart.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSpec {
    /// What it is.
    pub spec: Spec,
    /// How it came.
    pub admission: Admission,
    /// Of the request, where it may come again.
    pub digest: Option<Digest>,
}

/// Packs a spec; the lane is stored beside it, because it is shared and searched.
pub fn encode_spec(
    buffer: Vec<u8>,
    spec: &Spec,
    admission: &Admission,
    digest: Option<Digest>,
) -> Vec<u8> {
    let mut w = Writer::versioned(buffer);
    w.byte(spec.priority.number());
    w.number(spec.max_retries.into());
    w.span(spec.timeout);
    w.flag(spec.dead_letter);
    w.option(Some(&spec.retry).filter(|retry| **retry != RetryPolicy::default()), write_retry);
    w.stamp(admission.created);
    w.option(admission.scheduled_at, Writer::time);
    w.option(admission.expires_at, Writer::time);
    w.flag(admission.blocked);
    w.option(digest, |w, digest| w.id(digest.as_bytes()));
    w.option(spec.idempotency_key.as_ref(), |w, key| w.text(key.as_str()));
    w.option(spec.ordering_key.as_ref(), |w, key| w.text(key.as_str()));
    w.metadata(&spec.metadata);
    w.option(spec.trace.as_ref(), |w, trace| {
        w.text(&trace.traceparent);
        w.option(trace.tracestate.as_deref(), Writer::text);
    });
    w.0
}

/// Unpacks a spec of a task in `lane`.
pub fn decode_spec(bytes: &[u8], lane: Lane) -> Result<StoredSpec, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let priority = r.priority()?;
    let max_retries = r.small()?;
    let timeout = r.span()?;
    let dead_letter = r.flag()?;
    let retry = r.option(read_retry)?.unwrap_or_default();
    let admission = Admission {
        created: r.stamp()?,
        scheduled_at: r.option(Reader::time)?,
        expires_at: r.option(Reader::time)?,
        blocked: r.flag()?,
    };
    let digest = r.option(Reader::digest)?;
    let bad = |_| Damaged("not a key");
    let idempotency_key = r.option(|r| IdempotencyKey::new(r.text()?).map_err(bad))?;
    let ordering_key = r.option(|r| OrderingKey::new(r.text()?).map_err(bad))?;
    let metadata = r.metadata()?;
    let trace = r.option(|r| {
        let (parent, state) = (r.text()?, r.option(Reader::text)?);
        TraceContext::new(parent, state).map_err(|_| Damaged("not a trace context"))
    })?;
    r.finish()?;
    let spec = Spec {
        lane,
        priority,
        max_retries,
        timeout,
        retry,
        dead_letter,
        idempotency_key,
        ordering_key,
        metadata,
        trace,
    };
    Ok(StoredSpec { spec, admission, digest })
}

/// Packs a lane: the name by which a store finds its number.
pub fn encode_lane(lane: &Lane) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::new());
    w.text(lane.queue.as_str());
    w.text(lane.task_type.as_str());
    w.number(lane.capabilities.iter().len() as u64);
    for capability in lane.capabilities.iter() {
        w.text(capability.as_str());
    }
    w.0
}

/// Unpacks a lane.
pub fn decode_lane(bytes: &[u8]) -> Result<Lane, Damaged> {
    let bad = |_| Damaged("not a lane");
    let mut r = Reader::versioned(bytes)?;
    let queue = QueueName::new(r.text()?).map_err(bad)?;
    let task_type = TaskType::new(r.text()?).map_err(bad)?;
    let capabilities = (0..r.number()?).map(|_| Capability::new(r.text()?).map_err(bad));
    let capabilities = CapabilitySet::new(capabilities.collect::<Result<Vec<_>, _>>()?);
    r.finish()?;
    Ok(Lane { queue, task_type, capabilities: capabilities.map_err(bad)? })
}

fn write_retry(w: &mut Writer, retry: &RetryPolicy) {
    let position = |found: Option<usize>| found.unwrap_or_default() as u8;
    w.byte(position(BACKOFFS.iter().position(|b| *b == retry.strategy())));
    w.span(retry.initial());
    w.float(retry.factor());
    w.span(retry.max());
    w.byte(position(JITTERS.iter().position(|j| *j == retry.jitter())));
}

fn read_retry(r: &mut Reader<'_>) -> Result<RetryPolicy, Damaged> {
    let strategy = one_of(&BACKOFFS, r.byte()?)?;
    let (initial, factor, max) = (r.span()?, r.float()?, r.span()?);
    let jitter = one_of(&JITTERS, r.byte()?)?;
    RetryPolicy::new(strategy, initial, factor, max, jitter)
        .map_err(|_| Damaged("not a retry policy"))
}
