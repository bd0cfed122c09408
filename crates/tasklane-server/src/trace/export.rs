//! Gathers spans and sends them, beside the calls that they are of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::collector::SendError;
use super::{Span, Tracer, otlp};
use crate::engine::Engine;
use crate::limits::{
    TRACE_ATTEMPTS_MAX, TRACE_BATCH_SPANS_MAX, TRACE_FAILURES_LOGGED_EVERY, TRACE_LAST_SENT_WITHIN,
    TRACE_SENT_WITHIN,
};

impl Tracer {
    /// Sends what comes, until `stop`; then what is left, once.
    pub(crate) async fn run(self: Arc<Self>, engine: Arc<Engine>, stop: CancellationToken) {
        let Some(waiting) = self.take_waiting() else { return };
        let mut exporter = Exporter { tracer: self, engine, waiting, lost: 0, logged_at: None };
        while !stop.is_cancelled() {
            let batch = exporter.gather(&stop).await;
            exporter.deliver(&batch, &stop).await;
        }
        let mut rest = Vec::new();
        while rest.len() < TRACE_BATCH_SPANS_MAX
            && let Ok(span) = exporter.waiting.try_recv()
        {
            rest.push(span);
        }
        exporter.deliver(&rest, &stop).await;
    }
}

struct Exporter {
    tracer: Arc<Tracer>,
    engine: Arc<Engine>,
    waiting: Receiver<Span>,
    /// Spans lost since the log was told.
    lost: u64,
    logged_at: Option<Instant>,
}

impl Exporter {
    /// Waits for a first span, then for as long as spans are gathered, or until there are enough.
    async fn gather(&mut self, stop: &CancellationToken) -> Vec<Span> {
        let mut batch = Vec::new();
        let mut until = None;
        while batch.len() < TRACE_BATCH_SPANS_MAX {
            let room = TRACE_BATCH_SPANS_MAX - batch.len();
            let over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.waiting.recv_many(&mut batch, room) => {}
                () = over => break,
                () = stop.cancelled() => break,
            }
            until = until.or(Some(Instant::now() + self.tracer.settings.export_every));
        }
        batch
    }

    /// Sends a batch, more than once if that may help; while the server stops, once.
    async fn deliver(&mut self, batch: &[Span], stop: &CancellationToken) {
        self.count_dropped();
        if batch.is_empty() {
            return;
        }
        for attempt in 1..=TRACE_ATTEMPTS_MAX {
            let body = otlp::body(&self.tracer.settings.service_name, batch);
            let hurry = async {
                stop.cancelled().await;
                tokio::time::sleep(TRACE_LAST_SENT_WITHIN).await;
            };
            let sent = tokio::select! {
                sent = timeout(TRACE_SENT_WITHIN, self.tracer.collector.send(body)) => {
                    sent.unwrap_or(Err(SendError::TooSlow))
                }
                () = hurry => Err(SendError::TooSlow),
            };
            let error = match sent {
                Ok(()) => return self.engine.metrics().spans_exported(batch.len() as u64),
                Err(error) => error,
            };
            let is_last = attempt == TRACE_ATTEMPTS_MAX || stop.is_cancelled();
            if is_last || !error.is_passing() {
                self.engine.metrics().spans_dropped("failed", batch.len() as u64);
                self.lost += batch.len() as u64;
                return self.log(&error.to_string());
            }
            tokio::select! {
                () = tokio::time::sleep(self.tracer.settings.export_every * attempt) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Counts spans that found no room.
    fn count_dropped(&mut self) {
        let dropped = self.tracer.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            self.engine.metrics().spans_dropped("full", dropped);
            self.lost += dropped;
            self.log("more calls are sampled than can be sent");
        }
    }

    /// Says what is wrong, now and then.
    fn log(&mut self, why: &str) {
        let is_due = |at: Instant| at.elapsed() >= TRACE_FAILURES_LOGGED_EVERY;
        if self.logged_at.is_none_or(is_due) {
            let spans_lost = std::mem::take(&mut self.lost);
            tracing::warn!(spans_lost, why, "traces do not arrive at the collector");
            self.logged_at = Some(Instant::now());
        }
    }
}
