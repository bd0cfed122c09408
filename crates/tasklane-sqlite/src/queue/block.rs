//! Waiting on a plain thread: for answers of the store, for signals, and for both within a time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Waits for a future.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        // Without a deadline there is always an answer.
        if let Some(value) = block_until(future.as_mut(), None) {
            return value;
        }
    }
}

/// Waits for a future until a deadline; `None` when that came first.
pub(super) fn block_until<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        match deadline {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Ends when either does.
pub(super) async fn either(one: impl Future, other: impl Future) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        let ready =
            one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready();
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The instant `span` from now; `None` when that is beyond what the clock can say.
pub(super) fn deadline(span: Duration) -> Option<Instant> {
    Instant::now().checked_add(span)
}

/// Wakes one loop, and tells it when to end. A ring while nobody waits is not lost.
#[derive(Debug, Default)]
pub(super) struct Bell {
    closed: AtomicBool,
    notify: Notify,
}

impl Bell {
    /// There may be something to do.
    pub(super) fn ring(&self) {
        self.notify.notify_one();
    }

    /// The loop shall end.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The next ring.
    pub(super) fn rung(&self) -> impl Future<Output = ()> {
        self.notify.notified()
    }
}

/// Joins a thread, unless it is this one: a handler may drop the last handle of what runs it.
pub(super) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}
