//! The suite that defines a store: one test per behaviour, and a random test against a model.
//!
//! A store offers a [`Fixture`] of about thirty lines and calls
//! `conformance_suite!(make_fixture)`, which makes one `#[test]` of each case. Where stores may
//! differ, [`Differences`] says so and the suite reads it; there is no other way out of a case.

mod audit;
#[doc(hidden)]
pub mod cases;
mod clock;
mod drafting;
mod model;
mod random;
mod scene;
mod suite;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use audit::run_case;
pub use clock::ManualClock;
pub use model::NaiveStore;
pub use random::{model_test, seed_and_steps};
use tasklane_core::Timestamp;
#[doc(hidden)]
pub use tasklane_core::lifecycle::Rules;

use crate::store::Store;

/// One empty store of its own for one test, on a clock that stands still until it is moved.
pub trait Fixture {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;
    /// The store's wall time.
    fn now(&self) -> Timestamp;
    /// Lets time pass on both clocks.
    fn advance(&self, span: Duration);
    /// Steps the wall clock alone.
    fn set_wall(&self, wall: Timestamp);
    /// Drops what is in memory and opens the store again on what is stored, as after a kill.
    fn reopen(&mut self);
    /// What this store does in its own way.
    fn differences(&self) -> Differences;
    /// Waits for an answer.
    fn run<T>(&self, answer: impl Future<Output = T>) -> T;
}

/// Everything in which stores may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differences {
    /// What is stored survives [`Fixture::reopen`]; otherwise the store is empty afterwards.
    pub survives_reopen: bool,
    /// Leases and execution timeouts start anew at reopen (their clock is the process's own).
    pub leases_restart: bool,
    /// Depth limits are exact; otherwise they may be passed by what is in flight.
    pub exact_depth: bool,
    /// Some numbers are not given to any event.
    pub numbers_have_gaps: bool,
    /// `backup` writes a file.
    pub backs_up: bool,
}

/// Waits for a future on this thread, for stores that need no runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
