//! Where claims look: the pending tasks of a queue in the order in which they are claimed, locked as
//! they are read. No more are locked than are wanted, as far as that is known before.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tasklane_core::{
    Order, Place, Priority, QueueSettings, Rotation, SeededRandom, Selection, Sequence, TaskId,
    Timestamp, WorkerId, limits,
};
use tasklane_store::codec;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::{Home, LeaseRow};
use crate::fault::Fault;
use crate::floor::Floor;
use crate::rows::{self, time, worker_id};

/// Lanes that are looked at one by one; of more, those that have tasks are found first.
const LANES_AT_ONCE: usize = 64;

/// The lanes that have pending tasks, by steps down the index.
pub(crate) const FRONTS: &str = "
    WITH RECURSIVE front AS (
        (SELECT queue, priority, lane FROM pend ORDER BY queue, priority, lane LIMIT 1)
        UNION ALL
        SELECT next.* FROM front CROSS JOIN LATERAL (
            SELECT p.queue, p.priority, p.lane FROM pend p
            WHERE (p.queue, p.priority, p.lane) > (front.queue, front.priority, front.lane)
            ORDER BY p.queue, p.priority, p.lane LIMIT 1
        ) AS next
    )
    SELECT queue, priority, lane FROM front";

/// A pending task that is locked, as far as choosing needs to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) id: TaskId,
    pub(super) place: Place,
    pub(super) priority: Priority,
    expires_at: Option<Timestamp>,
    withheld: Option<(WorkerId, Timestamp)>,
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
struct Stream {
    queue: i32,
    priority: Option<Priority>,
    heads: VecDeque<Head>,
    behind: Behind,
    /// The last that was claimed, by priority.
    reached: HashMap<Priority, Timestamp>,
}

/// What is behind the tasks that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
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
    fn is_unknown(&self) -> bool {
        self.behind == Behind::Unknown && self.heads.is_empty()
    }
}

