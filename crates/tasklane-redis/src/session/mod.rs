//! What a group of calls does to what was read: one file per verb.
//!
//! A session decides on a snapshot and gathers writes. Whoever asks for something that was not
//! read gets nothing, and the session notes what is missing: its outcome is then worth nothing,
//! the missing parts are read, and all is decided again. So the verbs know no connection and no
//! waiting. What a call has changed, the next one of the group sees, and the next group, unless
//! somebody else has written meanwhile.

mod access;
mod change;
mod claim;
mod execute;
mod heads;
mod key;
mod overdue;
mod prune;
mod queue;
mod renew;
mod submit;
mod worker;

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use hashbrown::{HashMap, HashSet};
use tasklane_core::lifecycle::Rules;
use tasklane_core::{
    ChainHash, Random, Rotation, Sequence, Stamp, StateName, TaskId, Timestamp, WorkerId,
};
use tasklane_store::{Position, Subject, codec};

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::heads::Heads;
use crate::keys::Key;
use crate::known::Left;
use crate::link::Kind;
use crate::read::Read;
use crate::signal::News;
use crate::snapshot::{Meta, Snapshot};
use crate::sorted::{First, Sorted};
use crate::stored::Stored;
use crate::system::SystemRandom;
use crate::value;
use crate::writes::{Head, Writes};
pub(crate) use change::place_member;
use overdue::LeasesAfter;
pub(crate) use renew::unpack_health;
pub(crate) use worker::{WorkerSlot, held_count_read};

/// Members of a sorted set read at first.
const DEPTH: usize = 4;
/// Counters from which on it pays to know them: each that is not costs a command.
const COUNTERS_MANY: usize = 4;
/// Completed tasks that are listed as one.
const ENDED_TOGETHER_MAX: usize = 64;

/// What a server remembers from one group to the next. None of it decides anything alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// Whose turn it is among the queues.
    rotation: Rotation<u32>,
    /// Where the last looks at what is overdue ended.
    leases_after: Option<LeasesAfter>,
    timers_after: Option<(i64, Vec<u8>)>,
    leases_first: bool,
    /// Old idempotency records whose tasks live: passed over.
    idempotency_skipped: usize,
    /// Lanes that the last claims took from: read at once by the next.
    hot: HashSet<Key>,
}

pub(crate) struct Session<'a> {
    snapshot: &'a Snapshot,
    rules: &'a Rules,
    random: &'a mut SystemRandom,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) memory: Memory,
    now: Timestamp,
    last: Sequence,
    last_key: i64,
    events: Vec<u8>,
    tasks: HashMap<TaskId, Option<Box<Stored>>>,
    sorted: HashMap<Key, Sorted>,
    heads: HashMap<Key, Heads>,
    held: HashMap<WorkerId, i64>,
    writes: Writes,
    /// Where claims looked, and the lanes that they took from.
    hot: HashSet<Key>,
    /// How many tasks all claims would have.
    wanted: usize,
    missing: Vec<Read>,
    asked: HashSet<Read>,
    /// Sorted sets that have to be read, how far, and whether they are lanes.
    fronts: HashMap<Key, (usize, bool)>,
    claimable: u64,
    woken: Woken,
    /// Whether tasks were admitted.
    admitted: bool,
    /// Tasks that were completed, by queue and when.
    completed: HashMap<(u32, Timestamp), Vec<TaskId>>,
    /// All fences are above it, in microseconds.
    floor: i64,
    /// The last record of the audit log, once one was appended.
    audited: Option<(u64, ChainHash)>,
}

/// Where tasks became claimable.
pub(crate) type Woken = tasklane_store::Woken<u32>;

/// What comes of a session.
pub(crate) enum Outcome {
    /// These have to be read first.
    Missing(Vec<Read>),
    /// This is to be written.
    Decided(Box<Decided>),
}

