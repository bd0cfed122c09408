//! Lanes and queues by number. They are never removed, so what was once committed stays true.

use std::sync::{PoisonError, RwLock};

use hashbrown::HashMap;
use tasklane_core::{Lane, QueueName};
use tasklane_store::codec::{self, LaneNumbers};
use tokio_postgres::types::Type;

use crate::connection::Transaction;
use crate::fault::Fault;

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
#[derive(Default)]
pub(crate) struct Lanes(RwLock<Maps>);

impl Lanes {
    pub(crate) fn find(&self, lane: &Lane) -> Option<Known> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        maps.by_lane.get(lane).and_then(|number| maps.by_number.get(number)).cloned()
    }

    pub(crate) fn get(&self, number: i32) -> Option<Known> {
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        maps.by_number.get(&number).cloned()
    }

    /// Remembers a lane that is committed.
    pub(crate) fn add(&self, known: Known) {
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        maps.by_lane.insert(known.lane.clone(), known.number);
        maps.by_number.insert(known.number, known);
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
            self.add(Known { number: row.get(0), queue: row.get(1), lane });
        }
        Ok(())
    }

    /// Makes sure that every lane of the database is known.
    pub(crate) async fn meet_all(&self, transaction: &Transaction) -> Result<(), Fault> {
        for row in transaction.query("SELECT lane, queue, name FROM lane", &[]).await? {
            let lane = codec::decode_lane(row.get(2))?;
            self.add(Known { number: row.get(0), queue: row.get(1), lane });
        }
        Ok(())
    }
}

impl LaneNumbers for Lanes {
    fn lane(&self, number: u64) -> Option<Lane> {
        self.get(i32::try_from(number).ok()?).map(|known| known.lane)
    }
}

/// A queue that a name in the database means.
pub(crate) fn queue_name(text: &str) -> Result<QueueName, Fault> {
    QueueName::new(text).map_err(|error| Fault::Corrupt(format!("queue {text}: {error}")))
}
