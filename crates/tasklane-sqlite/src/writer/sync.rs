//! Syncing the log at an interval, for stores that answer before the sync.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::checkpoint::log_path;
use crate::options::Durability;
use crate::schema::Location;

/// Knows when the log must be synced; with other settings, never.
pub(super) struct Syncer {
    log: Option<(PathBuf, Duration)>,
    /// When the oldest write that is not synced was made.
    unsynced_since: Option<Instant>,
}

impl Syncer {
    pub(super) fn new(location: &Location, durability: Durability) -> Self {
        let log = match (location, durability) {
            (Location::File(path), Durability::Interval(interval)) => {
                Some((log_path(path), interval))
            }
            _ => None,
        };
        Self { log, unsynced_since: None }
    }

    pub(super) fn written(&mut self) {
        if self.log.is_some() {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
    }

    /// How long until a sync is due; `None` when nothing waits for one.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let (_, interval) = self.log.as_ref()?;
        Some(interval.saturating_sub(self.unsynced_since?.elapsed()))
    }

    pub(super) fn sync_if_due(&mut self) -> io::Result<()> {
        if self.due_in().is_some_and(|left| left.is_zero()) { self.sync() } else { Ok(()) }
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let (Some((log, _)), Some(_)) = (&self.log, self.unsynced_since.take()) {
            File::open(log)?.sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_synced_within_the_interval_that_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        File::create(log_path(&path)).unwrap();
        let syncer = |durability| Syncer::new(&Location::File(path.clone()), durability);
        let hour = Duration::from_secs(3_600);
        let mut patient = syncer(Durability::Interval(hour));
        assert_eq!(patient.due_in(), None, "nothing was written");
        patient.written();
        patient.sync_if_due().unwrap();
        assert!(patient.due_in().is_some_and(|left| !left.is_zero() && left <= hour));
        let mut prompt = syncer(Durability::Interval(Duration::ZERO));
        prompt.written();
        assert_eq!(prompt.due_in(), Some(Duration::ZERO));
        prompt.sync_if_due().unwrap();
        assert_eq!(prompt.due_in(), None, "it is on disk");
        let mut careful = syncer(Durability::Fsync);
        careful.written();
        assert_eq!(careful.due_in(), None, "there each write is synced before its answer");
    }
}
