//! The names of all keys. They share one hash tag, so that one script may touch them all.

use tasklane_core::{Invalid, Priority, Problem, StateName, WorkerId};

/// Bytes of a namespace.
const NAMESPACE_BYTES_MAX: usize = 64;

/// A key, by what it holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// Hash: version, last number, epoch and the server it began on, how many lanes, version of the
    /// queues, what all fences are above.
    Meta,
    /// Hash: an earlier epoch → how far its feed is the same as that of this one.
    Epochs,
    /// String: the server that may write alone for a moment.
    Turn,
    /// Hash: id → what a task is, with its payload if that is small.
    Task,
    /// Hash: id → what has happened to it, unless it is as it was admitted; with its trail and its
    /// result while they are small.
    Record,
    /// Hash: id → a payload that is not small.
    Payload,
    /// Hash: id → a result that is not small.
    Outcome,
    /// Hash: id → a trail that is not small.
    Trail,
    /// Sorted set: labels of the blocks of the index.
    Index,
    /// Hash: label → ids.
    Block,
    /// Hash: number → a lane.
    Lanes,
    /// Hash: number → a queue.
    Queues,
    /// Sorted set: pending tasks of a lane and priority, by place.
    Lane(u32, Priority),
    /// Sorted set: lanes of a queue and priority, by the place of their first.
    Heads(u32, Priority),
    /// Sorted set: live tasks of an ordering key, by the number with which they joined.
    Line(u32, Box<str>),
    /// Hash: lane, priority and state → how many.
    Counts,
    /// Hash: queue → how many wait.
    Depth,
    /// Sorted set: workers that hold tasks, by the first deadline of these.
    Leases,
    /// Sorted set: tasks that a worker holds, by their next deadline.
    Held(WorkerId),
    /// Set: held tasks that should stop.
    Cancel,
    /// Sorted set: kind and id of waiting tasks by the time at which something happens to them.
    Timers,
    /// Sorted set: ended tasks of a queue by the time of their end. Those that were completed by one
    /// write are one member, up to 64 of them; one that was discarded is still in it.
    Ended(StateName, u32),
    /// Hash: queue and idempotency key → its record.
    Idempotency,
    /// Sorted set: queue and idempotency key by age.
    IdempotencyAge,
    /// Hash: id → a worker.
    Workers,
    /// Sorted set: workers by when they were last heard of.
    Alive,
    /// Sorted set: dead workers by when they died.
    Dead,
    /// Hash: worker → when it last renewed all its leases.
    Renewed,
    /// Hash: worker → what it said of its health.
    Health,
    /// Stream: events, an entry per write.
    Feed,
    /// Stream: records of the audit log.
    Audit,
    /// Hash: id → an API key.
    ApiKeys,
}

/// What comes before the name of every key.
#[derive(Debug, Clone)]
pub(crate) struct Namespace(Vec<u8>);

impl Namespace {
    pub(crate) fn new(name: &str) -> Result<Self, Invalid> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAMESPACE_BYTES_MAX || !name.chars().all(plain) {
            let expected = "up to 64 letters, digits, dots, hyphens and underscores";
            return Err(Invalid::new("namespace", Problem::Malformed { expected }));
        }
        Ok(Self(format!("{{{name}}}:").into_bytes()))
    }

    /// The name under which Redis knows a key.
    pub(crate) fn name(&self, key: &Key) -> Vec<u8> {
        let mut name = self.0.clone();
        let mut write = |text: &str| name.extend_from_slice(text.as_bytes());
        match key {
            Key::Meta => write("meta"),
            Key::Epochs => write("epochs"),
            Key::Turn => write("turn"),
            Key::Task => write("task"),
            Key::Record => write("record"),
            Key::Payload => write("payload"),
            Key::Outcome => write("result"),
            Key::Trail => write("trail"),
            Key::Index => write("index"),
            Key::Block => write("block"),
            Key::Lanes => write("lanes"),
            Key::Queues => write("queues"),
            Key::Lane(lane, priority) => write(&format!("lane:{lane}:{}", priority.number())),
            Key::Heads(queue, priority) => write(&format!("heads:{queue}:{}", priority.number())),
            Key::Line(queue, ordering) => write(&format!("line:{queue}:{ordering}")),
            Key::Counts => write("counts"),
            Key::Depth => write("depth"),
            Key::Leases => write("leases"),
            Key::Held(worker) => write(&format!("held:{worker}")),
            Key::Cancel => write("cancel"),
            Key::Timers => write("timers"),
            Key::Ended(state, queue) => write(&format!("ended:{queue}:{}", state.as_str())),
            Key::Idempotency => write("idempotency"),
            Key::IdempotencyAge => write("idempotency:age"),
            Key::Workers => write("workers"),
            Key::Alive => write("alive"),
            Key::Dead => write("dead"),
            Key::Renewed => write("renewed"),
            Key::Health => write("health"),
            Key::Feed => write("feed"),
            Key::Audit => write("audit"),
            Key::ApiKeys => write("keys"),
        }
        name
    }
}
