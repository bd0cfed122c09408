//! Ctrl-C ends a run early, with its figures; a second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
/// What a shell sees of a process that a Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// Whether to come to an end.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Listens from now on.
pub(crate) fn listen() {
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            ASKED.store(true, Ordering::Relaxed);
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(INTERRUPTED);
        }
    });
}
