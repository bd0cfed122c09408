//! Settings of the server itself.

use tasklane_core::limits::PAYLOAD_BYTES_MAX;

use super::{FOREVER, NEVER, milliseconds, seconds, whole};
use crate::config::kind::{Kind, Value};
use crate::config::setting::{Setting, without_password};

const PERCENT: Kind = Kind::Decimal { min: 1.0, max: 100.0 };
/// The largest body that can be allowed: it is held in memory.
const BODY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// All of them together: more than a machine has.
const READING_BYTES_MAX: u64 = 1 << 40;

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new("listen", Kind::Text("ADDRESS"), "Where to listen.", |v, _| &mut v.listen)
        .at_start()
        .flag()
        .example("0.0.0.0:7170"),
    Setting::new(
        "store",
        Kind::Text("STORE"),
        "Where tasks are kept: sqlite:FOLDER, postgres://USER:PASSWORD@HOST/DATABASE or redis://USER:PASSWORD@HOST:PORT/ for several servers, or memory: to lose them at the end.",
        |v, _| &mut v.store,
    )
    .at_start()
    .flag()
    .secret(without_password)
    .example("memory:"),
    Setting::new(
        "auth",
        Kind::Choice(&["auto", "keys", "off"]),
        "Who may call: keys asks everybody for an API key, off nobody, which only an address of this machine itself may be. auto asks if there are keys when the server starts.",
        |v, _| &mut v.auth,
    )
    .at_start()
    .flag(),
    Setting::new(
        "guard_metrics",
        Kind::Flag,
        "Ask for a key at /metrics too: one with the scope read that is not bounded.",
        |v, _| &mut v.server.guard_metrics,
    )
    .flag()
    .example("true"),
    Setting::new(
        "allowed_origins",
        Kind::Texts("ORIGIN"),
        "Pages of these origins, apart from the server's own, may call from a browser too; the flag may be given again.",
        |v, _| &mut v.server.allowed_origins,
    )
    .flag_named("allow-origin")
    .example("https://board.example.org"),
    Setting::new(
        "trusted_proxies",
        Kind::Texts("NETWORK"),
        "Proxies, as addresses or networks, whose X-Forwarded-For is believed; from others it is ignored.",
        |v, _| &mut v.trusted_proxies,
    )
    .example("10.0.0.0/8,::1"),
    Setting::new(
        "durability",
        Kind::Choice(&["fsync", "interval", "none"]),
        "When a write is answered: once it is synced to disk, before a sync that follows within sync_interval_ms, or before a sync whenever the system sees fit. On Redis, fsync means its append-only file, synced, and the others its memory alone; on PostgreSQL every write is committed.",
        |v, _| &mut v.durability,
    )
    .at_start()
    .flag(),
    Setting::new(
        "sync_interval_ms",
        Kind::Milliseconds { min: 1, max: 60_000 },
        "With durability = \"interval\": what a power cut may lose at most.",
        |v, _| &mut v.sync_interval,
    )
    .at_start(),
    Setting::new(
        "lease_ms",
        milliseconds(10),
        "How long a worker holds a task without a sign of life; silence for as long makes it dead.",
        |v, _| &mut v.rules.lease,
    )
    .at_start()
    .flag(),
    Setting::new(
        "heartbeat_ms",
        milliseconds(1),
        "How often workers should send a heartbeat: a third of lease_ms unless set.",
        |v, _| &mut v.heartbeat,
    )
    .at_start()
    .derived(|values| Value::Span(values.rules.lease / 3)),
    Setting::new(
        "assignment_ms",
        milliseconds(1),
        "How long a claimed task may wait for its start before it is given back.",
        |v, _| &mut v.rules.assignment,
    )
    .at_start(),
    Setting::new(
        "lease_losses_max",
        whole(1, 1_000),
        "Leases lost in a row after which a task is a dead letter: it may be what kills its workers.",
        |v, _| &mut v.rules.lease_losses_max,
    )
    .at_start(),
    Setting::new(
        "withhold_ms",
        milliseconds(0),
        "How long a worker does not get back a task that it released without a delay.",
        |v, _| &mut v.rules.withhold,
    )
    .at_start(),
    Setting::new(
        "timeout_growth",
        Kind::Decimal { min: 1.0, max: 100.0 },
        "What a task's timeout is multiplied by after an attempt ran out of time or resources.",
        |v, _| &mut v.rules.timeout_growth,
    )
    .at_start(),
    Setting::new(
        "timeout_growth_max_seconds",
        seconds(0.001),
        "What that growth does not pass.",
        |v, _| &mut v.rules.timeout_growth_max,
    )
    .at_start(),
    Setting::new(
        "log.format",
        Kind::Choice(&["human", "json"]),
        "How log lines look.",
        |v, _| &mut v.log_format,
    )
    .at_start()
    .flag(),
    Setting::new(
        "log.level",
        Kind::Text("LEVEL"),
        "Which log lines to write: error, warn, info, debug or trace; or rules such as \"warn,tasklane_server=debug\".",
        |v, _| &mut v.log_level,
    )
    .flag()
    .example("debug"),
    Setting::new(
        "log.slow_call_seconds",
        NEVER,
        "Calls that take as long are a line in the log. What a long poll asked to wait does not count.",
        |v, _| &mut v.slow_call,
    ),
    Setting::new(
        "limits.connections_max",
        whole(1, 1_000_000),
        "Connections at once; one more is closed.",
        |v, _| &mut v.server.connections_max,
    )
    .at_start(),
    Setting::new(
        "limits.body_bytes_max",
        whole(1_024, BODY_BYTES_MAX),
        "Bytes of a request's body.",
        |v, _| &mut v.server.body_bytes_max,
    ),
    Setting::new(
        "limits.reading_bytes_max",
        whole(1_024, READING_BYTES_MAX),
        "Bytes of bodies that may be on their way in at once, from all clients together; one more is refused with 503.",
        |v, _| &mut v.server.reading_bytes_max,
    ),
    Setting::new(
        "limits.payload_bytes_max",
        whole(1, PAYLOAD_BYTES_MAX as u64),
        "Bytes of a task's payload, and of its result.",
        |v, _| &mut v.server.policies.payload_bytes_max,
    ),
    Setting::new(
        "limits.headers_ms",
        milliseconds(1),
        "How long a client may take to send its headers, and how long a connection may be idle. Longer than heartbeat_ms, so that workers keep theirs.",
        |v, _| &mut v.server.headers_within,
    )
    .at_start(),
    Setting::new(
        "limits.body_ms",
        milliseconds(1),
        "How long a client may take to send a body.",
        |v, _| &mut v.server.body_within,
    ),
    Setting::new(
        "limits.stall_ms",
        milliseconds(1),
        "How long a client may take nothing of an answer before its connection is closed.",
        |v, _| &mut v.server.stall_after,
    )
    .at_start(),
    Setting::new(
        "limits.shutdown_ms",
        milliseconds(0),
        "How long calls in flight get to finish when the server is asked to end.",
        |v, _| &mut v.server.shutdown_within,
    ),
    Setting::new(
        "limits.slow_reader_ms",
        milliseconds(1),
        "How long a live reader may take for one message before it is dropped.",
        |v, _| &mut v.server.slow_reader_after,
    ),
    Setting::new(
        "limits.slow_reader_events",
        whole(1, 1_000_000_000),
        "How many events a live reader may fall behind before it is dropped.",
        |v, _| &mut v.server.slow_reader_behind,
    ),
    Setting::new(
        "limits.batches_in_flight",
        whole(1, 64),
        "Batches of one verb that may be in the store at once.",
        |v, _| &mut v.server.batches_in_flight,
    )
    .at_start(),
    Setting::new(
        "health.memory_percent",
        PERCENT,
        "A worker that reports more of its machine's memory in use counts as unhealthy.",
        |v, _| &mut v.server.health.memory_percent,
    ),
    Setting::new(
        "health.cpu_percent",
        PERCENT,
        "A worker that reports more of its machine's processors in use counts as unhealthy.",
        |v, _| &mut v.server.health.cpu_percent,
    ),
    Setting::new(
        "health.reports",
        whole(1, 1_000),
        "So many such reports in a row make a worker unhealthy; it then gets no tasks.",
        |v, _| &mut v.server.health.reports,
    ),
    Setting::new(
        "breaker.failures",
        whole(1, 1_000_000),
        "Failures in a row after which a worker gets no tasks for a while.",
        |v, _| &mut v.server.breaker.failures,
    ),
    Setting::new("breaker.open_seconds", seconds(0.001), "How long that is.", |v, _| {
        &mut v.server.breaker.open_for
    }),
    Setting::new(
        "breaker.trials",
        whole(1, 1_000),
        "Tasks that such a worker may try afterwards.",
        |v, _| &mut v.server.breaker.trials,
    ),
    Setting::new(
        "retention.completed_seconds",
        FOREVER,
        "How long completed tasks are kept.",
        |v, _| &mut v.retention.completed,
    ),
    Setting::new(
        "retention.cancelled_seconds",
        FOREVER,
        "How long cancelled tasks are kept.",
        |v, _| &mut v.retention.cancelled,
    ),
    Setting::new(
        "retention.failed_seconds",
        FOREVER,
        "How long failed tasks are kept.",
        |v, _| &mut v.retention.failed,
    ),
    Setting::new(
        "retention.dead_letter_seconds",
        FOREVER,
        "How long dead letters are kept.",
        |v, _| &mut v.retention.dead_letter,
    ),
    Setting::new(
        "retention.events_seconds",
        seconds(0.0),
        "How long events are kept for those who resume by cursor.",
        |v, _| &mut v.server.prune.events_for,
    ),
    Setting::new(
        "retention.events_max",
        whole(1, 1_000_000_000_000),
        "How many events are kept at most.",
        |v, _| &mut v.server.prune.events_max,
    ),
    Setting::new(
        "retention.idempotency_seconds",
        seconds(0.0),
        "How long idempotency keys are remembered after submission; longer while their task lives.",
        |v, _| &mut v.server.prune.idempotency_for,
    ),
    Setting::new(
        "retention.workers_seconds",
        seconds(0.0),
        "How long dead workers are shown.",
        |v, _| &mut v.server.prune.workers_for,
    ),
    Setting::new(
        "maintenance.prune_every_ms",
        milliseconds(1),
        "How often to look for what has been kept long enough.",
        |v, _| &mut v.server.prune_every,
    ),
    Setting::new(
        "maintenance.look_every_ms",
        Kind::Milliseconds { min: 1, max: 1_000 },
        "How long at most until the next look for what is due, lost or out of time.",
        |v, _| &mut v.server.maintain_every,
    ),
    Setting::new(
        "maintenance.metrics_every_ms",
        milliseconds(1),
        "How often live readers are told of depths and figures.",
        |v, _| &mut v.server.metrics_every,
    ),
    Setting::new(
        "retries.transient",
        whole(0, 100),
        "Retries that a transient failure allows at most, whatever a task asks for.",
        |v, _| &mut v.rules.kinds.transient,
    )
    .at_start(),
    Setting::new(
        "retries.rate_limited",
        whole(0, 100),
        "The same for a failure because the other side asked for less; its delays are doubled.",
        |v, _| &mut v.rules.kinds.rate_limited,
    )
    .at_start(),
    Setting::new(
        "retries.timeout",
        whole(0, 100),
        "The same for an attempt that took too long.",
        |v, _| &mut v.rules.kinds.timeout,
    )
    .at_start(),
    Setting::new(
        "retries.resource",
        whole(0, 100),
        "The same for want of memory, disk or the like.",
        |v, _| &mut v.rules.kinds.resource,
    )
    .at_start(),
    Setting::new(
        "retries.unknown",
        whole(0, 100),
        "The same for a failure that nobody classified.",
        |v, _| &mut v.rules.kinds.unknown,
    )
    .at_start(),
];
