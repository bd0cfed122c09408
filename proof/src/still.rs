//! Whether this machine itself stands still while it watches others.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// Between two looks.
const TICK: Duration = Duration::from_millis(20);
/// A look that is later than this has met a machine, or a disk, that stood still: to wake up and to sync
/// a byte takes a few milliseconds at most beside the work of others.
const LATE: Duration = Duration::from_millis(50);

/// A thread that does next to nothing, until this is dropped: it wakes up now and then and syncs a byte.
/// When it is late, so is everybody.
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    /// On the disk of this folder.
    pub fn begin(folder: &Path) -> Result<Self, Failure> {
        let file = tempfile::tempfile_in(folder)?;
        let seen = Arc::new(Mutex::new(Seen { last: Instant::now(), still: Vec::new() }));
        let over = Arc::new(AtomicBool::new(false));
        let watch = Self { seen: Arc::clone(&seen), over: Arc::clone(&over) };
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(TICK);
                sync(&file);
                guard(&seen).look(Instant::now());
            }
        });
        Ok(watch)
    }

    /// For how long this machine stood still between these two, in sum.
    pub fn stood_still(&self, from: Instant, to: Instant) -> Duration {
        guard(&self.seen).between(from, to)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A disk that fails is found by others.
fn sync(file: &File) {
    let _ = file.write_all_at(b"x", 0).and_then(|()| file.sync_data());
}

fn guard(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Seen {
    last: Instant,
    /// From when a look was due until it came, where it was late.
    still: Vec<(Instant, Instant)>,
}

impl Seen {
    fn look(&mut self, now: Instant) {
        self.still.extend(self.late_by(now));
        self.last = now;
    }

    fn late_by(&self, now: Instant) -> Option<(Instant, Instant)> {
        let due = self.last + TICK;
        (now > due + LATE).then_some((due, now))
    }

    /// With what has not ended yet.
    fn between(&self, from: Instant, to: Instant) -> Duration {
        let still = self.still.iter().copied().chain(self.late_by(to));
        still.map(|(since, until)| until.min(to).saturating_duration_since(since.max(from))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_come_late_are_time_that_stood_still() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut seen = Seen { last: begun, still: Vec::new() };
        for look in [25, 60, 380, 405, 500, 525] {
            seen.look(at(look));
        }
        let still = |from, to| seen.between(at(from), at(to)).as_millis();
        assert_eq!(still(0, 80), 0, "a little late is not late");
        assert_eq!(still(0, 525), 300 + 75, "gaps are added");
        assert_eq!((still(100, 200), still(370, 410)), (100, 10), "only what lies between counts");
        assert_eq!(
            (still(0, 590), still(525, 645)),
            (375, 100),
            "what goes on counts once it is late"
        );
    }
}
