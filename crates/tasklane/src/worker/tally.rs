//! What a worker counts, for whoever watches it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tasklane_client::worker::{Context, TaskError};

/// Attempts by handler.
#[derive(Debug, Default)]
pub(super) struct Tally {
    handlers: Mutex<BTreeMap<&'static str, Arc<Counts>>>,
}

#[derive(Debug, Default)]
struct Counts {
    running: AtomicU64,
    completed: AtomicU64,
    other: AtomicU64,
}

impl Tally {
    /// A handler whose attempts are counted.
    pub(super) fn counting<P, R, F>(
        &self,
        name: &'static str,
        handler: impl Fn(Context, P) -> F + Send + Sync + 'static,
    ) -> impl Fn(Context, P) -> Counted<F> + Send + Sync + 'static
    where
        F: Future<Output = Result<R, TaskError>> + Send + 'static,
    {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = Arc::clone(handlers.entry(name).or_default());
        move |context, payload| {
            counts.running.fetch_add(1, Ordering::Relaxed);
            let running = Running { counts: Arc::clone(&counts), completed: false };
            Counted { attempt: Box::pin(handler(context, payload)), running }
        }
    }

    /// All of it in the text format of Prometheus.
    pub(super) fn text(&self, draining: bool) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, of: &dyn Fn(&Counts) -> u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
            for (handler, counts) in handlers.iter() {
                let _ = writeln!(text, "{name}{{handler=\"{handler}\"}} {}", of(counts));
            }
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        metric("tasklane_worker_running", "gauge", "Attempts that run.", &|of| read(&of.running));
        metric(
            "tasklane_worker_completed_total",
            "counter",
            "Attempts that gave a result.",
            &|of| read(&of.completed),
        );
        metric(
            "tasklane_worker_not_completed_total",
            "counter",
            "Attempts that gave none.",
            &|of| read(&of.other),
        );
        let name = "tasklane_worker_draining";
        let _ = writeln!(text, "# HELP {name} Whether it takes no more tasks.");
        let _ = writeln!(text, "# TYPE {name} gauge\n{name} {}", u8::from(draining));
        text
    }
}

/// An attempt under way; it is over when this goes, however that comes.
struct Running {
    counts: Arc<Counts>,
    completed: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Counts { running, completed, other } = &*self.counts;
        running.fetch_sub(1, Ordering::Relaxed);
        let ended = if self.completed { completed } else { other };
        ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// An attempt that is counted.
pub(super) struct Counted<F> {
    attempt: std::pin::Pin<Box<F>>,
    running: Running,
}

impl<R, F: Future<Output = Result<R, TaskError>>> Future for Counted<F> {
    type Output = F::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<F::Output> {
        let ended = self.attempt.as_mut().poll(context);
        if let std::task::Poll::Ready(Ok(_)) = &ended {
            self.running.completed = true;
        }
        ended
    }
}
