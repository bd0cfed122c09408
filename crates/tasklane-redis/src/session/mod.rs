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
mod finish;
mod heads;
mod key;
mod overdue;
mod prune;
mod queue;
mod renew;
mod submit;
mod worker;

use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use tasklane_core::lifecycle::Rules;
use tasklane_core::{ChainHash, Rotation, Sequence, Stamp, TaskId, Timestamp, WorkerId};
use tasklane_store::{Subject, codec};

use crate::catalog::Catalog;
use crate::fault::Fault;
use crate::heads::Heads;
use crate::keys::Key;
use crate::known::Left;
use crate::link::Kind;
use crate::read::Read;
use crate::signal::News;
use crate::snapshot::Snapshot;
use crate::sorted::{First, Sorted};
use crate::stored::Stored;
use crate::system::SystemRandom;
use crate::value;
use crate::writes::Writes;
pub(crate) use change::place_member;
pub(crate) use finish::new_mark;
use overdue::LeasesAfter;
pub(crate) use renew::unpack_health;
pub(crate) use worker::{WorkerSlot, held_count_read};

/// Members of a sorted set read at first.
const DEPTH: usize = 4;

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
