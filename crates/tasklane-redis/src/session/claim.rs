//! Handing tasks to workers, in the order of S8.

use std::cmp::Reverse;

use bytes::Bytes;
use hashbrown::HashMap;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{
    Fence, Intent, Order, Place, Priority, Selection, Sequence, TaskId, Timestamp, Weight,
    WorkerState, limits,
};
use tasklane_store::{ClaimRequest, Claimed, WorkerRefusal};

use super::Session;
use super::heads::heads_read;
use crate::fault::{Fault, corrupt};
use crate::keys::Key;
use crate::sorted::{First, Sorted};
use crate::stored::{Payload, task_id};

/// Lanes of a queue and priority whose beginning is read in one go.
const LANES_AT_ONCE: usize = 16;
/// Groups of calls for which lanes are read in one go: one look for several groups costs each of
/// them a part of a round trip, and holds a few hundred tasks in memory.
const GROUPS_AHEAD: usize = 4;

/// What a claim looks for.
struct Search<'r> {
    request: &'r ClaimRequest,
    selection: Selection,
    wanted: usize,
    /// Which lanes the worker takes, as far as it was asked.
    takes: HashMap<u32, bool>,
}

/// The front of each priority of a queue, as far as the worker takes it.
type Firsts = [Option<Spot>; Priority::COUNT];

/// Where the next task of a queue and priority waits.
#[derive(Debug, Clone)]
struct Spot {
    place: Place,
    lane: u32,
    priority: Priority,
    member: Bytes,
}

/// A queue that can be served.
struct Open {
    number: u32,
    weight: Weight,
    order: Order,
    firsts: Firsts,
}

/// What came of handing over a task.
enum Handed {
    Over(Box<Claimed>),
    /// It was released by this worker a moment ago.
    Withheld,
    /// It was too late for it.
    Expired,
}

