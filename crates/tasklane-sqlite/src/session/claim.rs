//! Handing tasks to workers, in the order of S8.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::params;
use tasklane_core::lifecycle::{self, Decision, Elapsed, Moment};
use tasklane_core::{
    Intent, Order, Place, Priority, Task, TaskId, Weight, WorkerId, WorkerState, limits,
};
use tasklane_store::{ClaimRequest, Claimed, StoreError, WorkerRefusal, codec};

use super::Session;
use super::change::Subject;
use crate::board::{Head, Line, QueueSlot, lane_and_priority, line_number};
use crate::fault::Fault;
use crate::rows;

/// A claim that came up short compares the lines with the index at most this often.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Lines compared in one go.
const PROBE_LINES: usize = 1_000;

/// Where the next task of a queue waits.
#[derive(Debug, Clone, Copy)]
struct Spot {
    lane: u32,
    priority: Priority,
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
        let Some(worker) = self.hear(request.worker) else {
            return Ok(Err(WorkerRefusal::Gone));
        };
        if worker.state != WorkerState::Active {
            return Ok(Ok(Vec::new()));
        }
        let wanted = request.count.min(worker.free()).min(limits::CLAIM_TASKS_MAX);
        if wanted == 0 {
            return Ok(Ok(Vec::new()));
        }
        let mut claimed = self.take(request, wanted, bytes)?;
        let is_full = !claimed.is_empty() && *bytes >= limits::CLAIM_BYTES_MAX;
        if claimed.len() < wanted && !is_full && self.probe()? {
            claimed.extend(self.take(request, wanted - claimed.len(), bytes)?);
        }
        Ok(Ok(claimed))
    }

    fn take(
        &mut self,
        request: &ClaimRequest,
        wanted: usize,
        bytes: &mut usize,
    ) -> Result<Vec<Claimed>, Fault> {
        let narrowed = request.narrowed.as_ref();
        let takes = self.board.lend_lanes(request.worker, narrowed);
        let mut claimed = Vec::with_capacity(wanted);
        let mut touched = Vec::new();
        let mut set_aside = Vec::new();
        let mut open = self.open_queues(&takes);
        // Tasks passed because they are too late or withheld: a slice of them and no more (S21).
        let mut passed = 0;
        while claimed.len() < wanted && passed < limits::SLICE_TASKS {
            let Some(number) = self.board.rotation.pick(&open.shares) else { break };
            let Some(order) = open.order(number) else { break };
            let Some(Spot { lane, priority }) = self.choose(&open.firsts(number), &order) else {
                break;
            };
            let (head, starved) = self.board.with_line(lane, priority, Line::take)?;
            if starved {
                self.refill(lane, priority)?;
            }
            let Some(head) = head else { break };
            if touched.last() != Some(&(lane, priority)) {
                touched.push((lane, priority));
            }
            match self.hand_over(request, head, &order)? {
                Handed::Over(task, payload) => {
                    // Came in with this very write: nobody need be told of it.
                    if head.place.sequence >= self.feed.first {
                        self.claimable = self.claimable.saturating_sub(1);
                    }
                    *bytes += payload.len();
                    claimed.push(Claimed { task: *task, payload, lease: self.rules.lease });
                }
                Handed::Withheld => {
                    set_aside.push((lane, priority, head));
                    passed += 1;
                }
                Handed::Expired => {
                    passed += 1;
                    // Its end may have let a task of any priority into a line.
                    open.update(number, firsts(self.board.queue(number)?, &takes));
                }
            }
            let first = first(self.board.queue(number)?, &takes, priority);
            open.update_one(number, priority, first);
            if !claimed.is_empty() && *bytes >= limits::CLAIM_BYTES_MAX {
                break;
            }
        }
        for (lane, priority, head) in set_aside {
            self.board.with_line(lane, priority, |line| line.put_back(head))?;
        }
        touched.sort_unstable();
        touched.dedup();
        for (lane, priority) in touched {
            self.end_claim(lane, priority)?;
        }
        self.board.return_lanes(request.worker, takes, narrowed.is_some());
        Ok(claimed)
    }

    /// Removes from the index what was taken from a line: as one range where nothing in it stays.
    fn end_claim(&mut self, lane: u32, priority: Priority) -> Result<(), Fault> {
        let ((mut taken, whole), _) = self.board.with_line(lane, priority, Line::end_claim)?;
        taken.retain(|head| !self.arrivals.remove(head.key));
        let Some(last) = taken.iter().map(|head| head.place).max() else { return Ok(()) };
        if whole {
            let (line, at) = (line_number(lane, priority), last.ready_at.as_micros());
            let range = params![line, at, last.sequence.0];
            let removed = self.sql.delete_pending_range.execute(range)?;
            // The board is a hint. Were it wrong, this would remove tasks that nobody took: rather
            // give up the transaction, which makes the board anew.
            if removed != taken.len() {
                let text = "the order of pending tasks was out of step; try again";
                return Err(StoreError::Unavailable(text.into()).into());
            }
            return Ok(());
        }
        for head in taken {
            self.delete_pending(lane, priority, head.place)?;
        }
        Ok(())
    }

    /// The queues that have something for a worker that takes these lanes.
    fn open_queues(&self, takes: &[bool]) -> OpenQueues {
        let mut open = OpenQueues::default();
        for (number, queue) in self.board.queues().filter(|(_, queue)| !queue.settings.paused) {
            let firsts = firsts(queue, takes);
            if firsts.iter().any(Option::is_some) {
                open.shares.push((number, queue.settings.weight));
                open.queues.push((firsts, queue.settings.order));
            }
        }
        open
    }

    /// Among the fronts of a queue, the one that comes first. Each front is the oldest of its
    /// base priority, so it has the highest effective priority there.
    fn choose(&mut self, firsts: &Firsts, order: &Order) -> Option<Spot> {
        let first = |priority: Priority| firsts.get(priority.index()).copied().flatten();
        let priority = match order {
            Order::Weighted(weights) => {
                weights.draw(|priority| first(priority).is_some(), &mut self.random)?
            }
            Order::Aging(_) => {
                let waiting = Priority::DESCENDING.into_iter().filter_map(|priority| {
                    let (place, _) = first(priority)?;
                    let effective = order.effective(priority, place.ready_at, self.now);
                    Some((std::cmp::Reverse(effective), place, priority))
                });
                waiting.min_by_key(|(effective, place, _)| (*effective, *place))?.2
            }
        };
        first(priority).map(|(_, lane)| Spot { lane, priority })
    }

    /// Gives a worker the task at the front of a line, if it may have it.
    fn hand_over(
        &mut self,
        request: &ClaimRequest,
        head: Head,
        order: &Order,
    ) -> Result<Handed, Fault> {
        let (lane, task, payload) = self.load_head(head)?;
        let subject = Subject::new(head.key, lane, Box::new(task), head.fresh);
        let mut subject = Subject { claimed: true, ..subject };
        if subject.task.is_expired(self.now) {
            self.expire(subject)?;
            return Ok(Handed::Expired);
        }
        let (worker, now) = (request.worker, self.now);
        let claim = lifecycle::claim(
            &subject.task,
            worker,
            request.auto_start,
            order,
            now,
            &mut self.random,
        );
        let Ok(claim) = claim else { return Ok(Handed::Withheld) };
        if let Some(promoted) = claim.promoted {
            subject = self.change(subject, promoted, None)?;
        }
        let subject = self.change(subject, claim.claimed, None)?;
        Ok(Handed::Over(subject.task, payload))
    }

    fn expire(&mut self, subject: Subject) -> Result<(), Fault> {
        let moment = Moment {
            now: self.now,
            rules: &self.rules,
            elapsed: Elapsed::default(),
            key_free: false,
        };
        let decision = lifecycle::decide(&subject.task, &Intent::Expire, &moment, &mut self.random);
        if let Ok(Decision::Change(event)) = decision {
            self.change(subject, event, None)?;
        }
        Ok(())
    }

    fn load_head(&mut self, head: Head) -> Result<(u32, Task, Bytes), Fault> {
        let missing = || rows::corrupt(head.key, "missing, though it is pending");
        let (lane, admitted, payload) = {
            let mut found = self.sql.select_task.query([head.key])?;
            let row = found.next()?.ok_or_else(missing)?;
            let id = TaskId::from_bytes(row.get(0)?)
                .map_err(|_| rows::corrupt(head.key, "not an id"))?;
            let number = row.get(1)?;
            let lane = self.board.lane(number)?.lane.clone();
            let stored = codec::decode_spec(rows::blob(row, 2)?, lane)?;
            let payload = Bytes::copy_from_slice(rows::blob(row, 3)?);
            (number, Task::admitted(id, stored.spec, stored.admission), payload)
        };
        if head.fresh {
            return Ok((lane, admitted, payload));
        }
        let mut found = self.sql.select_standing.query([head.key])?;
        let row = found.next()?.ok_or_else(missing)?;
        Ok((lane, codec::decode_record(rows::blob(row, 0)?, admitted)?, payload))
    }

    /// Notes a sign of life of a worker that is known and not dead.
    pub(super) fn hear(&mut self, worker: WorkerId) -> Option<&mut crate::board::WorkerSlot> {
        let (now, tick) = (self.now, self.tick);
        let slot = self.board.workers.get_mut(&worker)?;
        if slot.state == WorkerState::Dead {
            return None;
        }
        (slot.seen_at, slot.seen) = (now, tick);
        Some(slot)
    }

    /// Compares the lines with the index, and mends those that are wrong. The board is a hint:
    /// were it ever wrong, no task may be stranded by it for longer than a second.
    fn probe(&mut self) -> Result<bool, Fault> {
        if self.tick.saturating_sub(self.probed) < PROBE_EVERY && self.probed != Duration::ZERO {
            return Ok(false);
        }
        self.probed = self.tick.max(Duration::from_nanos(1));
        self.index_arrivals()?;
        let mut mended = false;
        for _ in 0..PROBE_LINES {
            // The next line that has a row, found by one step down the index.
            let sql = "SELECT min(line) FROM pending WHERE line > ?";
            let mut statement = self.connection.prepare_cached(sql)?;
            let line: Option<i64> = statement.query_row([self.probed_to], |row| row.get(0))?;
            self.probed_to = line.unwrap_or(-1);
            let Some(line) = line else { break };
            let (lane, priority) = lane_and_priority(line);
            mended |= self.mend(lane, priority)?;
        }
        Ok(mended)
    }

    fn mend(&mut self, lane: u32, priority: u64) -> Result<bool, Fault> {
        let priority = Priority::from_number(priority)
            .map_err(|e| Fault::Corrupt(format!("pending row of lane {lane}: {e}")))?;
        let front = self.board.lane(lane)?.lines.get(priority.index()).and_then(Line::front);
        let stored = self.heads(lane, priority, None, 1)?.first().map(|head| head.place);
        if front == stored {
            return Ok(false);
        }
        self.board.with_line(lane, priority, Line::mark_unknown)?;
        self.refill(lane, priority)?;
        Ok(true)
    }
}

