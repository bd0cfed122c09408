//! Notices panics of any thread, and inputs that do not end.

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An input that takes so long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The first panic that nobody has asked for yet.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// From now on panics are noted, of whatever thread, instead of being printed.
pub fn note_panics() {
    panic::set_hook(Box::new(|panic| {
        let mut first = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| panic.to_string());
    }));
}

/// The panic that was noted, if there was one.
pub(super) fn panicked() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Looks at how long the current input takes.
pub(super) struct Watch {
    current: Mutex<Option<(Instant, Vec<u8>)>>,
}

impl Watch {
    /// Begins; an input that does not end is kept in this file.
    pub(super) fn begin(file: PathBuf) -> Arc<Self> {
        let watch = Arc::new(Self { current: Mutex::new(None) });
        let watched = Arc::downgrade(&watch);
        std::thread::spawn(move || {
            while let Some(watch) = watched.upgrade() {
                watch.look(&file);
                drop(watch);
                std::thread::sleep(LOOK_EVERY);
            }
        });
        watch
    }

    /// An input begins, or has ended.
    pub(super) fn set(&self, input: Option<&[u8]>) {
        let current = input.map(|input| (Instant::now(), input.to_vec()));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Nobody can stop a thread that does not end: the process does.
    fn look(&self, file: &Path) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, input)) = &*current
            && since.elapsed() > HANGS_AFTER
        {
            let _ = file.parent().map(std::fs::create_dir_all);
            let _ = std::fs::write(file, input);
            eprintln!("fuzz: FAILED: an input does not end: {}", file.display());
            std::process::exit(1);
        }
    }
}
