//! A server on a listener, from its start to its end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tasklane_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attend::{Attended, Requests, Times, idle, incomplete, silent};
use crate::engine::Engine;
use crate::http::{self, Front};
use crate::maintenance;
use crate::settings::Settings;
use crate::tls::{Certificate, Tls};
use crate::trace::Tracer;

/// How long to rest when the system refuses a connection, for example for want of descriptors.
const REST_AFTER_REFUSAL: Duration = Duration::from_millis(50);
/// How long the first call waits for the end of the feed to be known.
const FOLLOW_WITHIN: Duration = Duration::from_secs(5);
/// Streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Bytes read ahead on one connection. What is within them and too much is refused as everything is.
const READ_AHEAD_BYTES: u32 = 64 * 1024;
/// How long a request that has begun may take to come to the end of its headers once a server ends.
const LAST_HEADERS_WITHIN: Duration = Duration::from_secs(1);

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Calls were still in flight when their time was over.
    #[error("{0} connections were cut off: their calls took too long to finish")]
    CutOff(usize),
}

/// A server, ready to run.
pub struct Server {
    engine: Arc<Engine>,
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// A server on `store`.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        Self { engine: Engine::new(store, settings), tls: None }
    }

    /// The same, spoken to over TLS alone.
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.engine.show_certificate_of(&tls);
        self.tls = Some(tls);
        self
    }

    /// The same, telling a collector of its calls.
    pub fn with_traces(self, tracer: Arc<Tracer>) -> Self {
        self.engine.trace_with(tracer);
        self
    }

    /// What it does, apart from HTTP.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Serves `listener` until `shutdown`; then ends what waits, finishes what is in flight, and
    /// returns.
    pub async fn run(
        self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> Result<(), ServerError> {
        let (loops, connections) = (TaskTracker::new(), TaskTracker::new());
        if let Err(error) = self.engine.configure_queues().await {
            tracing::warn!(%error, "queues could not be configured; it is tried again");
        }
        // Maintenance goes on until the last call has been answered.
        let stop = CancellationToken::new();
        maintenance::start(&self.engine, &loops, &stop);
        let (engine, parked_stop) = (Arc::clone(&self.engine), stop.clone());
        loops.spawn(async move { engine.serve_parked(parked_stop).await });
        self.start_feed(&loops, &stop);
        if let Some(tls) = &self.tls {
            loops.spawn(Arc::clone(tls).follow(stop.clone()));
        }
        if let Some(tracer) = self.engine.tracer() {
            loops.spawn(Arc::clone(tracer).run(Arc::clone(&self.engine), stop.clone()));
        }
        // Before the first call, so that a good key is known as one.
        if let Err(error) = self.engine.refresh_keys().await {
            tracing::warn!(%error, "keys could not be read; it is tried again");
        }
        // Likewise, so that what it does is counted; without a store there is nothing to count.
        let _ = tokio::time::timeout(FOLLOW_WITHIN, self.engine.feed().head()).await;
        let front = Front::new(Arc::clone(&self.engine));
        let door = Door { front, tls: self.tls.clone(), shutdown };
        door.accept(listener, &connections, &self.engine.settings()).await;
        tracing::info!("shutting down: finishing what is in flight");
        self.engine.drain();
        connections.close();
        let within = self.engine.settings().shutdown_within;
        let (streams, errands) = (self.engine.streams(), self.engine.errands());
        streams.close();
        let ended = async {
            connections.wait().await;
            streams.wait().await;
            // Nobody is left to begin new ones.
            errands.close();
            errands.wait().await;
        };
        let finished = tokio::time::timeout(within, ended).await;
        if let Err(error) = self.engine.record_refusals(true).await {
            tracing::warn!(%error, "refused calls are missing from the audit log");
        }
        stop.cancel();
        loops.close();
        // Not closed yet where somebody was cut off.
        errands.close();
        let rest = async {
            loops.wait().await;
            // Those who served parked polls may have given back the last tasks.
            errands.wait().await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(5), rest).await;
        match finished {
            Ok(()) => Ok(()),
            Err(_) => Err(ServerError::CutOff(connections.len() + streams.len())),
        }
    }

    /// Follows the feed, looks back at what it still has, and tells live readers of depths.
    fn start_feed(&self, loops: &TaskTracker, stop: &CancellationToken) {
        let (engine, follow_stop) = (Arc::clone(&self.engine), stop.clone());
        loops.spawn(async move { engine.follow(follow_stop).await });
        let (engine, back_stop) = (Arc::clone(&self.engine), stop.clone());
        loops.spawn(async move { engine.look_back(back_stop).await });
        loops.spawn(http::tell(Arc::clone(&self.engine), stop.clone()));
    }
}

/// A connection, for an answer that never ends by itself.
#[derive(Debug, Default)]
pub(crate) struct Line {
    peer: Option<IpAddr>,
    certificate: Option<Certificate>,
    cut: CancellationToken,
    closed: CancellationToken,
}

impl Line {
    fn from(peer: Option<IpAddr>) -> Self {
        Self { peer, ..Self::default() }
    }

