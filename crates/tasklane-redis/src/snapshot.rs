//! What is known of the store at one version: what was read, and what was written since.

use bytes::Bytes;
use hashbrown::HashMap;
use redis::Value;
use tasklane_core::{Sequence, TaskId, Timestamp, WorkerId};
use tasklane_store::StoreError;

use crate::fault::Fault;
use crate::heads::Heads;
use crate::keys::Key;
use crate::read::{Asked, Read};
use crate::sorted::Sorted;
use crate::stored::Stored;
use crate::value;

/// The layout that this program writes, and the only one it knows.
pub(crate) const FORMAT: i64 = 4;

/// The numbers that every read brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// Rises with every write.
    pub(crate) version: i64,
    /// The number of the last event.
    pub(crate) last: Sequence,
    /// Which life of the store; 0 before its first.
    pub(crate) epoch: u64,
    /// How many lanes there are.
    pub(crate) lanes: u32,
    /// Rises with every change of a queue.
    pub(crate) queues: i64,
    /// The key of the last id made here.
    pub(crate) last_key: i64,
    /// The latest time at which anything was written.
    pub(crate) latest: Timestamp,
    /// All fences of this epoch are above it, in microseconds.
    pub(crate) floor: i64,
    /// Which write led to this version: a number that nothing else has.
    pub(crate) mark: u64,
}

impl Meta {
    /// Whether both were left by one write.
    pub(crate) fn is_same_write(&self, other: &Self) -> bool {
        (self.epoch, self.version, self.mark) == (other.epoch, other.version, other.mark)
    }
}

/// Answers, by what was asked, and what came of decisions on them (see `known.rs`).
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) meta: Meta,
    pub(crate) now: Timestamp,
    /// Whether that is the time of this moment, and not of an earlier one.
    timed: bool,
    /// Whether it is from before the last write of this server.
    pub(super) kept: bool,
    pub(super) fields: HashMap<Key, HashMap<Vec<u8>, Option<Bytes>>>,
    pub(super) sorted: HashMap<Key, Sorted>,
    pub(super) plain: HashMap<Read, Value>,
    /// Tasks as they were left.
    pub(super) tasks: HashMap<TaskId, Box<Stored>>,
    /// Where lanes begin.
    pub(super) heads: HashMap<Key, Heads>,
    /// How many leases workers have.
    pub(super) held: HashMap<WorkerId, i64>,
}

/// What the script that reads answered.
pub(crate) enum Loaded {
    /// All of it.
    Whole,
    /// Another version is there.
    Changed,
}

impl Snapshot {
    /// A field, if it was read.
    pub(crate) fn field(&self, key: &Key, field: &[u8]) -> Option<&Option<Bytes>> {
        self.fields.get(key)?.get(field)
    }

    /// The first of a sorted set, if they are known.
    pub(crate) fn sorted(&self, key: &Key) -> Option<&Sorted> {
        self.sorted.get(key)
    }

    /// A task, if it is known without being read.
    pub(crate) fn task(&self, id: TaskId) -> Option<&Stored> {
        self.tasks.get(&id).map(Box::as_ref)
    }

    /// Where lanes of a queue and priority begin, if that is known.
    pub(crate) fn heads(&self, key: &Key) -> Option<&Heads> {
        self.heads.get(key)
    }

    /// How many leases a worker has, if that is known.
    pub(crate) fn held(&self, worker: WorkerId) -> Option<i64> {
        self.held.get(&worker).copied()
    }

    /// Whether its time is that of this moment. Otherwise what is decided on it counts for nothing,
    /// but tells what will be needed.
    pub(crate) const fn is_timed(&self) -> bool {
        self.timed
    }

    /// Whether it has outlived a write: nobody else seems to write much.
    pub(crate) const fn is_kept(&self) -> bool {
        self.kept
    }

