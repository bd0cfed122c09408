//! Traces: some calls become spans and are sent to a collector, as OTLP over HTTP in JSON.
//!
//! - [`context`] which trace a call belongs to, by its `traceparent`
//! - [`span`] one call, as it is told
//! - [`otlp`] spans as the collector wants them
//! - [`collector`] where that is, and how it is spoken to
//! - [`export`] gathers spans and sends them, beside the calls
//!
//! A call never waits for any of it: spans go into a bounded queue, and what does not fit is counted
//! and dropped. Calls that are not sampled cost a look at a header.

mod collector;
mod context;
mod export;
mod otlp;
mod span;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::http::HeaderMap;
use tokio::sync::mpsc;

pub use collector::{TraceError, is_endpoint};
pub(crate) use span::{Call, Span};

use crate::limits::TRACE_SPANS_WAITING_MAX;
use collector::Collector;
use context::Context;

/// Which calls are told of, and to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Where the collector takes spans, such as `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// A file with headers for it, one in a line, such as a token.
    pub headers_file: Option<PathBuf>,
    /// The authorities that its certificate is trusted by, where it has one; else the system's.
    pub ca: Option<PathBuf>,
    /// What this server is called there.
    pub service_name: String,
    /// Of calls that come without a trace, this share is told of. Those that come with one are told
    /// of if it says so.
    pub sample_ratio: f64,
    /// How long spans are gathered.
    pub export_every: Duration,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            headers_file: None,
            ca: None,
            service_name: "tasklane".to_owned(),
            sample_ratio: 0.01,
            export_every: Duration::from_secs(5),
        }
    }
}

/// A call that is told of, once it is over.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Where it comes from; `None` if its trace begins here.
    parent: Option<Context>,
    at: SystemTime,
}

/// Decides which calls are told of, and takes their spans.
pub struct Tracer {
    settings: TraceSettings,
    collector: Collector,
    sampler: Sampler,
    spans: mpsc::Sender<Span>,
    /// For the one who sends them.
    waiting: Mutex<Option<mpsc::Receiver<Span>>>,
    dropped: AtomicU64,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Tracer {
    /// Reads what the settings name; the collector need not be there yet.
    pub fn open(settings: TraceSettings) -> Result<Arc<Self>, TraceError> {
        let collector = Collector::new(&settings)?;
        let sampler = Sampler::new(settings.sample_ratio);
        let (spans, waiting) = mpsc::channel(TRACE_SPANS_WAITING_MAX);
        let (waiting, dropped) = (Mutex::new(Some(waiting)), AtomicU64::new(0));
        Ok(Arc::new(Self { settings, collector, sampler, spans, waiting, dropped }))
    }

    /// Whether a call with these headers is told of.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Option<Begun> {
        let parent = Context::read(headers);
        let sampled = parent.as_ref().map_or_else(|| self.sampler.draw(), Context::is_sampled);
        sampled.then(|| Begun { parent, at: SystemTime::now() })
    }

    /// A call is over.
    pub(crate) fn end(&self, begun: Begun, call: Call) {
        let span = Span::of(begun.parent, begun.at, call);
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take_waiting(&self) -> Option<mpsc::Receiver<Span>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Draws a share of calls, without asking the system for randomness each time.
struct Sampler {
    /// A draw below it is taken; beyond every draw if all are.
    bound: u128,
    count: AtomicU64,
}

impl Sampler {
    fn new(ratio: f64) -> Self {
        let whole = u128::from(u64::MAX) + 1;
        let mut seed = [0; 8];
        // Without a random source all servers draw alike.
        let _ = getrandom::fill(&mut seed);
        let bound = (ratio.clamp(0.0, 1.0) * whole as f64) as u128;
        Self { bound, count: AtomicU64::new(u64::from_le_bytes(seed)) }
    }

    fn draw(&self) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        u128::from(scatter(count)) < self.bound
    }
}

/// Neighbours become numbers that have nothing to do with each other: the finish of SplitMix64.
fn scatter(count: u64) -> u64 {
    let mixed = count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let endpoint = "http://127.0.0.1:1".to_owned();
        let settings = TraceSettings { endpoint, sample_ratio: 1.0, ..TraceSettings::default() };
        let tracer = Tracer::open(settings).unwrap();
        for _ in 0..TRACE_SPANS_WAITING_MAX + 7 {
            let begun = tracer.begin(&HeaderMap::new()).unwrap();
            tracer.end(begun, Call::example());
        }
        assert_eq!(tracer.dropped.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_share_of_calls_is_drawn() {
        let drawn = |ratio: f64| {
            let sampler = Sampler::new(ratio);
            (0..10_000).filter(|_| sampler.draw()).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        let tenth = drawn(0.1);
        assert!((700..1_300).contains(&tenth), "{tenth}");
    }
}
