//! What claims choose from: the pending tasks of queues in the order in which they are claimed, as far
//! as they are read, and whose turn it is.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tasklane_core::{
    Order, Place, Priority, QueueSettings, Rotation, SeededRandom, Selection, TaskId, Timestamp,
    WorkerId,
};

use crate::floor::Floor;

/// A pending task that is locked, as far as choosing needs to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) id: TaskId,
    pub(super) place: Place,
    pub(super) priority: Priority,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) withheld: Option<(WorkerId, Timestamp)>,
    /// Of its payload.
    pub(super) bytes: usize,
}

impl Head {
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// This worker gave it back a moment ago.
    pub(super) fn is_withheld(&self, worker: WorkerId, now: Timestamp) -> bool {
        self.withheld.is_some_and(|(from, until)| from == worker && now < until)
    }
}

/// The pending tasks of a queue in their order, or those of one priority where that is drawn.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) queue: i32,
    pub(super) priority: Option<Priority>,
    pub(super) heads: VecDeque<Head>,
    pub(super) behind: Behind,
    /// The last that was claimed, by priority.
    pub(super) reached: HashMap<Priority, Timestamp>,
}

/// What is behind the tasks that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// At least one, or nothing that would have to be known: there is no other stream.
    More,
    Unknown,
    Nothing,
}

impl Stream {
    fn is_open(&self) -> bool {
        self.behind != Behind::Nothing || !self.heads.is_empty()
    }

    /// Whether it takes part cannot be told.
    pub(super) fn is_unknown(&self) -> bool {
        self.behind == Behind::Unknown && self.heads.is_empty()
    }
}

/// What workers with one selection can have.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) streams: Vec<Stream>,
    pub(super) selection: Selection,
    pub(super) settings: HashMap<i32, QueueSettings>,
    /// Whose turn it is among the queues.
    pub(super) rotation: Rotation<i32>,
    /// For weighted draws: a copy draws the same.
    pub(super) random: SeededRandom,
    /// These lanes and no others.
    pub(super) lanes: Option<Vec<i32>>,
    /// Not to be read again.
    pub(super) seen: Vec<TaskId>,
}

/// Which stream comes next.
pub(super) enum Next {
    Stream(usize),
    /// It has to be found out first which streams have tasks.
    Unknown,
    /// Its tasks have to be read first.
    Unread,
    /// There is nothing left.
    Nothing,
}

impl Streams {
    /// Takes the turn of a queue, and draws where its order says so.
    pub(super) fn next(&mut self) -> Next {
        if self.streams.iter().any(Stream::is_unknown) {
            return Next::Unknown;
        }
        let before = (self.rotation.clone(), self.random.clone());
        let Some(at) = self.pick() else { return Next::Nothing };
        match self.streams.get(at) {
            Some(stream) if stream.heads.is_empty() => {
                (self.rotation, self.random) = before;
                Next::Unread
            }
            _ => Next::Stream(at),
        }
    }

    /// The stream whose turn it is, among those that have tasks as far as is known.
    fn pick(&mut self) -> Option<usize> {
        let weight = |queue: i32| {
            let settings = self.settings.get(&queue).copied().unwrap_or_default();
            (queue, settings.weight)
        };
        let open = self.streams.iter().filter(|stream| stream.is_open());
        let mut candidates: Vec<_> = open.map(|stream| weight(stream.queue)).collect();
        candidates.dedup();
        let queue = self.rotation.pick(&candidates)?;
        let of = |priority: Option<Priority>| {
            let is_it = |stream: &Stream| (stream.queue, stream.priority) == (queue, priority);
            self.streams.iter().position(|stream| is_it(stream) && stream.is_open())
        };
        match self.settings.get(&queue).map(|settings| settings.order) {
            Some(Order::Weighted(weights)) => {
                let there = |priority| of(Some(priority)).is_some();
                weights.draw(there, &mut self.random).and_then(|drawn| of(Some(drawn)))
            }
            _ => of(None),
        }
    }

    /// How many each stream will be asked for, if so many are wanted and all are there.
    pub(super) fn quotas(&mut self, wanted: usize) -> Vec<i32> {
        let before = (self.rotation.clone(), self.random.clone());
        let mut ahead: Vec<usize> = self.streams.iter().map(|stream| stream.heads.len()).collect();
        let mut quotas = vec![0; self.streams.len()];
        for _ in 0..wanted {
            let Some(at) = self.pick() else { break };
            match (ahead.get_mut(at), quotas.get_mut(at)) {
                (Some(ahead), _) if *ahead > 0 => *ahead -= 1,
                (_, Some(quota)) => *quota += 1,
                _ => {}
            }
        }
        (self.rotation, self.random) = before;
        quotas
    }

    /// The first task of a stream that is read.
    pub(super) fn take(&mut self, at: usize) -> Option<Head> {
        self.streams.get_mut(at)?.heads.pop_front()
    }

    /// Puts tasks back that were taken and are for others, in the order in which they were taken.
    pub(super) fn put_back(&mut self, taken: Vec<(usize, Head)>) {
        for (at, head) in taken.into_iter().rev() {
            if let Some(stream) = self.streams.get_mut(at) {
                stream.heads.push_front(head);
            }
        }
    }

    /// Something came in between: what was read and not taken is to be read again.
    pub(super) fn read_anew(&mut self) {
        let is_alone = self.streams.len() == 1;
        for stream in &mut self.streams {
            let read: HashSet<TaskId> = stream.heads.drain(..).map(|head| head.id).collect();
            self.seen.retain(|id| !read.contains(id));
            stream.behind = if is_alone { Behind::More } else { Behind::Unknown };
        }
    }

    /// A task of this stream was claimed.
    pub(super) fn claimed(&mut self, at: usize, head: &Head) {
        if let Some(stream) = self.streams.get_mut(at) {
            let reached = stream.reached.entry(head.priority).or_insert(head.place.ready_at);
            *reached = head.place.ready_at.max(*reached);
        }
    }

    /// What its claims have left nothing before.
    pub(super) fn floors(&self, now: Timestamp) -> Vec<Floor> {
        if self.lanes.is_some() {
            return Vec::new();
        }
        let mut floors = Vec::new();
        for stream in &self.streams {
            for priority in Priority::DESCENDING {
                let of_it = stream.priority.is_none_or(|only| only == priority);
                let reached = stream.reached.get(&priority).copied();
                // All of it was read: what comes now is later.
                let reached = if stream.behind == Behind::Nothing { Some(now) } else { reached };
                let left = stream.heads.iter().filter(|head| head.priority == priority);
                let left = left.map(|head| head.place.ready_at).min();
                if let Some(reached) = reached.filter(|_| of_it) {
                    // A clock may have gone back meanwhile: tasks still come from now on.
                    let at = left.map_or(reached, |left| left.min(reached)).min(now);
                    floors.push(Floor::below(stream.queue, priority, at));
                }
            }
        }
        floors
    }
}
