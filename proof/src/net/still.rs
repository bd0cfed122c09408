//! Whether this machine itself stands still while it watches others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(20);

/// Does something; gives what came of it, and the longest that a thread beside it, which only wakes
/// up now and then, got no turn.
pub fn attended<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ticker = scope.spawn(|| longest_gap(&over));
        let done = work();
        over.store(true, Ordering::Relaxed);
        (done, ticker.join().unwrap_or_default())
    })
}

fn longest_gap(over: &AtomicBool) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while !over.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}
