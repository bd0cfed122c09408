//! Polls that found nothing wait here until there may be something for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tasklane_core::{Draft, Lane, WorkerSpec};
use tasklane_store::{ClaimRequest, Claimed, Store, StoreError, WorkerRefusal};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::orphan;
use crate::limits::{PARKED_CHUNK, PARKED_LOOK_EVERY, PARKED_MAX};

/// What a poll comes to.
pub(crate) type Served = Result<Result<Vec<Claimed>, WorkerRefusal>, StoreError>;

/// A poll that waits.
pub(crate) struct Parked {
    ticket: u64,
    /// When its caller gives up.
    until: Instant,
    request: ClaimRequest,
    /// To tell whether a submitted task could be for it; unknown workers may want anything.
    spec: Option<Arc<WorkerSpec>>,
    reply: oneshot::Sender<Served>,
}

impl Parked {
    pub(crate) fn request(&self) -> ClaimRequest {
        self.request.clone()
    }

    fn wants(&self, lane: &Lane) -> bool {
        let Some(spec) = &self.spec else { return true };
        spec.selection.takes(lane)
            && self.request.narrowed.as_ref().is_none_or(|own| lane.capabilities.is_subset_of(own))
    }
}

/// The polls that wait, in the order they came.
pub(crate) struct Parking {
    store: Arc<dyn Store>,
    errands: TaskTracker,
    lot: Mutex<BTreeMap<u64, Parked>>,
    tickets: AtomicU64,
    /// A poll came back into the lot and may have missed a hint.
    again: Notify,
    /// The oldest hint that such a poll had seen.
    missed: Mutex<Option<u64>>,
    /// Claims made for those who wait.
    claims: AtomicU64,
}

