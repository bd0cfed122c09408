//! The verbs of the server, one file each, apart from HTTP.
//!
//! Concurrent submits, claims, settles and heartbeats become batches in front of a store that does
//! not gather them by itself ([`batcher`]); each verb has its own, so settles never wait behind
//! submits. A poll that finds nothing is parked ([`parking`]) until the store hints at something
//! claimable, or until a submission comes that it can be served with in the same write.

mod access;
mod admission;
mod alarm;
mod attempt;
mod audit;
mod batcher;
mod breaker;
mod bulletin;
mod cancel;
mod candidate;
mod certificate;
mod claim;
mod dead_letter;
mod error;
mod explain;
mod feed;
mod fingerprint;
mod follow;
mod look;
mod machine;
mod operate;
mod orphan;
mod parking;
mod queue;
mod rate;
mod readiness;
mod reading;
mod refusal;
mod reload;
mod renew;
mod request;
mod roster;
mod settle;
mod snapshot;
mod statistics;
mod submit;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod wait;
mod worker;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

use tasklane_core::{QueueName, Timestamp};
use tasklane_store::{Durability, Pruned, Status, Store};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use access::{Access, Caller, Denied, Opened};
pub use alarm::Alarm;
pub use attempt::{Attempt, attempts};
pub use breaker::Breaker;
pub use bulletin::{Bulletin, Told};
pub use certificate::{Certified, NamedCertificate};
pub use claim::{Directive, Poll, Polled};
pub use dead_letter::{Group, Summary};
pub use error::EngineError;
pub use explain::{Explanation, Obstacle};
pub use feed::{Feed, Noted, Place, Slice, Through};
pub use fingerprint::fingerprint;
pub use machine::MachineFigures;
pub use operate::{Sweep, Swept};
pub use readiness::NotReady;
pub(crate) use refusal::Refusal;
pub use reload::{ReloadRequest, Reloaded};
pub use snapshot::Estimate;
pub use statistics::{MinuteFigures, StatisticsNow};
pub(crate) use statistics::{is_failed_attempt, is_lease_loss, is_timeout};
pub use submit::{Arrival, Drafts};
pub use token::Vouched;

pub(crate) use reading::{Reading, Share};

use crate::metrics::Metrics;
use crate::settings::{Authentication, LiveSettings, Settings};
use crate::tls::Tls;
use crate::trace::Tracer;
use admission::Admission;
use batcher::Batcher;
use cancel::Cancels;
use parking::Parking;
use roster::Roster;
use snapshot::Snapshot;
use statistics::Statistics;
use wait::Waiters;

/// Everything a server does, on one store.
pub struct Engine {
    store: Arc<dyn Store>,
    settings: LiveSettings,
    submits: Arc<Batcher<submit::Submit>>,
    claims: Arc<Batcher<claim::Claim>>,
    settles: Arc<Batcher<settle::Settle>>,
    renewals: Arc<Batcher<renew::Renew>>,
    parking: Arc<Parking>,
    roster: Roster,
    cancels: Cancels,
    keyring: access::Keyring,
    rates: rate::Rates,
    tokens: token::Tokens,
    refusals: Mutex<refusal::Refusals>,
    snapshot: Snapshot,
    alarm: Alarm,
    durability: Durability,
    /// Settled at the start: no change of settings opens a server.
    authentication: Authentication,
    draining: CancellationToken,
    probe: readiness::Probe,
    /// One change of a queue's settings at a time.
    adjusting: tokio::sync::Semaphore,
    /// Queues that have what is configured for them; `None` until all were looked at.
    configured: Mutex<Option<HashSet<QueueName>>>,
    started: std::time::Instant,
    feed: Feed,
    waiters: Waiters,
    statistics: Statistics,
    metrics: Metrics,
    bulletin: watch::Sender<Arc<Bulletin>>,
    streams: TaskTracker,
    errands: TaskTracker,
    reading: Reading,
    admission: Admission,
    /// Where the server's own certificate is known, if it has one.
    tls: OnceLock<Arc<Tls>>,
    /// Who tells a collector of calls, if anybody does.
    tracer: OnceLock<Arc<Tracer>>,
    /// Who can tell what the machine has left.
    machine: OnceLock<machine::MachineProbe>,
    /// To whoever reads the configuration.
    reload: OnceLock<mpsc::Sender<ReloadRequest>>,
}