/// What workers with one selection can have.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    selection: Selection,
    pub(super) settings: HashMap<i32, QueueSettings>,
    /// Whose turn it is among the queues.
    pub(super) rotation: Rotation<i32>,
    /// For weighted draws: a copy draws the same.
    random: SeededRandom,
    /// These lanes and no others.
    lanes: Option<Vec<i32>>,
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
    fn quotas(&mut self, wanted: usize) -> Vec<i32> {
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

/// The ranges of places that a look asks for, as columns.
#[derive(Default)]
struct Ranges {
    streams: Vec<i32>,
    bands: Vec<i32>,
    queues: Vec<i32>,
    priorities: Vec<i16>,
    afters: Vec<i64>,
    untils: Vec<i64>,
    floors: Vec<i64>,
}

impl Session<'_> {
    /// What workers with a selection may find: the queues that are open to them and not empty.
    pub(super) async fn streams(
        &mut self,
        selection: &Selection,
        settings: &HashMap<i32, QueueSettings>,
    ) -> Result<Streams, Fault> {
        let shares = self.shared.takers.of(selection, &self.shared.lanes);
        let is_open = |queue: &i32| settings.get(queue).is_some_and(|settings| !settings.paused);
        let open = || shares.0.iter().filter(|(queue, _)| is_open(queue));
        let mut queues: Vec<i32> = open().map(|(queue, _)| *queue).collect();
        let takes_all = open().all(|(_, share)| share.all);
        let mut taken: Vec<i32> = match takes_all {
            true => Vec::new(),
            false => open().flat_map(|(_, share)| share.lanes.iter().copied()).collect(),
        };
        queues.sort_unstable();
        if taken.len() > LANES_AT_ONCE {
            taken = self.fronts(&taken).await?;
        }
        let mut streams = Vec::new();
        for queue in queues {
            let order = settings.get(&queue).map(|settings| settings.order).unwrap_or_default();
            let parts = match order {
                Order::Aging(_) => vec![None],
                Order::Weighted(_) => Priority::DESCENDING.map(Some).to_vec(),
            };
            streams.extend(parts.into_iter().map(|priority| Stream {
                queue,
                priority,
                heads: VecDeque::new(),
                behind: Behind::Unknown,
                reached: HashMap::new(),
            }));
        }
        if let [only] = &mut streams[..] {
            only.behind = Behind::More;
        }
        let random = SeededRandom::new(tasklane_core::Random::next_u64(&mut self.random()));
        let rotation = self.outcome.rotation.clone().unwrap_or_else(|| self.shared.rotation());
        let (settings, lanes) = (settings.clone(), (!takes_all).then_some(taken));
        let selection = selection.clone();
        Ok(Streams { streams, selection, settings, rotation, random, lanes, seen: Vec::new() })
    }

    /// Finds out which streams have tasks, of those of which it is not known.
    pub(super) async fn look_behind(&mut self, streams: &mut Streams) -> Result<(), Fault> {
        let asked: Vec<i32> =
            streams.streams.iter().map(|stream| i32::from(stream.is_unknown())).collect();
        let ranges = self.ranges(streams, &asked);
        let beside = rows::uuids(&streams.seen);
        let sql = "SELECT * FROM more($1, $2, $3, $4, $5, $6, $7, $8)";
        let parameters = [
            (&ranges.streams as _, Type::INT4_ARRAY),
            (&ranges.queues as _, Type::INT4_ARRAY),
            (&ranges.priorities as _, Type::INT2_ARRAY),
            (&ranges.afters as _, Type::INT8_ARRAY),
            (&ranges.untils as _, Type::INT8_ARRAY),
            (&ranges.floors as _, Type::INT8_ARRAY),
            (&streams.lanes as _, Type::INT4_ARRAY),
            (&beside as _, Type::UUID_ARRAY),
        ];
        let found = self.transaction.query(sql, &parameters).await?;
        let there: HashSet<i32> = found.iter().map(|row| row.get(0)).collect();
        for (number, stream) in (1..).zip(&mut streams.streams) {
            if stream.is_unknown() {
                let more = there.contains(&number);
                stream.behind = if more { Behind::More } else { Behind::Nothing };
            }
        }
        Ok(())
    }

    /// Those of these lanes that have tasks.
    async fn fronts(&self, lanes: &[i32]) -> Result<Vec<i32>, Fault> {
        let wanted: HashSet<i32> = lanes.iter().copied().collect();
        let found = self.transaction.query(FRONTS, &[]).await?;
        let mut there: Vec<i32> =
            found.iter().map(|row| row.get(2)).filter(|lane| wanted.contains(lane)).collect();
        there.sort_unstable();
        there.dedup();
        Ok(there)
    }

    /// Reads and locks what comes next, so many as are wanted beyond what is read already.
    pub(super) async fn read_streams(
        &mut self,
        streams: &mut Streams,
        wanted: usize,
    ) -> Result<(), Fault> {
        let quotas = streams.quotas(wanted.min(limits::CLAIM_TASKS_MAX));
        let ranges = self.ranges(streams, &quotas);
        let beside = rows::uuids(&streams.seen);
        let sql = "SELECT * FROM heads($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let parameters = [
            (&ranges.streams as _, Type::INT4_ARRAY),
            (&ranges.bands as _, Type::INT4_ARRAY),
            (&ranges.queues as _, Type::INT4_ARRAY),
            (&ranges.priorities as _, Type::INT2_ARRAY),
            (&ranges.afters as _, Type::INT8_ARRAY),
            (&ranges.untils as _, Type::INT8_ARRAY),
            (&ranges.floors as _, Type::INT8_ARRAY),
            (&quotas as _, Type::INT4_ARRAY),
            (&streams.lanes as _, Type::INT4_ARRAY),
            (&beside as _, Type::UUID_ARRAY),
        ];
        self.numbers.lock();
        let mut found = self.transaction.query(sql, &parameters).await?;
        if let Some(drawn) = found.pop() {
            self.numbers.draw(drawn.get(5));
        }
        self.shared.lanes.meet(self.transaction, found.iter().map(|row| row.get(2))).await?;
        // One that was made since is not for everybody: another attempt knows it.
        let strange =
            |lane| self.lane(lane).is_none_or(|known| !streams.selection.takes(&known.lane));
        if found.iter().any(|row| strange(row.get(2))) {
            return Err(Fault::Overtaken);
        }
        let mut read = vec![0; quotas.len()];
        for row in &found {
            let at = (row.get::<_, i32>(0) - 1) as usize;
            if let Some(read) = read.get_mut(at) {
                *read += 1;
            }
            let withheld: (Option<Uuid>, Option<i64>) = (row.get(7), row.get(8));
            let sequence = Sequence(row.get::<_, i64>(5).unsigned_abs());
            let head = Head {
                id: rows::task_id(row.get(1))?,
                place: Place { ready_at: time(row.get(4)), sequence },
                priority: rows::priority(row.get(3))?,
                expires_at: row.get::<_, Option<i64>>(6).map(time),
                withheld: withheld.0.map(worker_id).zip(withheld.1.map(time)),
                bytes: usize::try_from(row.get::<_, i32>(9)).unwrap_or_default(),
            };
            streams.seen.push(head.id);
            self.take_head(row)?;
            if let Some(stream) = streams.streams.get_mut(at) {
                stream.heads.push_back(head);
            }
        }
        let is_alone = streams.streams.len() == 1;
        for (stream, (read, quota)) in streams.streams.iter_mut().zip(read.iter().zip(&quotas)) {
            stream.behind = match stream.behind {
                behind if *quota == 0 => behind,
                // What others hold does not count.
                _ if read < quota => Behind::Nothing,
                _ if is_alone => Behind::More,
                _ => Behind::Unknown,
            };
        }
        Ok(())
    }

    fn take_head(&mut self, row: &tokio_postgres::Row) -> Result<(), Fault> {
        let (id, lane): (Uuid, i32) = (row.get(1), row.get(2));
        let payload = row.get::<_, Option<&[u8]>>(12).map(bytes::Bytes::copy_from_slice);
        self.take(id, lane, row.get(9), row.get(10), Home::Pend, row.get(11), LeaseRow::default())?;
        if let Some(subject) = self.work.get_mut(&rows::task_id(id)?) {
            subject.payload = payload;
        }
        Ok(())
    }

    /// Where the tasks of each stream are, in their order; only of those that are asked for any.
    fn ranges(&self, streams: &Streams, quotas: &[i32]) -> Ranges {
        let mut ranges = Ranges::default();
        for (at, (stream, quota)) in streams.streams.iter().zip(quotas).enumerate() {
            if *quota == 0 {
                continue;
            }
            let order =
                streams.settings.get(&stream.queue).map(|known| known.order).unwrap_or_default();
            let mut add =
                |band: usize, base: Priority, after: Option<Timestamp>, until: Timestamp| {
                    ranges.streams.push(at as i32 + 1);
                    ranges.bands.push(band as i32);
                    ranges.queues.push(stream.queue);
                    ranges.priorities.push(base.number().into());
                    ranges.afters.push(after.map_or(i64::MIN + 1, Timestamp::as_micros));
                    ranges.untils.push(until.as_micros());
                    ranges.floors.push(self.shared.floors.of(stream.queue, base));
                };
            match (order, stream.priority) {
                (Order::Aging(aging), _) => {
                    for (number, band) in aging.bands(self.now).into_iter().enumerate() {
                        for range in band.ranges.into_iter().flatten() {
                            add(number, range.base, range.after, range.until);
                        }
                    }
                }
                (_, base) => add(0, base.unwrap_or_default(), None, Timestamp::MAX),
            }
        }
        ranges
    }

    /// How queues are to be served, as it is now; and makes sure that their lanes are known.
    pub(super) async fn queue_settings(&self) -> Result<HashMap<i32, QueueSettings>, Fault> {
        let mut settings = HashMap::new();
        for row in self.transaction.query("SELECT * FROM served()", &[]).await? {
            match row.get::<_, Option<&[u8]>>(1) {
                Some(packed) => {
                    settings.insert(row.get(0), codec::decode_queue(packed)?);
                }
                None => {
                    let last: Option<i32> = row.get(0);
                    if last.is_some_and(|last| self.shared.lanes.get(last).is_none()) {
                        self.shared.lanes.meet_all(self.transaction).await?;
                    }
                }
            }
        }
        Ok(settings)
    }
}