    /// The next decision is made at this time; without one, at that of the next read.
    pub(crate) fn set_time(&mut self, now: Option<Timestamp>) {
        self.timed = now.is_some();
        self.now = now.unwrap_or(self.now);
    }

    /// An answer, if it was asked for.
    pub(crate) fn plain(&self, read: &Read) -> Option<&Value> {
        self.plain.get(read)
    }

    /// Adds what was asked and answered; gives the time at which it was too.
    pub(crate) fn add(
        &mut self,
        asked: Vec<Asked>,
        answer: Value,
    ) -> Result<(Loaded, Option<i64>), Fault> {
        let odd = || Fault::Corrupt("the reading script answered oddly".into());
        let mut parts = value::array(answer)?.into_iter();
        let (Some(_), Some(now), Some(meta), Some(answers)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok((Loaded::Changed, None));
        };
        let now = value::integer(now)?;
        // One moment for all that is decided on it, however often more is read.
        if !self.timed {
            self.set_time(Some(Timestamp::from_micros(now)));
        }
        self.meta = read_meta(meta)?;
        let answers = value::array(answers)?;
        if answers.len() != asked.len() {
            return Err(odd());
        }
        for (asked, answer) in asked.into_iter().zip(answers) {
            match asked {
                Asked::Fields(key, fields) => self.add_fields(key, fields, answer)?,
                Asked::One(Read::First(key, depth)) => {
                    self.add_firsts(key, depth, answer)?;
                }
                Asked::One(Read::Front(key, depth)) => {
                    let mut parts = value::array(answer)?.into_iter();
                    let (Some(firsts), Some(tasks), Some(records)) =
                        (parts.next(), parts.next(), parts.next())
                    else {
                        return Err(odd());
                    };
                    let ids = self.add_firsts(key, depth, firsts)?;
                    self.add_fields(Key::Task, ids.clone(), tasks)?;
                    self.add_fields(Key::Record, ids, records)?;
                }
                Asked::One(read) => {
                    self.plain.insert(read, answer);
                }
            }
        }
        Ok((Loaded::Whole, Some(now)))
    }

    fn add_fields(&mut self, key: Key, fields: Vec<Vec<u8>>, answer: Value) -> Result<(), Fault> {
        let known = self.fields.entry(key).or_default();
        for (field, value) in fields.into_iter().zip(value::array(answer)?) {
            known.insert(field, value::bytes(value)?);
        }
        Ok(())
    }

    /// Gives the ids in members of lanes.
    fn add_firsts(&mut self, key: Key, depth: usize, answer: Value) -> Result<Vec<Vec<u8>>, Fault> {
        let items = value::scored(answer)?;
        let complete = items.len() < depth;
        let id = |(_, member): &(i64, Bytes)| member.get(8..).unwrap_or_default().to_vec();
        let ids = items.iter().map(id).collect();
        self.sorted.insert(key, Sorted::new(items, complete));
        Ok(ids)
    }
}

fn read_meta(value: Value) -> Result<Meta, Fault> {
    let mut numbers = value::array(value)?.into_iter().map(value::integer);
    let mut next = || numbers.next().unwrap_or(Ok(0));
    let (version, last, epoch) = (next()?, next()?, next()?);
    let (lanes, queues, last_key) = (next()?, next()?, next()?);
    let (latest, format, floor) = (Timestamp::from_micros(next()?), next()?, next()?);
    let mark = next()?.unsigned_abs();
    if epoch != 0 && format != FORMAT {
        let text = format!(
            "the store is of layout {format}, this program knows {FORMAT}: use the program that \
             wrote it, or a newer one"
        );
        return Err(StoreError::Version(text).into());
    }
    Ok(Meta {
        version,
        last: Sequence(last.unsigned_abs()),
        epoch: epoch.unsigned_abs(),
        lanes: u32::try_from(lanes).unwrap_or_default(),
        queues,
        last_key,
        latest,
        floor,
        mark,
    })
}