type Firsts = [Option<(Place, u32)>; Priority::COUNT];

fn firsts(queue: &QueueSlot, takes: &[bool]) -> Firsts {
    let mut firsts = Firsts::default();
    for priority in Priority::DESCENDING {
        if let Some(known) = firsts.get_mut(priority.index()) {
            *known = first(queue, takes, priority);
        }
    }
    firsts
}

fn first(queue: &QueueSlot, takes: &[bool], priority: Priority) -> Option<(Place, u32)> {
    queue.first(priority, |lane| takes.get(lane as usize).copied().unwrap_or(false))
}

/// Queues that can be served by the claim that is running. Only the one that was just served can
/// change, so the others are looked at once per claim, not once per task.
#[derive(Default)]
struct OpenQueues {
    /// Number and weight; in step with `queues`.
    shares: Vec<(u32, Weight)>,
    queues: Vec<(Firsts, Order)>,
}

impl OpenQueues {
    fn position(&self, number: u32) -> Option<usize> {
        self.shares.binary_search_by_key(&number, |(known, _)| *known).ok()
    }

    fn order(&self, number: u32) -> Option<Order> {
        self.queues.get(self.position(number)?).map(|(_, order)| *order)
    }

    fn firsts(&self, number: u32) -> Firsts {
        let queue = self.position(number).and_then(|at| self.queues.get(at));
        queue.map(|(firsts, _)| *firsts).unwrap_or_default()
    }

    fn update_one(&mut self, number: u32, priority: Priority, first: Option<(Place, u32)>) {
        let mut firsts = self.firsts(number);
        if let Some(known) = firsts.get_mut(priority.index()) {
            *known = first;
        }
        self.update(number, firsts);
    }

    fn update(&mut self, number: u32, firsts: Firsts) {
        let Some(at) = self.position(number) else { return };
        if firsts.iter().all(Option::is_none) {
            self.shares.remove(at);
            self.queues.remove(at);
        } else if let Some((known, _)) = self.queues.get_mut(at) {
            *known = firsts;
        }
    }
}

/// What came of handing over a task.
enum Handed {
    Over(Box<Task>, Bytes),
    /// It was released by this worker a moment ago.
    Withheld,
    /// It was too late for it.
    Expired,
}
