//! Lives of the store. A new one begins when the server is another one, or was started again: it may
//! have forgotten the last writes, and what this program remembers of them is worth nothing.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tasklane_core::Random;

use crate::fault::Fault;
use crate::keys::Key;
use crate::link::{Committed, Kind, Link, Way};
use crate::read::Read;
use crate::session::new_mark;
use crate::snapshot::{FORMAT, Meta, Snapshot};
use crate::value;
use crate::writes::Writes;

/// Epochs whose readers may go on without a gap, if they had not read too far.
const EPOCHS_MAX: usize = 64;
/// By how much an epoch raises all fences, in microseconds: more than one task is claimed in one.
const FENCE_STEP: i64 = 1_000_000;

/// What a server knows of the time before this epoch, for fences that only rise.
#[derive(Debug, Default)]
pub(crate) struct Past {
    epoch: AtomicU64,
    /// The latest time read.
    seen: AtomicI64,
    /// The latest time read before this epoch.
    floor: AtomicI64,
}

impl Past {
    pub(crate) fn note(&self, meta: &Meta) {
        let before = self.epoch.swap(meta.epoch, Ordering::Relaxed);
        if before != 0 && before != meta.epoch {
            self.floor.fetch_max(self.seen.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn see(&self, now: i64) {
        self.seen.fetch_max(now, Ordering::Relaxed);
    }

    /// No fence of an earlier epoch, as far as this server knows, was above it.
    pub(crate) fn floor(&self) -> i64 {
        self.floor.load(Ordering::Relaxed)
    }
}

/// Begins an epoch, unless something else is written meanwhile: then perhaps another server has.
pub(crate) async fn begin(link: &Link, random: &mut impl Random) -> Result<(), Fault> {
    let epochs = Read::plain("HGETALL", Key::Epochs, []);
    let mut snapshot = Snapshot::default();
    link.load(Way::Writing, vec![epochs.clone()], &mut snapshot).await?;
    let mut known = Vec::new();
    for (epoch, last) in value::pairs(snapshot.plain(&epochs).cloned().unwrap_or_default())? {
        known.push((value::number(&last)?, epoch));
    }
    let meta = snapshot.meta;
    let last = i64::try_from(meta.last.0).unwrap_or(i64::MAX);
    if meta.epoch != 0 {
        known.push((last, meta.epoch.to_string().into_bytes().into()));
    }
    known.sort_unstable();
    let mut writes = Writes::default();
    let forgotten = known.len().saturating_sub(EPOCHS_MAX);
    for (position, (until, epoch)) in known.into_iter().enumerate() {
        // What is here is the beginning of what was there: who has read no further misses nothing.
        match position < forgotten {
            true => writes.unset(Key::Epochs, epoch.to_vec()),
            false => writes.set(Key::Epochs, epoch.to_vec(), until.min(last).to_string()),
        }
    }
    let epoch = new_mark(random).max(1);
    let floor = meta.floor.max(link.past.seen.load(Ordering::Relaxed)).saturating_add(FENCE_STEP);
    writes.set(Key::Meta, "epoch", epoch.to_string());
    writes.set(Key::Meta, "format", FORMAT.to_string());
    writes.set(Key::Meta, "floor", if meta.epoch == 0 { "0".into() } else { floor.to_string() });
    let ready = link.ready().await?;
    let committed = link.commit(ready, meta, new_mark(random), writes, Kind::Epoch).await?;
    if committed == Committed::Done && meta.epoch != 0 {
        tracing::warn!(
            last,
            "Redis was started again or another server took over: a new epoch begins"
        );
    }
    Ok(())
}

#[cfg(all(test, feature = "test-server"))]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::snapshot::Loaded;
    use crate::system::SystemRandom;
    use crate::test_server::TestServer;

    #[tokio::test]
    async fn a_version_that_another_write_led_to_is_not_taken_for_the_one_decided_on() {
        let server =
            TestServer::start(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
        let options = Options::default();
        let link = Link::new(&server.address().parse().unwrap(), &options, 1).unwrap();
        let mut random = SystemRandom::default();
        begin(&link, &mut random).await.unwrap();
        let mut known = Snapshot::default();
        link.load(Way::Writing, Vec::new(), &mut known).await.unwrap();
        let write = async |decided_on, mark| {
            let mut writes = Writes::default();
            writes.set(Key::Health, "written by", format!("{mark}"));
            let ready = link.ready().await.unwrap();
            link.commit(ready, decided_on, mark, writes, Kind::Other).await.unwrap()
        };
        let first = known.meta;
        assert_eq!(write(first, 7).await, Committed::Done);
        // Somebody else's first write led to the version that the second of ours was decided on.
        let ours = Meta { version: first.version + 1, mark: 8, ..first };
        assert_eq!(write(first, 8).await, Committed::Conflict);
        assert_eq!(write(ours, 9).await, Committed::Conflict);
        let field = Read::Field(Key::Health, b"written by".to_vec());
        let mut expected = Snapshot::default();
        expected.meta = ours;
        let loaded = link.load(Way::Writing, vec![field.clone()], &mut expected).await.unwrap();
        assert!(matches!(loaded, Loaded::Changed));
        let theirs = Meta { mark: 7, ..ours };
        assert_eq!(write(theirs, 10).await, Committed::Done);
        let mut found = Snapshot::default();
        link.load(Way::Writing, vec![field], &mut found).await.unwrap();
        let written = found.field(&Key::Health, b"written by").unwrap().clone().unwrap();
        assert_eq!(
            (&written[..], found.meta.version, found.meta.mark),
            (&b"10"[..], first.version + 2, 10)
        );
    }
}
