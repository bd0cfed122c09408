//! Everything that can be set, as it stands in a file. The defaults are those of the parts that the
//! values are for.

use std::collections::BTreeMap;
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Aging, DepthLimits, Order, Priority, Weights};
use tasklane_server::tls::{TlsFiles, TlsSettings};
use tasklane_server::trace::TraceSettings;
use tasklane_server::{RateLimits, Settings};

use super::field::Limit;

/// Everything that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) listen: String,
    pub(crate) store: String,
    pub(crate) auth: String,
    pub(crate) trusted_proxies: Vec<Box<str>>,
    pub(crate) rates: RateValues,
    pub(crate) tokens: TokenValues,
    pub(crate) durability: String,
    pub(crate) sync_interval: Duration,
    pub(crate) log_format: String,
    pub(crate) log_level: String,
    pub(crate) slow_call: Limit,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) tls: TlsValues,
    pub(crate) traces: TraceValues,
    pub(crate) rules: Rules,
    pub(crate) server: Settings,
    pub(crate) retention: RetentionValues,
    pub(crate) queue_defaults: OrderValues,
    pub(crate) depth_defaults: DepthValues,
    pub(crate) priorities: BTreeMap<String, TaskValues>,
    pub(crate) queues: BTreeMap<String, QueueValues>,
    pub(crate) types: BTreeMap<String, TaskValues>,
    pub(crate) classify: BTreeMap<String, RuleValues>,
    pub(crate) client_certificates: BTreeMap<String, ClientValues>,
}

/// How TLS is spoken; without files it is not.
#[derive(Debug, Clone)]
pub(crate) struct TlsValues {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) client_ca: String,
    pub(crate) client_certificates: String,
    pub(crate) look_every: Duration,
    pub(crate) handshake_within: Duration,
    pub(crate) handshakes_max: usize,
}

impl Default for TlsValues {
    fn default() -> Self {
        let TlsSettings { look_every, handshake_within, handshakes_max, .. } =
            TlsSettings::new(TlsFiles::default());
        let (certificate, key, client_ca) = Default::default();
        let client_certificates = "optional".to_owned();
        Self {
            certificate,
            key,
            client_ca,
            client_certificates,
            look_every,
            handshake_within,
            handshakes_max,
        }
    }
}

/// Which calls are told to a collector; without an endpoint, none.
#[derive(Debug, Clone)]
pub(crate) struct TraceValues {
    pub(crate) endpoint: String,
    pub(crate) headers_file: String,
    pub(crate) ca: String,
    pub(crate) service_name: String,
    pub(crate) sample_ratio: f64,
    pub(crate) export_every: Duration,
}

impl Default for TraceValues {
    fn default() -> Self {
        let TraceSettings { endpoint, service_name, sample_ratio, export_every, .. } =
            TraceSettings::default();
        let (headers_file, ca) = Default::default();
        Self { endpoint, headers_file, ca, service_name, sample_ratio, export_every }
    }
}

/// What tasks of a type, a queue or a priority get where they say nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TaskValues {
    pub(crate) priority: Option<String>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) dead_letter: Option<bool>,
    pub(crate) strategy: Option<String>,
    pub(crate) initial: Option<Duration>,
    pub(crate) factor: Option<f64>,
    pub(crate) max: Option<Duration>,
    pub(crate) jitter: Option<String>,
}

/// What a queue has.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueValues {
    pub(crate) task: TaskValues,
    pub(crate) weight: Option<u32>,
    pub(crate) order: OrderValues,
    pub(crate) depth: DepthValues,
    pub(crate) retention: RetentionValues,
}

/// How a queue chooses among priorities.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OrderValues {
    pub(crate) order: Option<String>,
    pub(crate) normal: Option<Limit>,
    pub(crate) high: Option<Limit>,
    pub(crate) critical: Option<Limit>,
    pub(crate) weights: Option<[u32; 4]>,
}

/// Depths from which submissions are refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DepthValues {
    pub(crate) normal: Option<u64>,
    pub(crate) high: Option<u64>,
    pub(crate) all: Option<u64>,
}

/// How often somebody may call.
#[derive(Debug, Clone)]
pub(crate) struct RateValues {
    pub(crate) key: f64,
    pub(crate) key_burst: Option<u32>,
    pub(crate) address: f64,
    pub(crate) address_burst: Option<u32>,
    pub(crate) failures: f64,
    pub(crate) failures_burst: u32,
}

/// How long ended tasks are kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RetentionValues {
    pub(crate) completed: Option<Limit>,
    pub(crate) cancelled: Option<Limit>,
    pub(crate) failed: Option<Limit>,
    pub(crate) dead_letter: Option<Limit>,
}

/// What kind a failure is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RuleValues {
    pub(crate) code: Option<String>,
    pub(crate) message_contains: Option<String>,
    pub(crate) kind: Option<String>,
}

/// What certificates with a name allow.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ClientValues {
    pub(crate) name: Option<String>,
    pub(crate) scopes: Option<Vec<Box<str>>>,
    pub(crate) queues: Option<Vec<Box<str>>>,
    pub(crate) types: Option<Vec<Box<str>>>,
}

