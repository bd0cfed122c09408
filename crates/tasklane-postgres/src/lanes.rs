//! Lanes and queues by number. They are never removed, so what was once committed stays true as long as
//! the database has its timeline.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hashbrown::HashMap;
use tasklane_core::{Lane, QueueName, Selection, TaskType};
use tasklane_store::codec::{self, LaneNumbers};
use tokio_postgres::types::Type;

use crate::connection::Transaction;
use crate::fault::Fault;
use crate::timeline::Timeline;

/// A lane with its numbers.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) number: i32,
    pub(crate) queue: i32,
    pub(crate) lane: Lane,
}

#[derive(Default)]
struct Maps {
    by_number: HashMap<i32, Known>,
    by_lane: HashMap<Lane, i32>,
}

/// The lanes that this server has met.
pub(crate) struct Lanes {
    maps: RwLock<Maps>,
    timeline: Arc<Timeline>,
}

impl Lanes {
    pub(crate) fn new(timeline: Arc<Timeline>) -> Self {
        Self { maps: RwLock::default(), timeline }
    }

    pub(crate) fn find(&self, lane: &Lane) -> Option<Known> {
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner);
        maps.by_lane.get(lane).and_then(|number| maps.by_number.get(number)).cloned()
    }

    pub(crate) fn get(&self, number: i32) -> Option<Known> {
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner);
        maps.by_number.get(&number).cloned()
    }

    /// Remembers a lane that is committed on a timeline.
    pub(crate) fn add(&self, timeline: Option<u32>, known: Known) {
        self.timeline.remember(timeline, || {
            let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
            maps.by_lane.insert(known.lane.clone(), known.number);
            maps.by_number.insert(known.number, known);
        });
    }

    pub(crate) fn forget(&self) {
        *self.maps.write().unwrap_or_else(PoisonError::into_inner) = Maps::default();
    }

    /// Makes sure that these numbers are known.
    pub(crate) async fn meet(
        &self,
        transaction: &Transaction,
        numbers: impl IntoIterator<Item = i32>,
    ) -> Result<(), Fault> {
        let mut unknown: Vec<i32> =
            numbers.into_iter().filter(|number| self.get(*number).is_none()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        let sql = "SELECT lane, queue, name FROM lane WHERE lane = ANY($1)";
        for row in transaction.query(sql, &[(&unknown, Type::INT4_ARRAY)]).await? {
            let lane = codec::decode_lane(row.get(2))?;
            let known = Known { number: row.get(0), queue: row.get(1), lane };
            self.add(transaction.timeline, known);
        }
        Ok(())
    }

    /// Makes sure that every lane of the database is known.
    pub(crate) async fn meet_all(&self, transaction: &Transaction) -> Result<(), Fault> {
        for row in transaction.query("SELECT lane, queue, name FROM lane", &[]).await? {
            let lane = codec::decode_lane(row.get(2))?;
            let known = Known { number: row.get(0), queue: row.get(1), lane };
            self.add(transaction.timeline, known);
        }
        Ok(())
    }
}

/// What workers with a selection take, by queue: all of its lanes, or these.
#[derive(Debug, Default)]
pub(crate) struct Taken(pub(crate) HashMap<i32, Share>);

#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) all: bool,
    pub(crate) lanes: Vec<i32>,
}

/// What selections take of the lanes that are known: workers ask for the same again and again.
#[derive(Default)]
pub(crate) struct Takers(Mutex<(usize, HashMap<Selection, Arc<Taken>>)>);

impl Takers {
    /// Selections remembered at most.
    const MAX: usize = 256;

    /// There may be as many lanes, and other ones.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (0, HashMap::new());
    }

    pub(crate) fn of(&self, selection: &Selection, lanes: &Lanes) -> Arc<Taken> {
        let maps = lanes.maps.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, takers) = &mut *known;
        // Lanes are never removed: as many are the same ones.
        if *count != maps.by_number.len() || takers.len() >= Self::MAX {
            (*count, *takers) = (maps.by_number.len(), HashMap::new());
        }
        let find = || {
            let mut taken = Taken::default();
            for lane in maps.by_number.values() {
                let share = taken.0.entry(lane.queue);
                let share = share.or_insert_with(|| Share { all: true, lanes: Vec::new() });
                match selection.takes(&lane.lane) {
                    true => share.lanes.push(lane.number),
                    false => share.all = false,
                }
            }
            taken.0.retain(|_, share| !share.lanes.is_empty());
            Arc::new(taken)
        };
        Arc::clone(takers.entry(selection.clone()).or_insert_with(find))
    }
}

impl LaneNumbers for Lanes {
    fn lane(&self, number: u64) -> Option<Lane> {
        self.get(i32::try_from(number).ok()?).map(|known| known.lane)
    }
}

/// The type of what has none that could be used.
pub(crate) fn nameless() -> Result<TaskType, Fault> {
    TaskType::new("nameless").map_err(|error| Fault::Corrupt(error.to_string()))
}

/// A queue that a name in the database means.
pub(crate) fn queue_name(text: &str) -> Result<QueueName, Fault> {
    QueueName::new(text).map_err(|error| Fault::Corrupt(format!("queue {text}: {error}")))
}