    /// Where the other end is. Behind a proxy that is the proxy.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// The certificate that the client has shown and proved to be its own.
    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// Ends the connection, whatever else is on it: nobody reads what was written there.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
    }

    /// Waits until it has ended.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// What every connection comes through.
#[derive(Clone)]
struct Door {
    front: Arc<Front>,
    tls: Option<Arc<Tls>>,
    shutdown: CancellationToken,
}

impl Door {
    async fn accept(&self, listener: TcpListener, connections: &TaskTracker, settings: &Settings) {
        let Settings { headers_within, stall_after, .. } = *settings;
        let (most, times) = (settings.connections_max, Times { headers_within, stall_after });
        let room = Arc::new(Semaphore::new(most));
        let builder = Arc::new(builder());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection was refused by the system");
                    tokio::time::sleep(REST_AFTER_REFUSAL).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                // Closed at once: memory stays bounded, and the client may try again.
                tracing::warn!("more than {most} connections: one was closed");
                continue;
            };
            let (door, builder) = (self.clone(), Arc::clone(&builder));
            connections.spawn(async move {
                door.open(stream, &builder, times).await;
                drop(place);
            });
        }
    }

    async fn open(self, stream: TcpStream, builder: &auto::Builder<TokioExecutor>, times: Times) {
        // Answers are small and somebody waits for each.
        let _ = stream.set_nodelay(true);
        let peer = stream.peer_addr().ok().map(|peer| peer.ip());
        let Self { front, tls, shutdown } = self;
        let Some(tls) = tls else {
            let line = Line::from(peer);
            return serve(stream, line, front, builder, shutdown, times).await;
        };
        let handshake = tokio::select! {
            handshake = tls.accept(stream) => handshake,
            () = shutdown.cancelled() => return,
        };
        match handshake {
            Ok((stream, certificate)) => {
                let line = Line { certificate, ..Line::from(peer) };
                serve(stream, line, front, builder, shutdown, times).await;
            }
            Err(error) => {
                front.engine().metrics().handshake_failed();
                tracing::debug!(%error, ?peer, "no TLS with a client");
            }
        }
    }
}

/// Without hyper's `pipeline_flush`: it takes whatever a body offers, however slowly it is read, so
/// that a live reader that takes nothing costs memory instead of being noticed.
fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Watched by `Attended`, which needs no timer for headers that come at once.
        .header_read_timeout(None)
        // Head and body in one piece: answers are small, and copying one should cost less than a
        // list of pieces. What it saves was within the noise of ten interleaved rounds.
        .writev(false)
        .max_buf_size(READ_AHEAD_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(READ_AHEAD_BYTES)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    line: Line,
    front: Arc<Front>,
    builder: &auto::Builder<TokioExecutor>,
    shutdown: CancellationToken,
    times: Times,
) {
    let line = Arc::new(line);
    let _closed = line.closed.clone().drop_guard();
    let requests = Arc::new(Requests::default());
    let ending = ending(shutdown, line.cut.clone(), times.headers_within, Arc::clone(&requests));
    // Polled when it has something to say, not with every step of the connection.
    let mut ending = FuturesUnordered::from_iter([ending]);
    let (asked, answering) = (Arc::clone(&requests), Arc::clone(&front));
    let too_slow = || asked.end_partial(|| answering.too_slow());
    let stream = Attended::new(stream, times, Arc::clone(&requests));
    let service = {
        service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let begun = Requests::begin(&requests);
            let answer = Arc::clone(&front).handle(request, Arc::clone(&line));
            async move {
                answer.await.map(|response| {
                    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                        begun.upgrade();
                    }
                    match response.body().size_hint().exact() {
                        Some(_) => response,
                        // What comes piece by piece is under way until its end.
                        None => response.map(|body| {
                            Body::new(body.map_frame(move |frame| {
                                let _begun = &begun;
                                frame
                            }))
                        }),
                    }
                })
            }
        })
    };
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        ending = ending.next() => {
            let cut = match ending {
                Some(Ending::Graceful(cut)) => cut,
                Some(Ending::Silent) => return too_slow(),
                _ => return,
            };
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = connection => ended,
                () = cut.cancelled() => return,
                // hyper would wait for what was begun and has no end.
                () = incomplete(LAST_HEADERS_WITHIN, &asked) => return,
            }
        }
    };
    if let Err(error) = ended {
        if asked.is_late() {
            too_slow();
        }
        tracing::debug!(error, "a connection ended early");
    }
}

/// How a connection has to end before its client ends it.
enum Ending {
    /// After what is in flight on it, unless it is cut.
    Graceful(CancellationToken),
    AtOnce,
    /// At once, because no request came.
    Silent,
}

async fn ending(
    shutdown: CancellationToken,
    cut: CancellationToken,
    headers_within: Duration,
    requests: Arc<Requests>,
) -> Ending {
    // One that was silent from the beginning is idle at the same moment: what it said last, it said
    // half, so there is no end to wait for.
    tokio::select! {
        biased;
        () = cut.cancelled() => Ending::AtOnce,
        () = silent(headers_within, &requests) => Ending::Silent,
        () = idle(headers_within, &requests) => Ending::Graceful(cut.clone()),
        () = shutdown.cancelled() => Ending::Graceful(cut.clone()),
    }
}
