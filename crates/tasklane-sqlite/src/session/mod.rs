//! What runs inside the writer's transaction: one file per verb.
//!
//! A session lives as long as the writer's connection. Between [`Session::begin`] and
//! [`Session::finish`] lies one transaction, with one reading of the clock; the board is changed
//! along with the rows, and made anew by [`Session::reset`] if the transaction fails.

mod access;
mod arrival;
mod change;
mod claim;
mod end;
mod execute;
mod key;
mod load;
mod overdue;
mod prune;
mod queue;
mod renew;
mod sql;
mod stats;
mod submit;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Priority, Sequence, Stamp, StateName, Timestamp};
use tasklane_store::{Position, Subject, codec};

use crate::board::Board;
use crate::ended::Ended;
use crate::fault::Fault;
use crate::lanes::Lanes;
use crate::system::SystemRandom;
use crate::writer::Spare;
use arrival::Arrivals;
pub(crate) use arrival::should_be_indexed;
use sql::Statements;

/// Where tasks became claimable.
pub(crate) type Woken = tasklane_store::Woken<u32>;

pub(crate) struct Session<'c> {
    connection: &'c Connection,
    sql: Statements<'c>,
    board: Board,
    lanes: Lanes,
    rules: Rules,
    clock: Arc<dyn Clock>,
    random: SystemRandom,
    /// Wall time of this transaction.
    now: Timestamp,
    /// Monotonic time of this transaction.
    tick: Duration,
    /// Which life of the store.
    epoch: u64,
    /// The number of the last event.
    last: Sequence,
    feed: Feed,
    arrivals: Arrivals,
    /// Lanes whose counters are to be written at the end of the transaction.
    dirty: Vec<u32>,
    /// Tasks that ended in this transaction.
    ended: Vec<(StateName, u32, Ended)>,
    /// Keys of tasks that are leased no more and whose lease rows are still there: of the call that
    /// runs, which removes them before it ends or loads a task.
    unleased: Vec<i64>,
    /// Rises with every task that becomes claimable.
    claimable: u64,
    /// Where they became so in this transaction.
    woken: Woken,
    /// The key of the last task whose id this store made.
    last_key: i64,
    /// No row of `task` has a key above this.
    max_key: i64,
    /// Rows in `alias`: usually none, which spares the look-up.
    aliases: u64,
    /// Who gets the larger half of the next look at what is overdue.
    leases_first: bool,
    /// Where the last look at the timers ended.
    timers_after: Option<(i64, i64, i64)>,
    /// Which line of ended tasks the next slice of retention begins with.
    pruned_to: Option<(StateName, u32)>,
    /// Where the last look at old idempotency records ended.
    idempotency_after: Option<(i64, i64, String)>,
    /// When lines were last compared with the index, and up to which.
    probed: Duration,
    probed_to: i64,
    buffer: Vec<u8>,
    /// Whether there is room for more tasks.
    pub(crate) spare: Spare,
}

/// The events of one transaction.
#[derive(Debug, Default)]
struct Feed {
    first: Sequence,
    count: i64,
    events: Vec<u8>,
}

impl<'c> Session<'c> {
    pub(crate) fn open(
        connection: &'c Connection,
        lanes: Lanes,
        rules: Rules,
        clock: Arc<dyn Clock>,
        spare: Spare,
    ) -> Result<Self, Fault> {
        let mut session = Self {
            connection,
            sql: Statements::prepare(connection)?,
            board: Board::default(),
            lanes,
            rules,
            now: clock.wall(),
            tick: clock.monotonic(),
            clock,
            random: SystemRandom::default(),
            epoch: 0,
            last: Sequence::default(),
            feed: Feed::default(),
            arrivals: Arrivals::default(),
            dirty: Vec::new(),
            ended: Vec::new(),
            unleased: Vec::new(),
            claimable: 0,
            woken: Woken::default(),
            last_key: 0,
            max_key: 0,
            aliases: 0,
            leases_first: false,
            timers_after: None,
            pruned_to: None,
            idempotency_after: None,
            probed: Duration::ZERO,
            probed_to: -1,
            buffer: Vec::new(),
            spare,
        };
        session.found()?;
        session.load()?;
        Ok(session)
    }

    pub(crate) fn begin(&mut self) -> Result<(), Fault> {
        self.sql.begin.raw_execute()?;
        self.now = self.clock.wall();
        self.tick = self.clock.monotonic();
        self.feed.first = self.last.next();
        self.feed.count = 0;
        self.feed.events.clear();
        self.woken = Woken::default();
        self.spare.begin();
        Ok(())
    }

    /// Writes what was gathered, and commits: after this the transaction is on disk.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        self.index_if_many()?;
        self.write_counts()?;
        self.write_ends()?;
        if self.feed.count > 0 {
            self.sql.insert_feed.execute(rusqlite::params![
                self.feed.first.0,
                self.feed.count,
                self.now.as_micros(),
                self.feed.events,
            ])?;
        }
        self.sql.commit.raw_execute().map_err(Fault::Commit)?;
        Ok(())
    }

    /// Gives up a transaction and makes the board anew from what is stored.
    pub(crate) fn reset(&mut self) -> Result<(), Fault> {
        if !self.connection.is_autocommit() {
            self.sql.rollback.raw_execute()?;
        }
        self.load()
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn signal(&self) -> tasklane_store::Signal {
        tasklane_store::Signal { claimable: self.claimable, last: self.head() }
    }

    /// Where tasks became claimable in this transaction.
    pub(crate) fn take_woken(&mut self) -> Woken {
        std::mem::take(&mut self.woken)
    }

    /// How much happened in this transaction.
    pub(crate) const fn events(&self) -> u64 {
        self.feed.count.unsigned_abs()
    }

    /// Makes every hint wrong. Only for tests.
    #[cfg(test)]
    pub(crate) fn forget_lines(&mut self) {
        self.board.forget_lines();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// One writer, one order: the feed's numbers are those of the events themselves.
    pub(crate) fn head(&self) -> Position {
        Position(self.last.0)
    }

    /// The time and number of the next event.
    fn stamp(&mut self) -> Stamp {
        self.last = self.last.next();
        self.feed.count += 1;
        Stamp { at: self.now, sequence: self.last }
    }

    /// Tells of a worker or a queue.
    fn announce(&mut self, subject: &Subject) {
        self.stamp();
        codec::encode_notice(&mut self.feed.events, subject);
    }

    /// Counts a task in or out of a state.
    fn count(
        &mut self,
        lane: u32,
        priority: Priority,
        state: StateName,
        by: i64,
    ) -> Result<(), Fault> {
        self.board.count(lane, priority, state, by)?;
        // Neighbours repeat: a look at the last few catches nearly all, the rest is sorted out
        // when they are written.
        if !self.dirty.iter().rev().take(8).any(|known| *known == lane) {
            self.dirty.push(lane);
        }
        Ok(())
    }

    fn write_counts(&mut self) -> Result<(), Fault> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for lane in dirty.drain(..) {
            let counts = codec::encode_counts(&self.board.lane(lane)?.counts);
            self.sql.update_counts.execute(rusqlite::params![lane, counts])?;
        }
        self.dirty = dirty;
        Ok(())
    }
}