impl Default for Values {
    fn default() -> Self {
        let server = Settings::default();
        let kept = server.prune.retention;
        let priorities = Priority::DESCENDING.map(|priority| {
            let policy = server.policies.priorities.get(priority.index());
            let policy = policy.copied().unwrap_or_default();
            let (max_retries, timeout) = (policy.max_retries, policy.timeout);
            let values = TaskValues { max_retries, timeout, ..TaskValues::default() };
            (priority.as_str().to_owned(), values)
        });
        Self {
            listen: "127.0.0.1:7170".to_owned(),
            store: "sqlite:./tasklane-data".to_owned(),
            auth: "auto".to_owned(),
            trusted_proxies: Vec::new(),
            rates: RateValues::default(),
            tokens: TokenValues::default(),
            durability: "fsync".to_owned(),
            sync_interval: Duration::from_millis(100),
            log_format: "human".to_owned(),
            log_level: "info".to_owned(),
            slow_call: server.slow_call_after.into(),
            heartbeat: None,
            tls: TlsValues::default(),
            traces: TraceValues::default(),
            rules: Rules::default(),
            retention: RetentionValues {
                completed: Some(kept.completed.into()),
                cancelled: Some(kept.cancelled.into()),
                failed: Some(kept.failed.into()),
                dead_letter: Some(kept.dead_letter.into()),
            },
            queue_defaults: OrderValues::plain(),
            depth_defaults: DepthValues::plain(),
            priorities: priorities.into(),
            queues: BTreeMap::new(),
            types: BTreeMap::new(),
            classify: BTreeMap::new(),
            client_certificates: BTreeMap::new(),
            server,
        }
    }
}

/// Which tokens are believed; without a file none are.
#[derive(Debug, Clone)]
pub(crate) struct TokenValues {
    pub(crate) key_file: String,
    pub(crate) algorithm: String,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) leeway: Duration,
    pub(crate) scopes_claim: String,
}

impl Default for TokenValues {
    fn default() -> Self {
        let (key_file, issuer) = Default::default();
        Self {
            key_file,
            algorithm: "RS256".to_owned(),
            issuer,
            audience: "tasklane".to_owned(),
            leeway: Duration::from_secs(30),
            scopes_claim: "scopes".to_owned(),
        }
    }
}

impl Default for RateValues {
    fn default() -> Self {
        let RateLimits { key, address, failures } = RateLimits::default();
        Self {
            key: key.per_second,
            key_burst: None,
            address: address.per_second,
            address_burst: None,
            failures: failures.per_second,
            failures_burst: failures.burst as u32,
        }
    }
}

impl RateValues {
    /// What is saved up where nothing is said of it: a second's worth.
    pub(crate) fn burst(per_second: f64) -> u32 {
        (per_second.ceil() as u32).max(1)
    }
}

impl OrderValues {
    fn plain() -> Self {
        let aging = match Order::default() {
            Order::Aging(aging) => aging,
            Order::Weighted(_) => Aging::default(),
        };
        let after = |level| Some(Limit::from(aging.threshold(level)));
        Self {
            order: Some("aging".to_owned()),
            normal: after(Priority::Normal),
            high: after(Priority::High),
            critical: after(Priority::Critical),
            weights: Some(Priority::DESCENDING.map(|priority| Weights::default().of(priority))),
        }
    }

    /// What is set here, and `all` where nothing is.
    pub(crate) fn or(&self, all: &Self) -> Self {
        Self {
            order: self.order.clone().or_else(|| all.order.clone()),
            normal: self.normal.or(all.normal),
            high: self.high.or(all.high),
            critical: self.critical.or(all.critical),
            weights: self.weights.or(all.weights),
        }
    }
}

impl DepthValues {
    fn plain() -> Self {
        let DepthLimits { normal, high, all } = DepthLimits::default();
        Self { normal: Some(normal), high: Some(high), all: Some(all) }
    }

    /// What is set here, and `all` where nothing is.
    pub(crate) fn or(&self, all: &Self) -> Self {
        Self {
            normal: self.normal.or(all.normal),
            high: self.high.or(all.high),
            all: self.all.or(all.all),
        }
    }
}

impl RetentionValues {
    /// What is set here, and `all` where nothing is.
    pub(crate) fn or(&self, all: &Self) -> Self {
        Self {
            completed: self.completed.or(all.completed),
            cancelled: self.cancelled.or(all.cancelled),
            failed: self.failed.or(all.failed),
            dead_letter: self.dead_letter.or(all.dead_letter),
        }
    }
}

impl Values {
    /// Takes over the sections with names, whole: what is gone from a file is gone.
    pub(crate) fn take_named(&mut self, from: Self) {
        (self.priorities, self.queues) = (from.priorities, from.queues);
        (self.types, self.classify) = (from.types, from.classify);
        self.client_certificates = from.client_certificates;
    }

    /// The names that stand for `*` in a section.
    pub(crate) fn names(&self, group: &str) -> Vec<String> {
        match group {
            "priorities" => {
                // The most urgent first; what is none of them after.
                let rank = |name: &String| {
                    let words = Priority::DESCENDING.map(Priority::as_str);
                    words.iter().position(|word| word == name).unwrap_or(words.len())
                };
                let mut names: Vec<_> = self.priorities.keys().cloned().collect();
                names.sort_by_key(rank);
                names
            }
            "queues" => self.queues.keys().cloned().collect(),
            "types" => self.types.keys().cloned().collect(),
            "classify" => numbered(&self.classify),
            "client_certificates" => numbered(&self.client_certificates),
            _ => vec![String::new()],
        }
    }
}

/// The numbers of a list of sections, in its order.
fn numbered<T>(list: &BTreeMap<String, T>) -> Vec<String> {
    let mut names: Vec<_> = list.keys().cloned().collect();
    names.sort_by_key(|number| number.parse::<usize>().unwrap_or(usize::MAX));
    names
}
