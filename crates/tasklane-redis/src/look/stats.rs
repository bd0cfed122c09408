//! Counters.

use hashbrown::HashMap;
use tasklane_core::{Priority, StateName, Timestamp};
use tasklane_store::{LaneStats, QueueState, Stats};

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::value;

type Counted = HashMap<(u32, Priority), [u64; StateName::COUNT]>;

impl Shared {
    pub(crate) async fn stats(&self) -> Result<Stats, Fault> {
        let counts = Read::plain("HGETALL", Key::Counts, []);
        let mut catalog = self.catalog();
        let snapshot = loop {
            let reads = heads(&catalog).map(|(_, read)| read).chain([counts.clone()]);
            let (snapshot, later) = self.look(reads.collect()).await?;
            let same = later.queues_version() == catalog.queues_version();
            catalog = later;
            // Of a queue that was not known yet, nothing was asked.
            if same {
                break snapshot;
            }
        };
        let firsts = firsts(&snapshot, &catalog)?;
        let mut counted: Vec<_> = count(snapshot.plain(&counts).cloned())?.into_iter().collect();
        counted.sort_unstable_by_key(|(lane, _)| *lane);
        let mut lanes = Vec::new();
        for ((number, priority), counts) in counted {
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            let (lane, queue) = catalog.lane_and_queue(number)?;
            let first = firsts.get(&(number, priority)).copied();
            // What came in after the places were looked up.
            let pending = counts.get(StateName::Pending.index()).is_some_and(|count| *count > 0);
            let oldest_ready_at = first.filter(|_| pending);
            let stats =
                LaneStats { lane: lane.clone(), priority, counts, oldest_ready_at, starving: 0 };
            lanes.push((number, queue, stats));
        }
        self.count_starving(&catalog, snapshot.now, &mut lanes).await?;
        let lanes = lanes.into_iter().map(|(_, _, stats)| stats).collect();
        Ok(Stats { now: snapshot.now, lanes })
    }

    /// Only lanes whose first has waited for long are asked.
    async fn count_starving(
        &self,
        catalog: &Catalog,
        now: Timestamp,
        lanes: &mut [(u32, u32, LaneStats)],
    ) -> Result<(), Fault> {
        let read = |number: u32, queue: u32, stats: &LaneStats| {
            let (_, settings) = catalog.queue(queue)?;
            let before = now.minus(settings.order.starves_after(stats.priority)?);
            stats.oldest_ready_at.filter(|first| *first < before)?;
            let max = format!("({}", before.as_micros());
            let key = Key::Lane(number, stats.priority);
            Some(Read::plain("ZCOUNT", key, ["-inf", &max]))
        };
        let reads: Vec<_> = lanes
            .iter()
            .filter_map(|(number, queue, stats)| read(*number, *queue, stats))
            .collect();
        if reads.is_empty() {
            return Ok(());
        }
        let (snapshot, _) = self.look(reads).await?;
        for (number, queue, stats) in lanes {
            let answer =
                read(*number, *queue, stats).and_then(|read| snapshot.plain(&read).cloned());
            stats.starving = value::integer(answer.unwrap_or_default())?.unsigned_abs();
        }
        Ok(())
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueState>, Fault> {
        let depth = Read::plain("HGETALL", Key::Depth, []);
        let (snapshot, catalog) = self.look(vec![depth.clone()]).await?;
        let mut depths = HashMap::new();
        for (queue, depth) in value::pairs(snapshot.plain(&depth).cloned().unwrap_or_default())? {
            depths.insert(value::number(&queue)?, value::number(&depth)?);
        }
        let state = |(number, queue, settings): (u32, &tasklane_core::QueueName, &_)| QueueState {
            queue: queue.clone(),
            settings: *settings,
            depth: depths.get(&i64::from(number)).map_or(0, |depth| depth.unsigned_abs()),
        };
        Ok(catalog.queues().map(state).collect())
    }
}

fn heads(catalog: &Catalog) -> impl Iterator<Item = (Priority, Read)> {
    catalog.queues().flat_map(|(queue, _, _)| {
        Priority::DESCENDING.into_iter().map(move |priority| {
            let key = Key::Heads(queue, priority);
            (priority, Read::plain("ZRANGE", key, ["0", "-1", "WITHSCORES"]))
        })
    })
}

/// Where each lane begins.
fn firsts(
    snapshot: &Snapshot,
    catalog: &Catalog,
) -> Result<HashMap<(u32, Priority), Timestamp>, Fault> {
    let mut firsts = HashMap::new();
    for (priority, read) in heads(catalog) {
        for (at, lane) in value::scored(snapshot.plain(&read).cloned().unwrap_or_default())? {
            let lane = u32::try_from(value::number(&lane)?).unwrap_or(u32::MAX);
            firsts.insert((lane, priority), Timestamp::from_micros(at));
        }
    }
    Ok(firsts)
}

/// Counters by lane, priority and state.
pub(super) fn count(answer: Option<redis::Value>) -> Result<Counted, Fault> {
    let odd = || Fault::Corrupt("a counter has an odd name".into());
    let mut counted = Counted::new();
    for (field, sum) in value::pairs(answer.unwrap_or_default())? {
        let text = std::str::from_utf8(&field).map_err(|_| odd())?;
        let mut parts = text.split(':').map(str::parse::<u32>);
        let (Some(Ok(lane)), Some(Ok(priority)), Some(Ok(state))) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(odd());
        };
        let priority = Priority::from_number(priority.into()).map_err(|_| odd())?;
        let counts = counted.entry((lane, priority)).or_default();
        let count = counts.get_mut(state as usize).ok_or_else(odd)?;
        *count = u64::try_from(value::number(&sum)?)
            .map_err(|_| Fault::Corrupt(format!("the counter {text} is below zero")))?;
    }
    Ok(counted)
}