impl Parking {
    pub(crate) fn new(store: Arc<dyn Store>, errands: TaskTracker) -> Self {
        let lot = Mutex::new(BTreeMap::new());
        Self {
            store,
            errands,
            lot,
            tickets: AtomicU64::new(0),
            again: Notify::new(),
            missed: Mutex::new(None),
            claims: AtomicU64::new(0),
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Claims made for those who wait, so far.
    pub(crate) fn claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// Waits up to `patience` for tasks. `seen` is the hint that was there before the poll looked:
    /// if it has risen since, the poll must look again instead.
    pub(crate) async fn wait(
        &self,
        request: ClaimRequest,
        spec: Option<Arc<WorkerSpec>>,
        seen: u64,
        patience: Duration,
    ) -> Option<Served> {
        let (reply, answer) = oneshot::channel();
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        {
            let mut lot = self.lock();
            if lot.len() >= PARKED_MAX {
                let error = StoreError::Overloaded("too many polls are waiting".into());
                return Some(Err(error));
            }
            let until = Instant::now() + patience;
            lot.insert(ticket, Parked { ticket, until, request, spec, reply });
        }
        let mut leave = Leave { parking: self, ticket, answer };
        // After it stands in the lot, so that a hint in between is seen here or served there.
        if self.store.watch().borrow().claimable != seen && leave.leaves() {
            return None;
        }
        match tokio::time::timeout(patience, &mut leave.answer).await {
            Ok(served) => served.ok(),
            // Already taken from the lot: somebody is about to answer.
            Err(_) if !leave.leaves() => (&mut leave.answer).await.ok(),
            Err(_) => Some(Ok(Ok(Vec::new()))),
        }
    }

    /// Takes polls that these tasks could be for, to be served in the same write.
    pub(crate) fn take_for<'a>(&self, drafts: impl Iterator<Item = &'a Draft>) -> Vec<Parked> {
        let mut lot = self.lock();
        let mut taken = Vec::new();
        if lot.is_empty() {
            return taken;
        }
        for draft in drafts.filter(|draft| draft.schedule.is_none()).take(PARKED_CHUNK) {
            let fits =
                |parked: &Parked| !parked.reply.is_closed() && parked.wants(&draft.spec.lane);
            let found = lot.iter().find(|(_, parked)| fits(parked)).map(|(ticket, _)| *ticket);
            let Some(ticket) = found else { continue };
            taken.extend(lot.remove(&ticket));
        }
        taken
    }

    /// Hands claimed tasks to polls that were taken; those that got none wait again.
    pub(crate) fn hand_over(
        &self,
        taken: Vec<Parked>,
        claimed: Result<Vec<Result<Vec<Claimed>, WorkerRefusal>>, StoreError>,
    ) -> usize {
        let verdicts = match claimed {
            Ok(verdicts) => verdicts,
            Err(error) => {
                for parked in taken {
                    let _ = parked.reply.send(Err(error.clone()));
                }
                return 0;
            }
        };
        let mut handed = 0;
        for (parked, verdict) in taken.into_iter().zip(verdicts) {
            match verdict {
                Ok(tasks) if tasks.is_empty() => self.put_back(parked),
                verdict => {
                    handed += verdict.as_ref().map_or(0, Vec::len);
                    if let Err(Ok(Ok(tasks))) = parked.reply.send(Ok(verdict)) {
                        orphan::give_back(&self.store, &self.errands, tasks);
                    }
                }
            }
        }
        handed
    }

    /// The same for polls that were served with a submission. `seen` is the hint from before
    /// their claim was queued: those who wait again may have missed a later one.
    pub(crate) fn hand_over_submitted(
        &self,
        taken: Vec<Parked>,
        claimed: Result<Vec<Result<Vec<Claimed>, WorkerRefusal>>, StoreError>,
        seen: u64,
    ) {
        self.hand_over(taken, claimed);
        if self.store.watch().borrow().claimable != seen {
            let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
            *missed = Some(missed.map_or(seen, |known| known.min(seen)));
            drop(missed);
            self.again.notify_one();
        }
    }

    /// Serves parked polls whenever the store hints at something claimable, and every second.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        let mut watch = self.store.watch();
        let mut seen = watch.borrow_and_update().claimable;
        loop {
            let looks = tokio::select! {
                () = stop.cancelled() => return,
                changed = watch.changed() => changed.is_err(),
                () = self.again.notified() => false,
                () = tokio::time::sleep(PARKED_LOOK_EVERY) => true,
            };
            let claimable = watch.borrow_and_update().claimable;
            let missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner).take();
            let since = std::mem::replace(&mut seen, claimable);
            match missed {
                _ if looks => self.serve(u64::MAX, None).await,
                Some(missed) => {
                    let lanes = self.store.claimable_since(missed.min(since));
                    self.serve(u64::MAX, lanes).await;
                }
                // A hint that has not risen tells of other events.
                None if claimable <= since => {}
                None => self.serve(claimable - since, self.store.claimable_since(since)).await,
            }
        }
    }

    /// Claims for those who wait, the longest waiting first, until `wanted` tasks are handed over
    /// or everybody has been tried who waited at the beginning and takes one of these lanes.
    async fn serve(&self, wanted: u64, lanes: Option<Vec<Lane>>) {
        let mut handed = 0;
        let mut after = None;
        let last = self.tickets.load(Ordering::Relaxed);
        let fits = |parked: &Parked| {
            lanes.as_ref().is_none_or(|lanes| lanes.iter().any(|lane| parked.wants(lane)))
        };
        // As many as there are tasks; should they be for others or gone, soon many more at once.
        let mut room = usize::try_from(wanted).unwrap_or(PARKED_CHUNK);
        while handed < wanted {
            room = room.min(PARKED_CHUNK);
            let (taken, to) = self.take_chunk(after, last, room, fits);
            room *= 2;
            if taken.is_empty() {
                return;
            }
            after = to;
            self.claims.fetch_add(taken.len() as u64, Ordering::Relaxed);
            let requests = taken.iter().map(Parked::request).collect();
            let claimed = self.store.claim(requests).await;
            let failed = claimed.is_err();
            handed += self.hand_over(taken, claimed) as u64;
            if failed {
                return;
            }
        }
    }

    /// Takes some of those behind `after` and before `last` who fit and whose caller is still there.
    fn take_chunk(
        &self,
        after: Option<u64>,
        last: u64,
        room: usize,
        fits: impl Fn(&Parked) -> bool,
    ) -> (Vec<Parked>, Option<u64>) {
        let mut lot = self.lock();
        let from = after.map_or(0, |ticket| ticket + 1);
        let there = lot.range(from..last.max(from));
        let fitting = there.filter(|(_, parked)| !parked.reply.is_closed() && fits(parked));
        let tickets: Vec<u64> = fitting.map(|(ticket, _)| *ticket).take(room).collect();
        let taken = tickets.iter().filter_map(|ticket| lot.remove(ticket)).collect();
        (taken, tickets.last().copied())
    }

    /// A poll that got nothing waits on where it stood, unless its time is up.
    fn put_back(&self, parked: Parked) {
        if parked.until <= Instant::now() {
            let _ = parked.reply.send(Ok(Ok(Vec::new())));
            return;
        }
        // Under the lock: a caller closes its end before it looks whether it still stands here.
        let mut lot = self.lock();
        if !parked.reply.is_closed() {
            lot.insert(parked.ticket, parked);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Parked>> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a poll out of the lot when its caller goes, and gives back what was on its way to it.
struct Leave<'a> {
    parking: &'a Parking,
    ticket: u64,
    answer: oneshot::Receiver<Served>,
}

impl Leave<'_> {
    fn leaves(&self) -> bool {
        self.parking.lock().remove(&self.ticket).is_some()
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Closed before the place is left: see `put_back`.
        self.answer.close();
        if let Ok(Ok(Ok(tasks))) = self.answer.try_recv() {
            orphan::give_back(&self.parking.store, &self.parking.errands, tasks);
        }
        self.leaves();
    }
}
