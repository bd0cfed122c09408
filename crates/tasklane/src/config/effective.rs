//! What the values mean to the server: checked together, and put into the types of its parts.

use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{
    Aging, Backoff, ClassifyBy, ClassifyRule, DepthLimits, ErrorKind, Invalid, Jitter, Order,
    Policy, Priority, Problem, QueueName, QueueSettings, Retention, RetryPolicy, TaskType, Weight,
    Weights,
};
use tasklane_server::tls::{ClientFiles, TlsFiles, TlsSettings};
use tasklane_server::trace::{self, TraceSettings};
use tasklane_server::{Network, QueueDefaults, Rate, RateLimits, Settings};
use tasklane_sqlite::{Durability, Options};

use super::client;
use super::field::Limit;
use super::suggest::nearest;
use super::token::TokenFile;
use super::values::{
    DepthValues, OrderValues, QueueValues, RateValues, RetentionValues, RuleValues, TaskValues,
    TlsValues, TokenValues, TraceValues, Values,
};
use crate::{log, store};

/// What a server is started with.
#[derive(Debug, Clone)]
pub(crate) struct Effective {
    pub(crate) listen: String,
    pub(crate) store: String,
    pub(crate) auth: Auth,
    pub(crate) options: Options,
    pub(crate) log_format: log::Format,
    pub(crate) log_level: String,
    pub(crate) tls: Option<TlsSettings>,
    pub(crate) traces: Option<TraceSettings>,
    pub(crate) settings: Settings,
    pub(crate) tokens: TokenFile,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Who shows a good key if there are keys, otherwise everybody.
    Auto,
    /// Who shows a good key.
    Keys,
    /// Everybody.
    Off,
}

impl Auth {
    fn from_word(word: &str) -> Self {
        match word {
            "keys" => Self::Keys,
            "off" => Self::Off,
            _ => Self::Auto,
        }
    }
}

/// Something that is wrong although each value by itself is not, and the path of where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub(crate) path: Vec<String>,
    pub(crate) what: String,
}

/// Checks the values together.
pub(crate) fn resolve(values: &Values) -> Result<Effective, Vec<Contradiction>> {
    let mut resolving = Resolving { found: Vec::new() };
    let effective = resolving.effective(values);
    if resolving.found.is_empty() { Ok(effective) } else { Err(resolving.found) }
}

pub(super) struct Resolving {
    found: Vec<Contradiction>,
}

impl Resolving {
    pub(super) fn wrong(&mut self, path: &[&str], what: impl ToString) {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        self.found.push(Contradiction { path, what: what.to_string() });
    }

    /// A value, or its default if it cannot be: then that is noted.
    fn check<T: Default>(&mut self, path: &[&str], value: Result<T, impl ToString>) -> T {
        value.unwrap_or_else(|what| {
            self.wrong(path, what);
            T::default()
        })
    }

    fn effective(&mut self, values: &Values) -> Effective {
        self.check(&["store"], store::check(&values.store));
        self.check(&["log", "level"], log::check(&values.log_level));
        if !values.listen.contains(':') {
            self.wrong(&["listen"], "give an address and a port, such as 127.0.0.1:7170");
        }
        let lease = values.rules.lease;
        let heartbeat = values.heartbeat.unwrap_or(lease / 3);
        if heartbeat >= lease {
            self.wrong(&["heartbeat_ms"], "must be shorter than lease_ms");
        }
        let durability = match values.durability.as_str() {
            "interval" => Durability::Interval(values.sync_interval),
            "none" => Durability::None,
            _ => Durability::Fsync,
        };
        let rules = Rules { silence: lease, ..values.rules };
        let options = Options { durability, rules, ..Options::default() };
        if let Err(invalid) = options.rules.check() {
            self.wrong(&[], invalid);
        }
        Effective {
            listen: values.listen.clone(),
            store: values.store.clone(),
            auth: Auth::from_word(&values.auth),
            options,
            log_format: log::Format::from_word(&values.log_format),
            log_level: values.log_level.clone(),
            tls: self.tls(&values.tls),
            traces: self.traces(&values.traces),
            settings: self.settings(values, lease, heartbeat),
            tokens: self.tokens(&values.tokens),
        }
    }

    fn tls(&mut self, values: &TlsValues) -> Option<TlsSettings> {
        let TlsValues { certificate, key, look_every, handshake_within, handshakes_max, .. } =
            values.clone();
        if certificate.is_empty() && !values.client_ca.is_empty() {
            self.wrong(&["tls", "client_ca"], "needs tls.certificate and tls.key too");
        }
        match (certificate.is_empty(), key.is_empty()) {
            (false, true) => self.wrong(&["tls", "certificate"], "needs tls.key too"),
            (true, false) => self.wrong(&["tls", "key"], "needs tls.certificate too"),
            _ => {}
        }
        let clients = (!values.client_ca.is_empty()).then(|| ClientFiles {
            authorities: values.client_ca.as_str().into(),
            required: values.client_certificates == "required",
        });
        let files = TlsFiles { certificate: certificate.into(), key: key.into(), clients };
        let settings = TlsSettings { files, look_every, handshake_within, handshakes_max };
        (!values.certificate.is_empty()).then_some(settings)
    }

