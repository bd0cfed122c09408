//! Metrics: measuring answers, and showing everything measured.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tower::{Layer, Service};

use super::observe::Route;
use super::problem::{self, Refused};
use super::{App, document};
use crate::aside::aside;
use crate::engine::Engine;
use crate::metrics::Gauges;

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The route of what has none.
pub(super) const NO_ROUTE: &str = "none";

/// Show metrics
#[utoipa::path(get, path = "/metrics", tag = "machines",
    responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
pub(crate) async fn metrics(State(engine): App) -> Result<Response, Refused> {
    let gauges = gauges(&engine).await?;
    // Of many queues and types, it is long.
    let text = aside(true, || engine.metrics().text(&gauges)).map_err(|error| {
        tracing::error!(%error, "metrics could not be written");
        Refused::new(problem::INTERNAL, "metrics could not be written")
    })?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text).into_response())
}

async fn gauges(engine: &Engine) -> Result<Gauges, Refused> {
    // All are asked before the first is awaited.
    let store = engine.store();
    let (stats, queues, workers) = (store.stats(), store.queues(), store.workers());
    Ok(Gauges {
        stats: stats.await?,
        queues: queues.await?,
        workers: workers.await?,
        open_breakers: engine.open_breakers(),
        events_lag: engine.feed().lag(),
        sockets: engine.feed().sockets(),
        readers: engine.feed().readers(),
        parked: engine.parked(),
        parked_claims: engine.parked_claims(),
        certificate_ends_at: engine.certificate_ends_at(),
        figures: engine.status().figures,
    })
}

/// Live events have a second path, which the document leaves out.
const LIVE: [&str; 2] = ["/events", "/ws"];

fn known(route: &str) -> &'static str {
    let live = || LIVE.into_iter().find(|live| *live == route);
    document::route(route).or_else(live).unwrap_or(NO_ROUTE)
}

/// Notes an answer.
pub(super) fn note(engine: &Engine, route: &'static str, response: &Response, started: Instant) {
    let metrics = engine.metrics();
    metrics.answered(route, response.status().as_u16(), started.elapsed());
    if let Some(refused) = response.extensions().get::<Refused>() {
        metrics.rejected(refused.kind().word);
    }
}

/// Measures every answer of the router, by the route that the router found.
#[derive(Clone)]
pub(super) struct Measure(pub(super) Arc<Engine>);

impl<S> Layer<S> for Measure {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Measured<S> {
        Measured { inner, engine: Arc::clone(&self.0) }
    }
}

/// A route that is measured.
#[derive(Clone)]
pub(super) struct Measured<S> {
    inner: S,
    engine: Arc<Engine>,
}

impl<S> Service<Request> for Measured<S>
where
    S: Service<Request, Response = Response>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let started = Instant::now();
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.map_or(NO_ROUTE, |matched| known(matched.as_str()));
        let answer = self.inner.call(request);
        let engine = Arc::clone(&self.engine);
        Box::pin(async move {
            let mut response = answer.await?;
            note(&engine, route, &response, started);
            response.extensions_mut().insert(Route(route));
            Ok(response)
        })
    }
}
