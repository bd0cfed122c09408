//! What runs inside one transaction: one file per verb.
//!
//! A session holds the tasks that its call is about, locked, and what is to become of them. Core
//! decides on these; [`Session::flush`] writes what has changed, all of a kind in one statement.
//! Events get their numbers there: until then they have provisional ones, above all others.

mod access;
mod change;
mod claim;
mod execute;
mod front;
mod key;
mod load;
mod overdue;
mod prune;
mod queue;
mod renew;
mod request;
mod submit;
mod table;
mod worker;
mod write;

use hashbrown::HashMap;
use tasklane_core::{Random, Rotation, Sequence, Stamp, TaskId, Timestamp};
use tasklane_store::{Subject as Told, codec};
use tokio_postgres::types::Type;

use crate::connection::Transaction;
use crate::fault::Fault;
use crate::lanes::Known;
use crate::store::Shared;
pub(crate) use change::Subject;
pub(crate) use front::FRONTS;
use key::Line;
pub(crate) use overdue::Looked;
pub(crate) use submit::WAITING;

/// Numbers from here on stand for ones that are still to be drawn.
const PROVISIONAL: u64 = 1 << 62;

pub(crate) struct Session<'s> {
    transaction: &'s Transaction,
    shared: &'s Shared,
    /// Wall time of this transaction, by the database's clock.
    now: Timestamp,
    /// Tasks that are locked.
    work: HashMap<TaskId, Subject>,
    /// Those among them that are to be written, in the order in which they changed.
    changed: Vec<TaskId>,
    /// Ordering keys that are locked.
    lines: HashMap<(i32, Box<str>), Line>,
    /// Lanes made by this transaction.
    made: HashMap<i32, Known>,
    /// Numbers given provisionally, and drawn.
    given: u64,
    drawn: Vec<u64>,
    events: Vec<u8>,
    /// Queue, lane, priority, state: by how many.
    counts: HashMap<(i32, i32, u8, u8), i64>,
    outcome: Written,
}

/// What a transaction did, as far as others should know once it is committed.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Events.
    pub(crate) events: u64,
    /// Tasks that became claimable.
    pub(crate) claimable: u64,
    /// Where.
    pub(crate) woken: Woken,
    /// Lanes that are new.
    pub(crate) lanes: Vec<Known>,
    /// Whose turn it is among the queues after its claims.
    pub(crate) rotation: Option<Rotation<i32>>,
}

/// Lanes in which tasks became claimable.
pub(crate) type Woken = tasklane_store::Woken<i32>;

impl<'s> Session<'s> {
    /// Reads the clock.
    pub(crate) async fn open(
        transaction: &'s Transaction,
        shared: &'s Shared,
    ) -> Result<Self, Fault> {
        let now = shared.read_clock(transaction).await?;
        Ok(Self {
            transaction,
            shared,
            now,
            work: HashMap::new(),
            changed: Vec::new(),
            lines: HashMap::new(),
            made: HashMap::new(),
            given: 0,
            drawn: Vec::new(),
            events: Vec::new(),
            counts: HashMap::new(),
            outcome: Written::default(),
        })
    }

    /// Writes all that is left to write. The commit is the caller's.
    pub(crate) async fn finish(mut self) -> Result<Written, Fault> {
        self.flush().await?;
        self.write_counts().await?;
        if self.given > 0 {
            let (at, count) = (self.now.as_micros(), self.given as i32);
            let lanes = match &self.outcome.woken {
                Woken::In(lanes) => Some(lanes),
                Woken::Anywhere => None,
            };
            let sql = "INSERT INTO outbox(at, count, events, origin, claimable, lanes)
                       VALUES ($1, $2, $3, $4, $5, $6)";
            let row = [
                (&at as _, Type::INT8),
                (&count as _, Type::INT4),
                (&self.events as _, Type::BYTEA),
                (&self.shared.origin as _, Type::INT8),
                (&(self.outcome.claimable as i64) as _, Type::INT8),
                (&lanes as _, Type::INT4_ARRAY),
            ];
            self.transaction.execute(sql, &row).await?;
        }
        self.outcome.events = self.given;
        self.outcome.lanes.extend(self.made.into_values());
        Ok(self.outcome)
    }

    /// The time and provisional number of the next event.
    fn stamp(&mut self) -> Stamp {
        self.given += 1;
        Stamp { at: self.now, sequence: Sequence(PROVISIONAL + self.given - 1) }
    }

    /// Tells of a worker or a queue.
    fn announce(&mut self, told: &Told) {
        self.stamp();
        codec::encode_notice(&mut self.events, told);
    }

    /// Draws the numbers that are missing, under the locks of what they are for.
    async fn draw(&mut self) -> Result<(), Fault> {
        let missing = self.given as i64 - self.drawn.len() as i64;
        if missing > 0 {
            let sql = "SELECT nextval('event') FROM generate_series(1, $1)";
            let rows = self.transaction.query(sql, &[(&missing, Type::INT8)]).await?;
            self.drawn.extend(rows.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()));
        }
        Ok(())
    }

    /// The number that a provisional one stands for.
    fn number(&self, sequence: Sequence) -> Sequence {
        match sequence.0.checked_sub(PROVISIONAL) {
            Some(at) => self.drawn.get(at as usize).map_or(sequence, |number| Sequence(*number)),
            None => sequence,
        }
    }

    /// A lane by its number; it has been met.
    fn lane(&self, number: i32) -> Option<Known> {
        self.made.get(&number).cloned().or_else(|| self.shared.lanes.get(number))
    }

    fn random(&self) -> impl Random + 's {
        &self.shared.random
    }
}