    fn tokens(&mut self, values: &TokenValues) -> TokenFile {
        if !values.key_file.is_empty() && values.issuer.is_empty() {
            self.wrong(&["jwt", "key_file"], "needs jwt.issuer too");
        }
        TokenFile::new(values)
    }

    fn traces(&mut self, values: &TraceValues) -> Option<TraceSettings> {
        let TraceValues { endpoint, headers_file, ca, service_name, sample_ratio, export_every } =
            values.clone();
        if endpoint.is_empty() {
            return None;
        }
        if !trace::is_endpoint(&endpoint) {
            let what = "give an address such as http://127.0.0.1:4318/v1/traces";
            self.wrong(&["traces", "endpoint"], what);
        }
        let file = |name: String| (!name.is_empty()).then(|| name.into());
        let (headers_file, ca) = (file(headers_file), file(ca));
        Some(TraceSettings { endpoint, headers_file, ca, service_name, sample_ratio, export_every })
    }

    fn settings(&mut self, values: &Values, lease: Duration, heartbeat: Duration) -> Settings {
        let mut settings = values.server.clone();
        (settings.lease, settings.heartbeat_every) = (lease, heartbeat);
        settings.prune.retention = retention(&values.retention);
        settings.slow_call_after = values.slow_call.span();
        if settings.policies.payload_bytes_max > settings.body_bytes_max {
            let what = "must not be more than limits.body_bytes_max";
            self.wrong(&["limits", "payload_bytes_max"], what);
        }
        if settings.body_bytes_max > settings.reading_bytes_max {
            let what = "must not be less than limits.body_bytes_max";
            self.wrong(&["limits", "reading_bytes_max"], what);
        }
        for origin in &settings.allowed_origins {
            if !is_origin(origin) {
                let what = "an origin is a scheme and a host, such as https://board.example.org";
                self.wrong(&["allowed_origins"], what);
            }
        }
        settings.rate_limits = rate_limits(&values.rates);
        let proxies = values.trusted_proxies.iter().map(|text| text.parse());
        let proxies = proxies.collect::<Result<Vec<Network>, _>>();
        settings.trusted_proxies = self.check(&["trusted_proxies"], proxies);
        let plain = QueueSettings::default();
        let order = self.order(&["queue_defaults"], &values.queue_defaults);
        let depth = self.depth(&["queue_defaults", "depth_limits"], &values.depth_defaults);
        settings.queue_defaults = QueueDefaults {
            order: Some(order).filter(|order| *order != plain.order),
            depth: Some(depth).filter(|depth| *depth != plain.depth),
            ..QueueDefaults::default()
        };
        for (name, own) in &values.priorities {
            let priority = Priority::DESCENDING.into_iter().find(|p| p.as_str() == name);
            let policy = self.policy(&["priorities", name], own);
            match priority.and_then(|p| settings.policies.priorities.get_mut(p.index())) {
                Some(slot) => *slot = policy,
                None => {
                    let words = Priority::DESCENDING.map(Priority::as_str);
                    let guess = nearest(name, words.into_iter().map(str::to_owned));
                    let guess =
                        guess.map_or(String::new(), |guess| format!("; did you mean {guess}?"));
                    self.wrong(&["priorities", name], format!("there is no such priority{guess}"));
                }
            }
        }
        for (name, own) in &values.types {
            let policy = self.policy(&["types", name], own);
            match TaskType::new(name.as_str()) {
                Ok(task_type) => drop(settings.policies.types.insert(task_type, policy)),
                Err(invalid) => self.wrong(&["types", name], invalid.problem),
            }
        }
        for (name, own) in &values.queues {
            let policy = self.policy(&["queues", name], &own.task);
            let defaults = self.queue(name, own, values);
            match QueueName::new(name.as_str()) {
                Ok(queue) => {
                    settings.policies.queues.insert(queue.clone(), policy);
                    settings.queues.insert(queue, defaults);
                }
                Err(invalid) => self.wrong(&["queues", name], invalid.problem),
            }
        }
        let rules = values.names("classify").into_iter();
        let rules = rules.filter_map(|number| self.rule(&number, values.classify.get(&number)?));
        settings.classify = rules.collect();
        settings.client_certificates = client::certificates(self, values);
        settings
    }