/// What is to be written, and what is then known.
pub(crate) struct Decided {
    pub(crate) writes: Writes,
    pub(crate) left: Left,
    pub(crate) kind: Kind,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) memory: Memory,
    pub(crate) news: News,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        catalog: Arc<Catalog>,
        memory: Memory,
        rules: &'a Rules,
        floor: i64,
        random: &'a mut SystemRandom,
    ) -> Self {
        Self {
            snapshot,
            rules,
            random,
            catalog,
            memory,
            now: snapshot.now,
            last: snapshot.meta.last,
            last_key: snapshot.meta.last_key,
            events: Vec::new(),
            tasks: HashMap::new(),
            sorted: HashMap::new(),
            heads: HashMap::new(),
            held: HashMap::new(),
            writes: Writes::default(),
            hot: HashSet::new(),
            wanted: 0,
            missing: Vec::new(),
            asked: HashSet::new(),
            fronts: HashMap::new(),
            claimable: 0,
            woken: Woken::default(),
            admitted: false,
            completed: HashMap::new(),
            floor,
            audited: None,
        }
    }

    /// Whether something was asked for that was not read: then nothing here counts.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_dry() || !self.missing.is_empty() || !self.fronts.is_empty()
    }

    /// Whether the time is not known: a first look at what will be needed.
    fn is_dry(&self) -> bool {
        !self.snapshot.is_timed()
    }

    pub(crate) fn finish(mut self) -> Outcome {
        if !self.is_missing() {
            self.settle_counters();
        }
        if self.is_missing() {
            self.read_ahead();
            let front = |(key, (depth, is_lane))| match is_lane {
                true => Read::Front(key, depth),
                false => Read::First(key, depth),
            };
            self.missing.extend(self.fronts.into_iter().map(front));
            return Outcome::Missing(self.missing);
        }
        if !self.hot.is_empty() {
            self.memory.hot = std::mem::take(&mut self.hot);
        }
        self.list_completed();
        self.renew_holdings();
        self.find_leading();
        self.find_heads();
        let before = self.snapshot.meta;
        let mut note = |name: &str, number: i64| {
            self.writes.set(Key::Meta, name, number.to_string().into_bytes());
        };
        if self.last != before.last {
            note("last", self.last.0 as i64);
        }
        if self.last_key != before.last_key {
            note("last_key", self.last_key);
        }
        if self.catalog.lane_count() != before.lanes as usize {
            note("lanes", self.catalog.lane_count() as i64);
        }
        if self.catalog.queues_version() != before.queues {
            note("queues", self.catalog.queues_version());
        }
        if self.now > before.latest && !self.writes.is_empty() {
            self.writes.set(Key::Meta, "latest", self.now.as_micros().to_string());
        }
        if self.floor > before.floor && !self.writes.is_empty() {
            self.writes.set(Key::Meta, "floor", self.floor.to_string());
        }
        let events = self.last.0 - before.last.0;
        if events > 0 {
            let first = before.last.next();
            let entry = pack_feed(first, events, self.now, &self.events);
            self.writes.entry(Key::Feed, self.last.0, entry);
        }
        let written = !self.writes.is_empty();
        let later = |known: i64, new: i64| if written { known.max(new) } else { known };
        let meta = Meta {
            version: before.version + i64::from(written),
            last: self.last,
            epoch: before.epoch,
            lanes: u32::try_from(self.catalog.lane_count()).unwrap_or(u32::MAX),
            queues: self.catalog.queues_version(),
            last_key: self.last_key,
            latest: Timestamp::from_micros(later(before.latest.as_micros(), self.now.as_micros())),
            floor: later(before.floor, self.floor),
            mark: if written { new_mark(self.random) } else { before.mark },
        };
        let (tasks, sorted, heads, held) = (self.tasks, self.sorted, self.heads, self.held);
        Outcome::Decided(Box::new(Decided {
            left: Left { meta, tasks, sorted, heads, held },
            writes: self.writes,
            kind: if self.admitted { Kind::Admission } else { Kind::Other },
            catalog: self.catalog,
            memory: self.memory,
            news: News {
                last: Position(self.last.0),
                events,
                claimable: self.claimable,
                woken: self.woken,
            },
        }))
    }

    /// Those that were completed together are listed together.
    fn list_completed(&mut self) {
        for ((queue, at), ids) in self.completed.drain() {
            for ids in ids.chunks(ENDED_TOGETHER_MAX) {
                let member: Vec<u8> = ids.iter().flat_map(|id| *id.as_bytes()).collect();
                let key = Key::Ended(StateName::Completed, queue);
                self.writes.score(key, member, Some(at.as_micros()));
            }
        }
    }

    /// What is taken from the front of a lane is taken from there by one command.
    fn find_leading(&mut self) {
        for key in self.sorted.keys() {
            let known = self.snapshot.sorted(key).zip(self.writes.scores(key));
            let Some((known, changes)) = known else { continue };
            let gone = |member: &[u8]| matches!(changes.get(member), Some(None));
            let leading = known.leading(gone);
            if leading.len() > 1 {
                self.writes.lead(key.clone(), leading);
            }
        }
    }

    /// Where nobody else writes, counters are known, and many of them are set by one command.
    fn settle_counters(&mut self) {
        let many = self.snapshot.is_kept() && self.writes.counter_count() >= COUNTERS_MANY;
        let (snapshot, mut missing) = (self.snapshot, Vec::new());
        self.writes.settle_counters(|field| match snapshot.field(&Key::Counts, field) {
            Some(count) => count.as_ref().map_or(Some(0), |count| value::number(count).ok()),
            None => {
                missing.push(Read::Field(Key::Counts, field.to_vec()));
                None
            }
        });
        if many {
            missing.into_iter().for_each(|read| self.miss(read));
        }
    }

    /// Where the lanes begin that have changed. Of one that was not looked at, only that it begins
    /// with what came into it, or before.
    fn find_heads(&mut self) {
        let sorted = &self.sorted;
        self.writes.note_heads(|key, changes| match sorted.get(key).map(Sorted::first) {
            Some(First::Is(at, _)) => Head::At(at),
            Some(First::None) => Head::Nowhere,
            Some(First::Unknown) => Head::Unknown,
            None => {
                let entered: Option<Vec<i64>> = changes.values().copied().collect();
                let first = entered.and_then(|entered| entered.into_iter().min());
                first.map_or(Head::Unknown, Head::NotAfter)
            }
        });
    }

    /// The time and number of the next event.
    fn stamp(&mut self) -> Stamp {
        self.last = self.last.next();
        Stamp { at: self.now, sequence: self.last }
    }

    /// Tells of a worker or a queue.
    fn announce(&mut self, subject: &Subject) {
        self.stamp();
        codec::encode_notice(&mut self.events, subject);
    }

    fn miss(&mut self, read: Read) {
        if self.asked.insert(read.clone()) {
            self.missing.push(read);
        }
    }

    /// A field of a hash, as it is by now.
    fn field(&mut self, key: &Key, field: &[u8]) -> Option<Bytes> {
        if let Some(changed) = self.writes.field(key, field) {
            return changed.clone();
        }
        match self.snapshot.field(key, field) {
            Some(read) => read.clone(),
            None => {
                self.miss(Read::Field(key.clone(), field.to_vec()));
                None
            }
        }
    }

    /// How many tasks wait in a queue, by now.
    fn depth(&mut self, queue: u32) -> Result<i64, Fault> {
        let changed = self.writes.deeper(queue);
        let stored = self.field(&Key::Depth, queue.to_string().as_bytes());
        let stored = stored.map(|bytes| value::number(&bytes)).transpose()?;
        Ok(stored.unwrap_or_default() + changed)
    }

    /// What a command gives, before anything this group does.
    fn plain(&mut self, read: Read) -> redis::Value {
        match self.snapshot.plain(&read) {
            Some(answer) => answer.clone(),
            None => {
                self.miss(read);
                redis::Value::Nil
            }
        }
    }

    /// The members of a set, as they are by now, in order.
    fn members(&mut self, key: &Key) -> Result<Vec<Bytes>, Fault> {
        let mut members = value::strings(self.plain(Read::plain("SMEMBERS", key.clone(), [])))?;
        if let Some(changes) = self.writes.members(key) {
            members.retain(|member| !changes.contains_key(&member[..]));
            let added = changes.iter().filter(|(_, there)| **there);
            members.extend(added.map(|(member, _)| Bytes::from(member.clone())));
        }
        members.sort_unstable();
        Ok(members)
    }

    /// The first of a sorted set, as it is by now; read to `depth` if it has to be read.
    fn first(&mut self, key: &Key, depth: usize, is_lane: bool) -> First {
        if !self.sorted.contains_key(key) {
            let Some(known) = self.snapshot.sorted(key) else {
                self.miss_front(key, depth, is_lane);
                return First::None;
            };
            let sorted = known.changed(self.writes.scores(key));
            self.sorted.insert(key.clone(), sorted);
        }
        let Some(sorted) = self.sorted.get(key) else { return First::None };
        match sorted.first() {
            First::Unknown => {
                let taken = sorted.taken();
                self.miss_front(key, taken + depth.max(taken), is_lane);
                First::None
            }
            first => first,
        }
    }

    fn miss_front(&mut self, key: &Key, depth: usize, is_lane: bool) {
        let (deepest, _) = self.fronts.entry(key.clone()).or_insert((0, is_lane));
        *deepest = depth.max(*deepest);
    }

    /// Puts a member into a sorted set.
    fn put(&mut self, key: Key, score: i64, member: Bytes) {
        if let Some(sorted) = self.sorted.get_mut(&key) {
            sorted.insert(score, member.clone());
        }
        self.writes.score(key, member, Some(score));
    }

    /// Takes a member out of a sorted set.
    fn take(&mut self, key: Key, score: i64, member: Bytes) {
        if let Some(sorted) = self.sorted.get_mut(&key) {
            sorted.remove(score, &member);
        }
        self.writes.score(key, member, None);
    }

    /// A task, as it is by now.
    fn task(&mut self, id: TaskId) -> Result<Option<&Stored>, Fault> {
        if !self.tasks.contains_key(&id) {
            let stored = match self.snapshot.task(id) {
                Some(stored) => Some(Box::new(stored.clone())),
                None => self.read_task(id)?.map(Box::new),
            };
            self.tasks.insert(id, stored);
        }
        Ok(self.tasks.get(&id).and_then(Option::as_deref))
    }

    fn read_task(&mut self, id: TaskId) -> Result<Option<Stored>, Fault> {
        let task = self.field(&Key::Task, id.as_bytes());
        let record = self.field(&Key::Record, id.as_bytes());
        let unpacked = |task: Bytes| Stored::unpack(id, &task, record.as_ref(), &self.catalog);
        task.map(unpacked).transpose()
    }
}

/// A number for a write that no other has. Numbers in Lua are exact up to 2⁵³.
pub(crate) fn new_mark(random: &mut impl Random) -> u64 {
    random.next_u64() >> 12
}

/// The events of one write: the first number, how many, when, and the events themselves.
fn pack_feed(first: Sequence, count: u64, at: Timestamp, events: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(20 + events.len());
    packed.put_u64(first.0);
    packed.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
    packed.put_i64(at.as_micros());
    packed.put_slice(events);
    packed
}
