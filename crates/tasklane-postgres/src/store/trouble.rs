//! What stands in the way of looks and, apart from that, of writes. These may fail while looks go on: no
//! room on a disk, a standby that commits wait for and that is away, a database that takes no writes.
//! Only a write shows that it is over. Where nobody writes, one of no consequence is tried.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use crate::fault::Fault;

/// It goes the way of all writes: through the log, and past the standbys that commits wait for.
const PROBE: &str = "INSERT INTO meta(name, value) VALUES ('probe', 1)
    ON CONFLICT (name) DO UPDATE SET value = meta.value + 1";
/// How long a try may take. A standby that answers later than that is as good as none.
const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Troubles(Mutex<Known>);

#[derive(Default)]
struct Known {
    of_looks: Option<String>,
    /// The last, and when it was noticed.
    of_writes: Option<(Instant, String)>,
    /// Until this server is started again.
    for_good: Option<String>,
}

impl Troubles {
    /// A look came to its end, or failed.
    pub(super) fn note_look(&self, fault: Option<&Fault>) {
        if fault.is_none_or(Fault::is_trouble) {
            self.with(|known| known.of_looks = fault.map(Fault::to_string));
        }
    }

    /// Something could not be written, or not be committed.
    pub(super) fn note_failed(&self, fault: &Fault) {
        if fault.is_strange_type() {
            self.with(|known| known.for_good = Some(fault.to_string()));
        } else if fault.is_trouble() {
            self.with(|known| known.of_writes = Some((Instant::now(), fault.to_string())));
        }
    }

    /// Something was written and committed that was begun then: it says nothing of what came later.
    pub(super) fn note_written(&self, begun: Instant) {
        self.with(|known| known.of_writes.take_if(|(noticed, _)| *noticed < begun));
    }

    pub(super) fn told(&self) -> Option<String> {
        self.with(|known| {
            let of_writes = known.of_writes.as_ref().map(|(_, words)| words);
            known.for_good.as_ref().or(of_writes).or(known.of_looks.as_ref()).cloned()
        })
    }

    fn is_of_writes(&self) -> bool {
        self.with(|known| known.of_writes.is_some())
    }

    fn with<T>(&self, read: impl FnOnce(&mut Known) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    async fn probe(&self) -> Result<(), Fault> {
        let transaction = self.pool.write().await?;
        match transaction.execute(PROBE, &[]).await {
            Ok(_) => transaction.commit().await,
            Err(fault) => {
                if !fault.is_useless_connection() {
                    transaction.roll_back().await;
                }
                Err(fault)
            }
        }
    }
}

/// Finds out that the trouble of writes is over, while there is any. Several servers try the same row:
/// who does not get it in time tries again.
pub(super) async fn keep_probing(shared: Arc<Shared>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if !shared.troubles.is_of_writes() {
            continue;
        }
        let begun = Instant::now();
        match tokio::time::timeout(PROBE_TIME_MAX, shared.probe()).await {
            Ok(Ok(())) => {
                tracing::info!("the database takes writes again");
                shared.troubles.note_written(begun);
            }
            Ok(Err(fault)) => tracing::debug!(%fault, "a write was tried"),
            Err(_) => tracing::debug!("a write was tried, and took too long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_before_trouble_was_noticed_does_not_end_it() {
        let troubles = Troubles::default();
        let begun = Instant::now();
        troubles.note_failed(&Fault::Unanswered);
        troubles.note_look(None);
        troubles.note_written(begun);
        assert!(troubles.is_of_writes() && troubles.told().is_some());
        troubles.note_failed(&Fault::Overtaken);
        troubles.note_written(Instant::now());
        assert_eq!(troubles.told(), None);
        troubles.note_look(Some(&Fault::NoConnection("away".into())));
        troubles.note_written(Instant::now());
        assert_eq!(troubles.told().as_deref(), Some("away"), "a write says nothing of looks");
        troubles.note_look(None);
        assert_eq!(troubles.told(), None);
    }
}