    fn queue(&mut self, name: &str, own: &QueueValues, values: &Values) -> QueueDefaults {
        let QueueValues { task: _, weight, order, depth, retention: kept } = own;
        let has_order = *order != OrderValues::default();
        let (has_depth, keeps) =
            (*depth != DepthValues::default(), *kept != RetentionValues::default());
        let resolved = order.or(&values.queue_defaults);
        if order.weights.is_some() && resolved.order.as_deref() != Some("weighted") {
            let what = "has no effect unless order = \"weighted\"";
            self.wrong(&["queues", name, "weights"], what);
        }
        let aging = [order.normal, order.high, order.critical];
        if aging.iter().any(Option::is_some) && resolved.order.as_deref() != Some("aging") {
            let what = "has no effect unless order = \"aging\"";
            self.wrong(&["queues", name, "aging"], what);
        }
        QueueDefaults {
            order: has_order.then(|| self.order(&["queues", name], &resolved)),
            weight: weight
                .map(|weight| self.check(&["queues", name, "weight"], Weight::new(weight))),
            depth: has_depth.then(|| {
                let resolved = depth.or(&values.depth_defaults);
                self.depth(&["queues", name, "depth_limits"], &resolved)
            }),
            retention: keeps.then(|| retention(&kept.or(&values.retention))),
        }
    }

    fn order(&mut self, path: &[&str], values: &OrderValues) -> Order {
        if values.order.as_deref() == Some("weighted") {
            let [critical, high, normal, low] = values.weights.unwrap_or_default();
            let path = [path, &["weights"]].concat();
            return Order::Weighted(
                self.check(&path, problem(Weights::new(critical, high, normal, low))),
            );
        }
        let after = |limit: Option<Limit>| limit.and_then(Limit::span);
        let (normal, high, critical) =
            (after(values.normal), after(values.high), after(values.critical));
        let path = [path, &["aging"]].concat();
        Order::Aging(self.check(&path, problem(Aging::new(normal, high, critical))))
    }

    fn depth(&mut self, path: &[&str], values: &DepthValues) -> DepthLimits {
        let DepthValues { normal, high, all } = values;
        let [normal, high, all] = [normal, high, all].map(|depth| depth.unwrap_or_default());
        self.check(path, problem(DepthLimits::new(normal, high, all)))
    }

    fn policy(&mut self, path: &[&str], values: &TaskValues) -> Policy {
        let TaskValues { strategy, initial, factor, max, jitter, .. } = values;
        let plain = RetryPolicy::default();
        let strategy = strategy.as_deref().map(|word| match word {
            "linear" => Backoff::Linear,
            "fixed" => Backoff::Fixed,
            _ => Backoff::Exponential,
        });
        let jitter = jitter.as_deref().map(|word| match word {
            "none" => Jitter::None,
            "full" => Jitter::Full,
            _ => Jitter::Proportional,
        });
        let given = strategy.is_some() || jitter.is_some();
        let given = given || initial.is_some() || factor.is_some() || max.is_some();
        let retry = given.then(|| {
            let initial = initial.unwrap_or(plain.initial());
            let retry = RetryPolicy::new(
                strategy.unwrap_or(plain.strategy()),
                initial,
                factor.unwrap_or(plain.factor()),
                max.unwrap_or(plain.max().max(initial)),
                jitter.unwrap_or(plain.jitter()),
            );
            self.check(&[path, &["retry"]].concat(), retry)
        });
        let word = values.priority.as_deref();
        Policy {
            priority: Priority::DESCENDING.into_iter().find(|p| Some(p.as_str()) == word),
            max_retries: values.max_retries,
            timeout: values.timeout,
            retry,
            dead_letter: values.dead_letter,
        }
    }

    fn rule(&mut self, number: &str, values: &RuleValues) -> Option<ClassifyRule> {
        let kind = values.kind.as_deref().and_then(ErrorKind::from_word);
        let when = match (&values.code, &values.message_contains) {
            (Some(code), None) => Some(ClassifyBy::Code(code.as_str().into())),
            (None, Some(part)) => Some(ClassifyBy::MessageContains(part.as_str().into())),
            _ => None,
        };
        if let (Some(when), Some(kind)) = (when, kind) {
            return Some(ClassifyRule { when, kind });
        }
        let what = "a rule has a kind, and either code or message_contains";
        self.wrong(&["classify", number], what);
        None
    }
}

/// Whether a browser could send it: a path, even an empty one, it leaves out.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").map_or("", |(_, host)| host);
    !host.is_empty() && !host.contains(['/', '*', ' '])
}

/// What is wrong, without the name that the path says already.
fn problem<T>(value: Result<T, Invalid>) -> Result<T, Problem> {
    value.map_err(|invalid| invalid.problem)
}

fn rate_limits(values: &RateValues) -> RateLimits {
    let rate = |per_second: f64, burst: Option<u32>| Rate {
        per_second,
        burst: burst.unwrap_or_else(|| RateValues::burst(per_second)).into(),
    };
    RateLimits {
        key: rate(values.key, values.key_burst),
        address: rate(values.address, values.address_burst),
        failures: rate(values.failures, Some(values.failures_burst)),
    }
}

fn retention(values: &RetentionValues) -> Retention {
    let kept = |limit: Option<Limit>| limit.and_then(Limit::span);
    Retention {
        completed: kept(values.completed),
        cancelled: kept(values.cancelled),
        failed: kept(values.failed),
        dead_letter: kept(values.dead_letter),
    }
}
