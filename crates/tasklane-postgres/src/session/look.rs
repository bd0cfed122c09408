//! Where claims look: streams are read and locked, no more of them than is wanted, as far as that is
//! known before.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tasklane_core::{
    Order, Place, Priority, QueueSettings, SeededRandom, Selection, Sequence, Timestamp, limits,
};
use tasklane_store::codec;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Session;
use super::change::{Home, LeaseRow};
use super::stream::{Behind, Head, Stream, Streams};
use crate::fault::Fault;
use crate::rows::{self, time, worker_id};

/// Lanes that are looked at one by one; of more, those that have tasks are found first.
const LANES_AT_ONCE: usize = 64;

/// How queues are to be served, and the last lane.
pub(super) const SERVED: &str = "SELECT * FROM served()";

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
    pub(super) async fn queue_settings(&mut self) -> Result<HashMap<i32, QueueSettings>, Fault> {
        let served = match self.served.take() {
            Some(served) => served,
            None => self.transaction.query(SERVED, &[]).await?,
        };
        let mut settings = HashMap::new();
        for row in served {
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