impl Session<'_> {
    pub(crate) fn claim(
        &mut self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Result<Vec<Claimed>, WorkerRefusal>>, Fault> {
        let mut bytes = 0;
        requests.iter().map(|request| self.claim_one(request, &mut bytes)).collect()
    }

    /// `bytes` is what the call has handed out.
    fn claim_one(
        &mut self,
        request: &ClaimRequest,
        bytes: &mut usize,
    ) -> Result<Result<Vec<Claimed>, WorkerRefusal>, Fault> {
        self.wanted += request.count.min(limits::CLAIM_TASKS_MAX);
        let held = self.held_count(request.worker)?;
        let Some(worker) = self.hear(request.worker)? else { return Ok(Err(WorkerRefusal::Gone)) };
        if worker.state != WorkerState::Active {
            return Ok(Ok(Vec::new()));
        }
        let free = (worker.spec.capacity as usize).saturating_sub(held);
        let wanted = request.count.min(free).min(limits::CLAIM_TASKS_MAX);
        if wanted == 0 {
            return Ok(Ok(Vec::new()));
        }
        let mut selection = worker.spec.selection;
        if let Some(narrowed) = &request.narrowed {
            selection.capabilities = selection.capabilities.intersection(narrowed);
        }
        let search = Search { request, selection, wanted, takes: HashMap::new() };
        self.take_next(search, bytes).map(Ok)
    }

    /// Asks for what these and the last claims took from, where little is left of it: as much as all
    /// claims of the group would have. Lanes that are read together run out together.
    pub(super) fn read_ahead(&mut self) {
        if self.wanted == 0 {
            return;
        }
        let mut hot = std::mem::take(&mut self.memory.hot);
        hot.extend(self.hot.drain());
        let lanes = hot.iter().filter(|key| matches!(key, Key::Lane(..))).count();
        let depth = self.front_depth(lanes);
        for key in hot {
            let known = self.sorted.get(&key).or_else(|| self.snapshot.sorted(&key));
            match key {
                Key::Heads(..) if self.snapshot.heads(&key).is_none() => self.miss(heads_read(key)),
                Key::Lane(..) if known.is_none_or(|known| known.is_shorter(depth / 2)) => {
                    let taken = known.map_or(0, Sorted::taken);
                    self.miss_front(&key, taken + depth, true);
                }
                _ => {}
            }
        }
    }

    /// How far to read lanes, so many of them: some more than all claims of the group would have of
    /// each, and for those of the next groups too where nobody else writes.
    fn front_depth(&self, lanes: usize) -> usize {
        let groups = if self.snapshot.is_kept() { GROUPS_AHEAD } else { 1 };
        let each = self.wanted * groups * 5 / 4 / lanes.clamp(1, 8);
        (each + 2).min(limits::CLAIM_TASKS_MAX)
    }

    /// A task was taken from there.
    fn note_hot(&mut self, spot: &Spot) {
        let lane = Key::Lane(spot.lane, spot.priority);
        if !self.hot.contains(&lane) && self.hot.len() < 4 * LANES_AT_ONCE {
            self.hot.insert(lane);
        }
    }

    fn take_next(
        &mut self,
        mut search: Search<'_>,
        bytes: &mut usize,
    ) -> Result<Vec<Claimed>, Fault> {
        let mut open = self.open_queues(&mut search)?;
        let mut claimed = Vec::new();
        let mut set_aside = Vec::new();
        // Tasks passed because they are too late or withheld: a slice of them and no more (S21).
        let mut passed = 0;
        while claimed.len() < search.wanted && passed < limits::SLICE_TASKS {
            let shares: Vec<_> = open.iter().map(|open| (open.number, open.weight)).collect();
            let Some(number) = self.memory.rotation.pick(&shares) else { break };
            let Some(at) = open.iter().position(|open| open.number == number) else { break };
            let Some(queue) = open.get_mut(at) else { break };
            let Some(spot) = self.choose(&queue.firsts, &queue.order) else { break };
            let priority = spot.priority;
            match self.hand_over(search.request, &spot, &queue.order)? {
                Handed::Over(handed) => {
                    self.note_hot(&spot);
                    *bytes += handed.payload.len();
                    claimed.push(*handed);
                }
                Handed::Withheld => {
                    self.pass_over(number, &spot);
                    set_aside.push((number, spot));
                    passed += 1;
                }
                Handed::Expired => {
                    passed += 1;
                    // Its end may have let a task of any priority into a lane.
                    queue.firsts = self.firsts(number, &mut search)?;
                }
            }
            let first = self.first_of(number, priority, &mut search)?;
            if let Some(known) = queue.firsts.get_mut(priority.index()) {
                *known = first;
            }
            if queue.firsts.iter().all(Option::is_none) {
                open.remove(at);
            }
            if !claimed.is_empty() && *bytes >= limits::CLAIM_BYTES_MAX {
                break;
            }
        }
        for (queue, spot) in set_aside {
            self.bring_back(queue, spot);
        }
        Ok(claimed)
    }

    /// The queues that have something for this worker.
    fn open_queues(&mut self, search: &mut Search<'_>) -> Result<Vec<Open>, Fault> {
        let queues: Vec<_> = self
            .catalog
            .queues()
            .filter(|(_, name, settings)| {
                !settings.paused && search.selection.queues.contain(name.as_str())
            })
            .map(|(number, _, settings)| (number, settings.weight, settings.order))
            .collect();
        let mut open = Vec::new();
        for (number, weight, order) in queues {
            let firsts = self.firsts(number, search)?;
            if firsts.iter().any(Option::is_some) {
                open.push(Open { number, weight, order, firsts });
            }
        }
        Ok(open)
    }

    fn firsts(&mut self, queue: u32, search: &mut Search<'_>) -> Result<Firsts, Fault> {
        let mut firsts = Firsts::default();
        for priority in Priority::DESCENDING {
            let first = self.first_of(queue, priority, search)?;
            if let Some(known) = firsts.get_mut(priority.index()) {
                *known = first;
            }
        }
        Ok(firsts)
    }

    /// The front of a queue and priority: the earliest place among the lanes that the worker takes.
    fn first_of(
        &mut self,
        queue: u32,
        priority: Priority,
        search: &mut Search<'_>,
    ) -> Result<Option<Spot>, Fault> {
        self.load_heads(queue, priority)?;
        let key = Key::Heads(queue, priority);
        // Out of the way while lanes are looked at, which changes none of it.
        let Some(heads) = self.heads.remove(&key) else { return Ok(None) };
        // Lanes of which more has to be read to know where they begin.
        let mut unknown = 0;
        let mut best: Option<Spot> = None;
        for (ready_at, lane) in &heads.order {
            let (ready_at, lane) = (Timestamp::from_micros(*ready_at), *lane);
            let later = best.as_ref().is_some_and(|best| ready_at > best.place.ready_at);
            if later || unknown >= LANES_AT_ONCE {
                break;
            }
            if !self.takes(lane, search)? {
                continue;
            }
            let depth = self.front_depth(heads.order.len());
            let front = Key::Lane(lane, priority);
            let First::Is(score, member) = self.first(&front, depth, true) else {
                unknown += usize::from(self.fronts.contains_key(&front));
                continue;
            };
            let place =
                Place { ready_at: Timestamp::from_micros(score), sequence: number(&member) };
            if best.as_ref().is_none_or(|best| place < best.place) {
                best = Some(Spot { place, lane, priority, member });
            }
        }
        if !self.hot.contains(&key) {
            self.hot.insert(key.clone());
        }
        self.heads.insert(key, heads);
        Ok(best)
    }

    fn takes(&mut self, lane: u32, search: &mut Search<'_>) -> Result<bool, Fault> {
        if let Some(takes) = search.takes.get(&lane) {
            return Ok(*takes);
        }
        let takes = search.selection.takes(self.catalog.lane_and_queue(lane)?.0);
        search.takes.insert(lane, takes);
        Ok(takes)
    }

    /// Among the fronts of a queue, the one that comes first. Each front is the oldest of its
    /// base priority, so it has the highest effective priority there.
    fn choose(&mut self, firsts: &Firsts, order: &Order) -> Option<Spot> {
        let first = |priority: Priority| firsts.get(priority.index()).and_then(Option::as_ref);
        match order {
            Order::Weighted(weights) => {
                let drawn = weights.draw(|priority| first(priority).is_some(), self.random)?;
                first(drawn).cloned()
            }
            Order::Aging(_) => {
                let now = self.now;
                let rank = |spot: &&Spot| {
                    let effective = order.effective(spot.priority, spot.place.ready_at, now);
                    (Reverse(effective), spot.place)
                };
                Priority::DESCENDING.into_iter().filter_map(first).min_by_key(rank).cloned()
            }
        }
    }

    /// Gives a worker the task at the front of a lane, if it may have it.
    fn hand_over(
        &mut self,
        request: &ClaimRequest,
        spot: &Spot,
        order: &Order,
    ) -> Result<Handed, Fault> {
        let id = task_id(spot.member.get(8..).unwrap_or_default())?;
        let (worker, now) = (request.worker, self.now);
        let Some(stored) = self.task(id)? else {
            // It goes on elsewhere once it has been read.
            return if self.is_missing() { Ok(Handed::Withheld) } else { Err(missing(id)) };
        };
        if stored.task.is_expired(now) {
            self.expire(id)?;
            return Ok(Handed::Expired);
        }
        let mut task = stored.task.clone();
        // What a failover has forgotten may have been claimed by a clock that was ahead.
        task.fence = task.fence.max(Fence::from_u64(u64::try_from(self.floor).unwrap_or_default()));
        let claim = lifecycle::claim(&task, worker, request.auto_start, order, now, self.random);
        let Ok(claim) = claim else { return Ok(Handed::Withheld) };
        if let Some(promoted) = claim.promoted {
            self.change(id, promoted, None)?;
        }
        self.change(id, claim.claimed, None)?;
        let stored = self.task(id)?.ok_or_else(|| missing(id))?;
        let (task, payload) = (stored.task.clone(), stored.payload.clone());
        let payload = self.payload(id, &payload);
        Ok(Handed::Over(Box::new(Claimed { task, payload, lease: self.rules.lease })))
    }

    fn payload(&mut self, id: TaskId, payload: &Payload) -> Bytes {
        match payload {
            Payload::Inline(bytes) => bytes.clone(),
            Payload::Apart(length) => {
                let read = self.field(&Key::Payload, id.as_bytes());
                // Its length counts towards the bound even before it was read.
                read.unwrap_or_else(|| Bytes::from(vec![0; *length]))
            }
        }
    }

    fn expire(&mut self, id: TaskId) -> Result<(), Fault> {
        let (now, rules) = (self.now, *self.rules);
        let moment = Moment { now, rules: &rules, elapsed: Elapsed::default(), key_free: false };
        let Some(stored) = self.task(id)? else { return Ok(()) };
        let task = stored.task.clone();
        let decision = lifecycle::decide(&task, &Intent::Expire, &moment, self.random);
        if let Ok(Decision::Change(event)) = decision {
            self.change(id, event, None)?;
        }
        Ok(())
    }

    /// Looks behind a task that this worker may not have now.
    fn pass_over(&mut self, queue: u32, spot: &Spot) {
        if let Some(sorted) = self.sorted.get_mut(&Key::Lane(spot.lane, spot.priority)) {
            sorted.remove(spot.place.ready_at.as_micros(), &spot.member);
        }
        self.note_head(queue, spot.lane, spot.priority);
    }

    fn bring_back(&mut self, queue: u32, spot: Spot) {
        let ready_at = spot.place.ready_at.as_micros();
        if let Some(sorted) = self.sorted.get_mut(&Key::Lane(spot.lane, spot.priority)) {
            sorted.insert(ready_at, spot.member);
        }
        if let Some(heads) = self.heads.get_mut(&Key::Heads(queue, spot.priority)) {
            heads.enter(spot.lane, ready_at);
        }
    }
}

fn missing(id: TaskId) -> Fault {
    corrupt(id, "missing, though it is pending")
}

/// The number with which a member of a lane begins.
fn number(member: &Bytes) -> Sequence {
    Sequence(member.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
}
