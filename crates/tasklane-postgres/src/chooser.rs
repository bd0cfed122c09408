//! What is claimed next, among the fronts of lines that were read: core's order, and no statement.

use std::collections::{BTreeMap, VecDeque};

use tasklane_core::{
    Order, Place, Priority, QueueSettings, Rotation, SeededRandom, TaskId, Timestamp, WorkerId,
};

/// A pending task, as far as choosing needs to know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) id: TaskId,
    pub(crate) place: Place,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) withheld: Option<(WorkerId, Timestamp)>,
    /// Of its payload.
    pub(crate) bytes: usize,
}

impl Head {
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// This worker gave it back a moment ago.
    pub(crate) fn is_withheld(&self, worker: WorkerId, now: Timestamp) -> bool {
        self.withheld.is_some_and(|(from, until)| from == worker && now < until)
    }
}

/// The pending tasks of one lane and priority, by place.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) queue: i32,
    pub(crate) priority: Priority,
    pub(crate) lane: i32,
    pub(crate) heads: VecDeque<Head>,
    /// Those behind `heads` are not read yet.
    pub(crate) has_more: bool,
    /// The last that was read.
    pub(crate) read_to: Option<Place>,
}

/// Lines to choose from, and whose turn it is.
#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    pub(crate) now: Timestamp,
    pub(crate) lines: Vec<Line>,
    pub(crate) queues: BTreeMap<i32, QueueSettings>,
    pub(crate) rotation: Rotation<i32>,
    /// For weighted draws: a copy of the chooser draws the same.
    pub(crate) random: SeededRandom,
}

impl Chooser {
    /// A line that must be read further before anything is chosen from those that `takes` names.
    pub(crate) fn starved(&self, takes: impl Fn(i32) -> bool) -> Option<usize> {
        let starved = |line: &Line| line.heads.is_empty() && line.has_more && takes(line.lane);
        self.lines.iter().position(starved)
    }

    /// The line whose first task comes next. Uses up the queue's turn.
    pub(crate) fn pick(&mut self, takes: impl Fn(i32) -> bool) -> Option<usize> {
        // Each queue's first by priority.
        let mut firsts: BTreeMap<i32, [Option<(Place, usize)>; Priority::COUNT]> = BTreeMap::new();
        for (at, line) in self.lines.iter().enumerate() {
            let paused = self.queues.get(&line.queue).is_none_or(|settings| settings.paused);
            let Some(head) = line.heads.front().filter(|_| !paused && takes(line.lane)) else {
                continue;
            };
            let firsts = firsts.entry(line.queue).or_default();
            if let Some(first) = firsts.get_mut(line.priority.index())
                && first.is_none_or(|(place, _)| head.place < place)
            {
                *first = Some((head.place, at));
            }
        }
        let weight = |queue: &i32| {
            let settings = self.queues.get(queue).copied().unwrap_or_default();
            (*queue, settings.weight)
        };
        let candidates: Vec<_> = firsts.keys().map(weight).collect();
        let queue = self.rotation.pick(&candidates)?;
        let firsts = firsts.remove(&queue)?;
        let first = |priority: Priority| firsts.get(priority.index()).copied().flatten();
        let order = self.queues.get(&queue).map(|settings| settings.order).unwrap_or_default();
        let priority = match order {
            Order::Weighted(weights) => {
                weights.draw(|priority| first(priority).is_some(), &mut self.random)?
            }
            // Each is the oldest of its base priority, so it has the highest effective one there.
            Order::Aging(_) => {
                let waiting = Priority::DESCENDING.into_iter().filter_map(|priority| {
                    let (place, _) = first(priority)?;
                    let effective = order.effective(priority, place.ready_at, self.now);
                    Some((std::cmp::Reverse(effective), place, priority))
                });
                waiting.min_by_key(|(effective, place, _)| (*effective, *place))?.2
            }
        };
        first(priority).map(|(_, at)| at)
    }

    pub(crate) fn front(&self, at: usize) -> Option<Head> {
        self.lines.get(at)?.heads.front().copied()
    }

    pub(crate) fn pop(&mut self, at: usize) -> Option<Head> {
        self.lines.get_mut(at)?.heads.pop_front()
    }

    /// Puts a task back in its place, or a new one into it.
    pub(crate) fn put(&mut self, at: usize, head: Head) {
        let Some(line) = self.lines.get_mut(at) else { return };
        let before = line.heads.iter().take_while(|known| known.place < head.place).count();
        line.heads.insert(before, head);
    }

    /// The line of a lane and priority; a new one if there was none.
    pub(crate) fn line(&mut self, queue: i32, lane: i32, priority: Priority) -> usize {
        let is_it = |line: &Line| line.lane == lane && line.priority == priority;
        self.lines.iter().position(is_it).unwrap_or_else(|| {
            let heads = VecDeque::new();
            let line = Line { queue, priority, lane, heads, has_more: false, read_to: None };
            self.lines.push(line);
            self.lines.len() - 1
        })
    }

    /// Forgets a task that somebody else has.
    pub(crate) fn forget(&mut self, id: TaskId) {
        for line in &mut self.lines {
            line.heads.retain(|head| head.id != id);
        }
    }
}
