//! Probes and metrics of a worker: /livez, /readyz, /metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::tally::Tally;

/// Connections at once: probes and scrapers, no more.
const CONNECTIONS_MAX: usize = 64;
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const CONNECTION_WITHIN: Duration = Duration::from_secs(60);

pub(super) async fn bind(place: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(place).await.with_context(|| format!("cannot listen on {place}"))
}

/// Answers until the worker has `ended`. From `stop` on it is not ready.
pub(super) async fn run(
    listener: TcpListener,
    tally: Arc<Tally>,
    stop: CancellationToken,
    ended: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended.cancelled() => return,
        };
        let (Ok((stream, _)), Ok(place)) = (accepted, Arc::clone(&room).try_acquire_owned()) else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (tally, stop) = (Arc::clone(&tally), stop.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, &tally, stop.is_cancelled());
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_WITHIN)
                .serve_connection(TokioIo::new(stream), service);
            // Whoever asks has gone, or took too long.
            let _ = tokio::time::timeout(CONNECTION_WITHIN, connection).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, tally: &Tally, draining: bool) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/livez" | "/healthz") => (StatusCode::OK, "alive\n".into()),
        (&Method::GET | &Method::HEAD, "/readyz") if draining => {
            (StatusCode::SERVICE_UNAVAILABLE, "draining\n".into())
        }
        (&Method::GET | &Method::HEAD, "/readyz") => (StatusCode::OK, "ready\n".into()),
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, tally.text(draining)),
        (_, "/livez" | "/healthz" | "/readyz" | "/metrics") => {
            (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into())
        }
        _ => (StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics\n".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
