//! What runs inside one transaction: one file per verb.
//!
//! A session holds the tasks that its call is about, locked, and what is to become of them. Core
//! decides on these; [`Session::flush`] writes what has changed, all of a kind in one statement.
//! Events get their numbers there: until then they have provisional ones, above all others.

mod access;
mod change;
mod claim;
mod execute;
mod key;
mod life;
mod load;
mod look;
mod number;
mod overdue;
mod packed;
mod prune;
mod queue;
mod renew;
mod request;
mod room;
mod stream;
mod submit;
mod table;
mod worker;
mod write;

use std::time::Instant;

use hashbrown::HashMap;
use tasklane_core::{Random, Rotation, Sequence, Stamp, TaskId, Timestamp, WorkerId};
use tasklane_store::{Subject as Told, codec};
use tokio_postgres::Row;

use crate::connection::Transaction;
use crate::fault::Fault;
use crate::floor::Floor;
use crate::lanes::Known;
use crate::store::Shared;
pub(crate) use change::{LeaseRow, Subject};
use claim::Claimer;
use key::Line;
pub(crate) use look::FRONTS;
use number::Numbers;
pub(crate) use overdue::Looked;
pub(crate) use packed::RowTypes;
pub(crate) use room::WAITING;
pub(crate) use write::LastPut;

pub(crate) struct Session<'s> {
    transaction: &'s Transaction,
    shared: &'s Shared,
    /// Wall time of this transaction, by the database's clock.
    now: Timestamp,
    begun: Instant,
    /// Tasks that are locked.
    work: HashMap<TaskId, Subject>,
    /// Those among them that are to be written, in the order in which they changed.
    changed: Vec<TaskId>,
    /// Ordering keys that are locked.
    lines: HashMap<(i32, Box<str>), Line>,
    /// Lanes made by this transaction.
    made: HashMap<i32, Known>,
    numbers: Numbers,
    /// Workers that were heard, with their leases as they are by now.
    heard: HashMap<WorkerId, Claimer>,
    /// How queues are to be served, as far as that was asked.
    served: Option<Vec<Row>>,
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
    /// Queues in which more tasks wait than before, and by how many.
    pub(crate) waiting: Vec<(i32, u64)>,
    /// Tasks as they are now, those that are held among them.
    pub(crate) held: Vec<Subject>,
    /// Where its claims have left nothing behind.
    pub(crate) floors: Vec<Floor>,
    /// How often floors had been lowered when it began.
    pub(crate) floors_lowered: u64,
}

/// Lanes in which tasks became claimable.
pub(crate) type Woken = tasklane_store::Woken<i32>;

impl<'s> Session<'s> {
    pub(crate) fn open(transaction: &'s Transaction, shared: &'s Shared) -> Self {
        let mut numbers = Numbers::default();
        if let Some(first) = transaction.number {
            numbers.draw(first);
        }
        Self {
            transaction,
            shared,
            now: shared.clock_of(transaction),
            begun: Instant::now(),
            work: HashMap::new(),
            changed: Vec::new(),
            lines: HashMap::new(),
            made: HashMap::new(),
            numbers,
            heard: HashMap::new(),
            served: None,
            events: Vec::new(),
            counts: HashMap::new(),
            outcome: Written { floors_lowered: shared.floors.lowered(), ..Written::default() },
        }
    }

    /// What is left to be written, together with the commit.
    pub(crate) async fn finish(mut self) -> Result<(Written, Option<LastPut>), Fault> {
        let rows = self.gather().await?;
        let told = self.told();
        let last = (!rows.is_empty() || told.is_some()).then(|| LastPut::new(rows, told));
        self.outcome.events = self.numbers.given();
        self.outcome.lanes.extend(self.made.into_values());
        let is_held = |subject: &Subject| subject.home == change::Home::Lease;
        self.outcome.held.extend(self.work.into_values().filter(is_held));
        Ok((self.outcome, last))
    }

    /// The time and provisional number of the next event.
    fn stamp(&mut self) -> Stamp {
        Stamp { at: self.now, sequence: self.numbers.next() }
    }

    /// Tells of a worker or a queue.
    fn announce(&mut self, told: &Told) {
        self.stamp();
        codec::encode_notice(&mut self.events, told);
    }

    fn number(&self, sequence: Sequence) -> Sequence {
        self.numbers.number(sequence)
    }

    /// A lane by its number; it has been met.
    fn lane(&self, number: i32) -> Option<Known> {
        self.made.get(&number).cloned().or_else(|| self.shared.lanes.get(number))
    }

    fn random(&self) -> impl Random + 's {
        &self.shared.random
    }
}
