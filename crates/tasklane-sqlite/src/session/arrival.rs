//! New pending tasks on their way into the index.
//!
//! Writing each into its line at once would touch a page per lane and priority in every
//! transaction. Instead they wait in memory and are written together, in order, when there are
//! enough; most of a busy queue is claimed before that and never written there at all. Nothing is
//! at risk: the feed of the same transaction names every one of them, and a store that is opened
//! again reads from there what its index does not have yet.

use hashbrown::HashMap;
use rusqlite::params;
use tasklane_core::{EventKind, Place, Priority, Sequence, State, Task, Timestamp};
use tasklane_store::{Position, Subject, codec};

use super::Session;
use crate::board::{Head, line_number};
use crate::fault::Fault;
use crate::rows;

/// Tasks that wait before they are written: about 2 ms of work for the transaction that does it.
const WAITING_MAX: usize = 2_048;

/// Events since the last writing after which there is another, so that opening has little to read.
const EVENTS_MAX: u64 = 8_192;

/// New pending tasks that the index does not have yet, by key.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    waiting: HashMap<i64, (i64, Place)>,
    /// The last event at which none was waiting.
    indexed: Sequence,
}

impl Arrivals {
    /// Takes a task back. Says whether it was here; if not, it is in the index.
    pub(super) fn remove(&mut self, key: i64) -> bool {
        self.waiting.remove(&key).is_some()
    }

    /// Those of one line behind a place, in order.
    pub(super) fn of_line(&self, line: i64, after: Option<Place>) -> Vec<Head> {
        let behind = |place: Place| after.is_none_or(|after| place > after);
        let of_line = self.waiting.iter().filter(|(_, (of, place))| *of == line && behind(*place));
        let head = |(key, (_, place)): (&i64, &(i64, Place))| Head {
            place: *place,
            key: *key,
            fresh: true,
        };
        of_line.map(head).collect()
    }
}

impl Session<'_> {
    /// Takes a new pending task into its line.
    pub(super) fn arrive(&mut self, lane: u32, key: i64, task: &Task) -> Result<(), Fault> {
        let (priority, place) = (task.spec.priority, task.place);
        self.arrivals.waiting.insert(key, (line_number(lane, priority), place));
        self.enter_board(lane, priority, Head { place, key, fresh: true })
    }

    /// Adds a pending task to its line on the board.
    pub(super) fn enter_board(
        &mut self,
        lane: u32,
        priority: Priority,
        head: Head,
    ) -> Result<(), Fault> {
        let room = self.board.room();
        let ((), starved) = self.board.with_line(lane, priority, |line| line.enter(head, room))?;
        self.claimable += 1;
        self.woken.add(lane);
        if starved { self.refill(lane, priority) } else { Ok(()) }
    }

    /// Writes those that wait, if there are enough of them, or much has happened since.
    pub(super) fn index_if_many(&mut self) -> Result<(), Fault> {
        let many = self.arrivals.waiting.len() >= WAITING_MAX;
        let long = self.last.0 - self.arrivals.indexed.0 >= EVENTS_MAX;
        if many || long { self.index_arrivals() } else { Ok(()) }
    }

    /// Writes all that wait into the index.
    pub(crate) fn index_arrivals(&mut self) -> Result<(), Fault> {
        if self.arrivals.indexed == self.last {
            return Ok(());
        }
        let mut rows: Vec<_> =
            self.arrivals.waiting.drain().map(|(key, (line, place))| (line, place, key)).collect();
        rows.sort_unstable();
        for (line, place, key) in rows {
            let (at, sequence) = (place.ready_at.as_micros(), place.sequence.0);
            self.sql.insert_pending.execute(params![line, at, sequence, key, true])?;
        }
        let sql = "UPDATE meta SET value = ? WHERE name = 'indexed'";
        self.connection.prepare_cached(sql)?.execute([self.last.0])?;
        self.arrivals.indexed = self.last;
        Ok(())
    }

    /// Finds those that the index does not have yet, from the feed.
    pub(super) fn load_arrivals(&mut self) -> Result<(), Fault> {
        self.arrivals = Arrivals::default();
        let sql = "SELECT value FROM meta WHERE name = 'indexed'";
        let indexed: u64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        self.arrivals.indexed = Sequence(indexed);
        let sql = "SELECT first, at, events FROM feed WHERE first + count - 1 > ?1
                   AND first >= coalesce((SELECT max(first) FROM feed WHERE first <= ?1), 0)
                   ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query([indexed])?;
        while let Some(row) = found.next()? {
            let (first, at) = (Position(row.get(0)?), Timestamp::from_micros(row.get(1)?));
            for event in codec::decode_feed(rows::blob(row, 2)?, first, at, &self.lanes)? {
                let Subject::Task(notice) = event.subject else { continue };
                if notice.kind != EventKind::Submitted || event.position.0 <= indexed {
                    continue;
                }
                // It may have been claimed, changed or removed since.
                let loaded = rows::load(self.connection, &self.lanes, notice.id)?;
                let Some(loaded) = loaded.filter(|loaded| loaded.fresh) else { continue };
                if matches!(loaded.task.state, State::Pending { .. }) {
                    let line = line_number(loaded.lane, loaded.task.spec.priority);
                    self.arrivals.waiting.insert(loaded.key, (line, loaded.task.place));
                }
            }
        }
        Ok(())
    }
}

/// Whether the index should have a pending task, given up to which event it is complete.
pub(crate) fn should_be_indexed(task: &Task, fresh: bool, indexed: Sequence) -> bool {
    !fresh || task.admission.created.sequence <= indexed
}
