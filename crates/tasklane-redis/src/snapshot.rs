//! What was read at one version of the store.

use bytes::Bytes;
use hashbrown::HashMap;
use redis::Value;
use tasklane_core::{Sequence, Timestamp};
use tasklane_store::StoreError;

use crate::fault::Fault;
use crate::keys::Key;
use crate::read::{Asked, Read};
use crate::value;

/// The layout that this program writes, and the only one it knows.
pub(crate) const FORMAT: i64 = 1;

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
}

/// Answers, by what was asked.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) meta: Meta,
    pub(crate) now: Timestamp,
    fields: HashMap<Key, HashMap<Vec<u8>, Option<Bytes>>>,
    firsts: HashMap<Key, Firsts>,
    plain: HashMap<Read, Value>,
}

/// The first of a sorted set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Firsts {
    pub(crate) items: Vec<(i64, Bytes)>,
    /// There are no others.
    pub(crate) complete: bool,
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

    /// The first of a sorted set, if they were read.
    pub(crate) fn firsts(&self, key: &Key) -> Option<&Firsts> {
        self.firsts.get(key)
    }

    /// An answer, if it was asked for.
    pub(crate) fn plain(&self, read: &Read) -> Option<&Value> {
        self.plain.get(read)
    }

    /// Adds what was asked and answered.
    pub(crate) fn add(&mut self, asked: Vec<Asked>, answer: Value) -> Result<Loaded, Fault> {
        let odd = || Fault::Corrupt("the reading script answered oddly".into());
        let mut parts = value::array(answer)?.into_iter();
        let (Some(_), Some(now), Some(meta), Some(answers)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(Loaded::Changed);
        };
        // One moment for all that is decided on it, however often more is read.
        if self.meta.epoch == 0 {
            self.now = Timestamp::from_micros(value::integer(now)?);
        }
        self.meta = read_meta(meta)?;
        let answers = value::array(answers)?;
        if answers.len() != asked.len() {
            return Err(odd());
        }
        for (asked, answer) in asked.into_iter().zip(answers) {
            match asked {
                Asked::Fields(key, fields) => self.add_fields(key, fields, answer)?,
                Asked::One(Read::First(key, depth)) => self.add_firsts(key, depth, answer)?,
                Asked::One(Read::Front(key, depth)) => {
                    let mut parts = value::array(answer)?.into_iter();
                    let (Some(firsts), Some(tasks), Some(records)) =
                        (parts.next(), parts.next(), parts.next())
                    else {
                        return Err(odd());
                    };
                    self.add_firsts(key.clone(), depth, firsts)?;
                    let items = self.firsts.get(&key).map(|firsts| firsts.items.clone());
                    let ids = items.unwrap_or_default().into_iter();
                    let ids: Vec<_> = ids
                        .map(|(_, member)| member.get(8..).unwrap_or_default().to_vec())
                        .collect();
                    self.add_fields(Key::Task, ids.clone(), tasks)?;
                    self.add_fields(Key::Record, ids, records)?;
                }
                Asked::One(read) => {
                    self.plain.insert(read, answer);
                }
            }
        }
        Ok(Loaded::Whole)
    }

    fn add_fields(&mut self, key: Key, fields: Vec<Vec<u8>>, answer: Value) -> Result<(), Fault> {
        let known = self.fields.entry(key).or_default();
        for (field, value) in fields.into_iter().zip(value::array(answer)?) {
            known.insert(field, value::bytes(value)?);
        }
        Ok(())
    }

    fn add_firsts(&mut self, key: Key, depth: usize, answer: Value) -> Result<(), Fault> {
        let items = value::scored(answer)?;
        let complete = items.len() < depth;
        self.firsts.insert(key, Firsts { items, complete });
        Ok(())
    }
}

fn read_meta(value: Value) -> Result<Meta, Fault> {
    let mut numbers = value::array(value)?.into_iter().map(value::integer);
    let mut next = || numbers.next().unwrap_or(Ok(0));
    let (version, last, epoch) = (next()?, next()?, next()?);
    let (lanes, queues, last_key) = (next()?, next()?, next()?);
    let (latest, format, floor) = (Timestamp::from_micros(next()?), next()?, next()?);
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
    })
}
