//! What can be set, with its defaults.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{
    ClassifyRule, DepthLimits, Order, Policies, QueueName, QueueSettings, Retention, Weight,
};
use tasklane_store::Prune;
use tokio::sync::watch;

use crate::address::Network;
use crate::engine::NamedCertificate;
use crate::token::TokenSettings;

/// How a server behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Values for members that tasks leave out.
    pub policies: Policies,
    /// What queues have, where no operator has set it.
    pub queue_defaults: QueueDefaults,
    /// The same for single queues.
    pub queues: HashMap<QueueName, QueueDefaults>,
    /// What kind a failure is whose worker did not say.
    pub classify: Vec<ClassifyRule>,
    /// How long a lease lasts: what the store was opened with.
    pub lease: Duration,
    /// How often workers should send a heartbeat.
    pub heartbeat_every: Duration,
    /// When a worker counts as unhealthy.
    pub health: HealthSettings,
    /// When a worker that fails gets no more.
    pub breaker: BreakerSettings,
    /// Whether callers must say who they are.
    pub authentication: Authentication,
    /// Which tokens are believed, apart from keys; none unless set.
    pub tokens: Option<TokenSettings>,
    /// What certificates of clients allow, by a name in them; apart from keys.
    pub client_certificates: HashMap<Box<str>, Arc<NamedCertificate>>,
    /// Metrics are for callers too whose key may read everything: they name queues and types.
    pub guard_metrics: bool,
    /// Origins of pages, apart from this server's own, that may call: `https://queue.example.org`.
    pub allowed_origins: Vec<Box<str>>,
    /// Proxies that are believed about whose calls they bring.
    pub trusted_proxies: Vec<Network>,
    /// How much may be asked of this server.
    pub rate_limits: RateLimits,
    /// How long things are kept.
    pub prune: Prune,
    /// How often to look for what has been kept long enough.
    pub prune_every: Duration,
    /// How long at most until the next look at the clock.
    pub maintain_every: Duration,
    /// How often `queue.depth` and `system.metrics` are told.
    pub metrics_every: Duration,
    /// Batches of one verb that may be in the store at once.
    pub batches_in_flight: usize,
    /// How long a client may take to send its headers, and how long a connection may be idle:
    /// longer than the pause between two heartbeats.
    pub headers_within: Duration,
    /// How long a client may take to send a body.
    pub body_within: Duration,
    /// How long a client may take nothing of an answer that is there for it.
    pub stall_after: Duration,
    /// Bytes of bodies that may be on their way in at once, from all clients together.
    pub reading_bytes_max: usize,
    /// Calls that take as long are told to the log, what they asked to wait not counted; `None` for
    /// none.
    pub slow_call_after: Option<Duration>,
    /// How long a live reader may take for one message before it is dropped.
    pub slow_reader_after: Duration,
    /// How many events a live reader may fall behind before it is dropped.
    pub slow_reader_behind: u64,
    /// How long calls in flight get to finish at the end.
    pub shutdown_within: Duration,
    /// Bytes of a body.
    pub body_bytes_max: usize,
    /// Connections at once.
    pub connections_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policies: Policies::default(),
            queue_defaults: QueueDefaults::default(),
            queues: HashMap::new(),
            classify: Vec::new(),
            lease: Duration::from_secs(30),
            heartbeat_every: Duration::from_secs(10),
            health: HealthSettings::default(),
            breaker: BreakerSettings::default(),
            authentication: Authentication::default(),
            tokens: None,
            client_certificates: HashMap::new(),
            guard_metrics: false,
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            rate_limits: RateLimits::default(),
            prune: Prune::default(),
            prune_every: Duration::from_secs(1),
            maintain_every: Duration::from_millis(250),
            metrics_every: Duration::from_secs(5),
            batches_in_flight: 4,
            headers_within: Duration::from_secs(35),
            body_within: Duration::from_secs(30),
            stall_after: Duration::from_secs(30),
            reading_bytes_max: 512 * 1024 * 1024,
            slow_call_after: Some(Duration::from_secs(1)),
            slow_reader_after: Duration::from_secs(10),
            slow_reader_behind: 500_000,
            shutdown_within: Duration::from_secs(30),
            body_bytes_max: 16 * 1024 * 1024,
            connections_max: 20_000,
        }
    }
}