impl Engine {
    /// An engine on `store`. Its loops are run by [`Server`](crate::Server).
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Arc<Self> {
        let errands = TaskTracker::new();
        let parking = Arc::new(Parking::new(Arc::clone(&store), errands.clone()));
        let in_flight = |max: usize| (!store.gathers()).then_some(max);
        let several = in_flight(settings.batches_in_flight);
        let own = || Arc::clone(&store);
        let settings = LiveSettings::new(settings);
        Arc::new(Self {
            submits: Batcher::new(
                submit::Submit { store: own(), parking: Arc::clone(&parking) },
                &errands,
                several,
            ),
            claims: Batcher::new(
                claim::Claim { store: own(), errands: errands.clone() },
                &errands,
                several,
            ),
            settles: Batcher::new(
                settle::Settle { store: own(), errands: errands.clone() },
                &errands,
                several,
            ),
            renewals: Batcher::new(renew::Renew { store: own() }, &errands, in_flight(1)),
            parking,
            roster: Roster::new(settings.clone()),
            cancels: Cancels::default(),
            keyring: access::Keyring::default(),
            rates: rate::Rates::new(&settings.now()),
            tokens: token::Tokens::new(&settings.now()),
            refusals: Mutex::default(),
            snapshot: Snapshot::default(),
            alarm: Alarm::default(),
            durability: store.status().durability,
            authentication: settings.now().authentication,
            draining: CancellationToken::new(),
            probe: readiness::Probe::default(),
            adjusting: tokio::sync::Semaphore::new(1),
            configured: Mutex::default(),
            started: std::time::Instant::now(),
            feed: Feed::new(own()),
            waiters: Waiters::default(),
            statistics: Statistics::default(),
            metrics: Metrics::new(),
            bulletin: watch::Sender::default(),
            streams: TaskTracker::new(),
            errands,
            reading: Reading::default(),
            admission: Admission::default(),
            tls: OnceLock::new(),
            tracer: OnceLock::new(),
            machine: OnceLock::new(),
            reload: OnceLock::new(),
            settings,
            store,
        })
    }

    /// Serves parked polls until `stop`.
    pub async fn serve_parked(&self, stop: CancellationToken) {
        self.parking.run(stop).await;
    }

    /// Whether callers are asked who they are.
    pub(crate) fn authentication(&self) -> Authentication {
        self.authentication
    }

    /// What can be set, as it is now.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.now()
    }

    /// The same, for those who wait for changes.
    pub(crate) fn live_settings(&self) -> &LiveSettings {
        &self.settings
    }

    /// How the store is doing.
    pub fn status(&self) -> Status {
        self.store.status()
    }

    /// Tells those who look when the certificate of `tls` ends.
    pub(crate) fn show_certificate_of(&self, tls: &Arc<Tls>) {
        // A server has one door.
        let _ = self.tls.set(Arc::clone(tls));
    }

    /// When the server's certificate ends, if it has one.
    pub fn certificate_ends_at(&self) -> Option<std::time::SystemTime> {
        self.tls.get().and_then(|tls| tls.ends_at())
    }

    /// Has calls told of from now on.
    pub(crate) fn trace_with(&self, tracer: Arc<Tracer>) {
        // One is enough.
        let _ = self.tracer.set(tracer);
    }

    /// Who tells of calls, if anybody does.
    pub(crate) fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.tracer.get()
    }

    /// How long this server has been there.
    pub fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }

    /// What the success answer of a write means.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Notes what retention removed.
    pub(crate) fn note_pruned(&self, pruned: &Pruned) {
        let tasks = pruned.tasks_total();
        self.metrics.pruned(tasks);
        if tasks > 0 || pruned.events > 0 {
            tracing::debug!(tasks, events = pruned.events, "removed what was kept long enough");
        }
    }

    /// The store's own time: nobody decides by another clock (S7).
    pub fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Ends waiting: polls and looks that wait are answered with what there is.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Whether waiting has ended.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Waits until waiting has to end.
    pub async fn drained(&self) {
        self.draining.cancelled().await;
    }

    /// The feed as this server follows it.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// What live readers are told besides events.
    pub(crate) fn bulletin(&self) -> &watch::Sender<Arc<Bulletin>> {
        &self.bulletin
    }

    /// Live readers, tracked until they have ended.
    pub(crate) fn streams(&self) -> &TaskTracker {
        &self.streams
    }

    /// What is done for callers beside them: calls on the store once begun, tasks given back.
    pub(crate) fn errands(&self) -> &TaskTracker {
        &self.errands
    }

    /// Bodies on their way in.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Submissions under way.
    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Everything measured.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Polls that wait.
    pub fn parked(&self) -> usize {
        self.parking.len()
    }

    /// Claims made for polls that wait, so far.
    pub fn parked_claims(&self) -> u64 {
        self.parking.claims()
    }

    /// Bytes of bodies that are on their way in.
    pub fn being_read(&self) -> usize {
        self.reading.bytes()
    }

    /// Breakers that are open on this server.
    pub fn open_breakers(&self) -> usize {
        self.roster.open_breakers()
    }

    /// Rings when something is due sooner than maintenance knows.
    pub fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// The store, for maintenance.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
