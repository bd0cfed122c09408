//! How long the machine stood still: that is nothing the server could be blamed for.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread sleeps that notices when it is woken too late, and how late counts.
const NAP: Duration = Duration::from_millis(5);
const LATE: Duration = Duration::from_millis(50);

static STALLS: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Begins to watch, once for all tests.
pub(crate) fn watch() {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        std::thread::spawn(|| {
            loop {
                let begun = Instant::now();
                std::thread::sleep(NAP);
                let late = begun.elapsed().saturating_sub(NAP);
                if late > LATE {
                    let mut stalls = STALLS.lock().unwrap_or_else(PoisonError::into_inner);
                    stalls.push((Instant::now(), late));
                }
            }
        });
    });
}

/// Checks that what began then took less than this, but for the time in which nothing ran.
#[track_caller]
pub(crate) fn assert_within(begun: Instant, most: Duration) {
    let took = begun.elapsed();
    let stalls = STALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let stalled: Duration =
        stalls.iter().filter(|(at, _)| *at >= begun).map(|(_, late)| *late).sum();
    assert!(took < most + stalled, "took {took:?}, of which the machine stood still {stalled:?}");
}