/// Settings that may change while the server runs: whoever needs one reads it anew each time.
///
/// Some are read only once, at the start: `lease`, `batches_in_flight`, `headers_within`,
/// `stall_after` and `connections_max`.
#[derive(Debug, Clone)]
pub(crate) struct LiveSettings(Arc<watch::Sender<Arc<Settings>>>);

impl LiveSettings {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(settings))))
    }

    /// As they are now.
    pub(crate) fn now(&self) -> Arc<Settings> {
        Arc::clone(&self.0.borrow())
    }

    /// As they are from now on.
    pub(crate) fn replace(&self, settings: Settings) {
        self.0.send_replace(Arc::new(settings));
    }

    /// Sleeps for as long as they say; begins anew when they change.
    pub(crate) async fn sleep(&self, time: impl Fn(&Settings) -> Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let time = time(&changes.borrow_and_update());
            tokio::select! {
                () = tokio::time::sleep(time) => return,
                // The sender lives as long as this.
                _ = changes.changed() => {}
            }
        }
    }
}

/// What is configured for a queue; what is absent is as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDefaults {
    /// How it chooses among priorities.
    pub order: Option<Order>,
    /// Its share among queues.
    pub weight: Option<Weight>,
    /// From which depth submissions are refused.
    pub depth: Option<DepthLimits>,
    /// How long ended tasks are kept.
    pub retention: Option<Retention>,
}

impl Settings {
    /// What is configured for a queue: by its name, else for all.
    pub fn configured(&self, queue: &QueueName) -> QueueDefaults {
        let (all, own) = (self.queue_defaults, self.queues.get(queue).copied().unwrap_or_default());
        QueueDefaults {
            order: own.order.or(all.order),
            weight: own.weight.or(all.weight),
            depth: own.depth.or(all.depth),
            retention: own.retention.or(all.retention),
        }
    }

    /// A queue as it should be: what an operator has set stays, the rest is as configured.
    pub fn resolve_queue(&self, queue: &QueueName, stored: QueueSettings) -> QueueSettings {
        let (own, plain, pinned) =
            (self.configured(queue), QueueSettings::default(), stored.pinned);
        QueueSettings {
            order: if pinned.order { stored.order } else { own.order.unwrap_or(plain.order) },
            weight: if pinned.weight { stored.weight } else { own.weight.unwrap_or(plain.weight) },
            depth: if pinned.depth { stored.depth } else { own.depth.unwrap_or(plain.depth) },
            retention: if pinned.retention { stored.retention } else { own.retention },
            ..stored
        }
    }
}

/// How callers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Authentication {
    /// They are not: whoever reaches the server may do everything.
    #[default]
    Off,
    /// By the keys in the store, or by tokens that are believed.
    Keys,
}

/// How often somebody may call. Calls that keep or settle leases are not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimits {
    /// One key.
    pub key: Rate,
    /// One address, of IPv6 a network of 64 bits.
    pub address: Rate,
    /// One address without a good key.
    pub failures: Rate,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { key: Rate::OFF, address: Rate::OFF, failures: Rate { per_second: 10.0, burst: 1e3 } }
    }
}

/// So many in a second, once so many that were saved up are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// In the long run; nought for no limit.
    pub per_second: f64,
    /// At once.
    pub burst: f64,
}

impl Rate {
    /// No limit.
    pub const OFF: Self = Self { per_second: 0.0, burst: 0.0 };

    pub(crate) fn is_off(self) -> bool {
        self.per_second <= 0.0
    }
}

/// When a worker counts as unhealthy: after so many reports in a row over one of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HealthSettings {
    /// Percent of its machine's memory.
    pub memory_percent: f32,
    /// Percent of its machine's processors.
    pub cpu_percent: f32,
    /// Reports in a row.
    pub reports: u32,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { memory_percent: 90.0, cpu_percent: 95.0, reports: 2 }
    }
}

/// When a worker whose tasks fail gets no more for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open.
    pub open_for: Duration,
    /// Tasks it may try then.
    pub trials: u32,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(60), trials: 3 }
    }
}
