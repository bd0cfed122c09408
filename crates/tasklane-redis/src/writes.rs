//! What a group of calls changes: only what comes out in the end, key by key.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use tasklane_core::{Priority, StateName, TaskId, Timestamp, WorkerId};

use crate::keys::Key;
use crate::read::ARGUMENTS_MAX;
use crate::request::Request;

/// How fields of a hash change.
pub(crate) type Fields = HashMap<Vec<u8>, Option<Bytes>>;
/// How members of a sorted set change.
pub(crate) type Scores = HashMap<Vec<u8>, Option<i64>>;
/// Which members of a set come and go.
pub(crate) type Members = HashMap<Vec<u8>, bool>;

/// Changes of many keys. The order in which they were made does not matter any more.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    fields: BTreeMap<Key, Fields>,
    scores: BTreeMap<Key, Scores>,
    members: BTreeMap<Key, Members>,
    /// Tasks by lane, priority and state.
    counts: HashMap<(u32, Priority, StateName), i64>,
    /// Tasks that wait, by queue.
    depths: HashMap<u32, i64>,
    entries: Vec<(Key, u64, Vec<u8>)>,
    trims: Vec<(Key, u64)>,
    listed: BTreeMap<TaskId, bool>,
    /// Lanes that have changed: queue, lane, priority; and where they begin then.
    lanes: BTreeMap<(u32, u32, Priority), Head>,
    /// Workers that hold other tasks than before, or with other deadlines.
    holders: BTreeSet<WorkerId>,
    /// Sorted sets that have nothing afterwards but what is set here.
    anew: HashSet<Key>,
    /// Members of sorted sets that are removed and stand before all others there.
    leading: HashMap<Key, HashSet<Bytes>>,
}

/// Where a lane begins once it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// The script has to look.
    Unknown,
    /// Here.
    At(i64),
    /// Here, unless it begins earlier.
    NotAfter(i64),
    /// It is empty.
    Nowhere,
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
            && self.scores.is_empty()
            && self.members.is_empty()
            && self.counts.is_empty()
            && self.entries.is_empty()
            && self.trims.is_empty()
            && self.listed.is_empty()
    }

    pub(crate) fn set(&mut self, key: Key, field: impl Into<Vec<u8>>, value: impl Into<Bytes>) {
        self.fields.entry(key).or_default().insert(field.into(), Some(value.into()));
    }

    pub(crate) fn unset(&mut self, key: Key, field: impl Into<Vec<u8>>) {
        self.fields.entry(key).or_default().insert(field.into(), None);
    }

    /// What a field will be, if it changes.
    pub(crate) fn field(&self, key: &Key, field: &[u8]) -> Option<&Option<Bytes>> {
        self.fields.get(key)?.get(field)
    }

    /// How many fields of a hash are set, new or not.
    pub(crate) fn set_count(&self, key: &Key) -> i64 {
        let fields = self.fields.get(key).into_iter().flatten();
        fields.filter(|(_, value)| value.is_some()).count() as i64
    }

    /// Sets or removes a member of a sorted set.
    pub(crate) fn score(&mut self, key: Key, member: impl Into<Vec<u8>>, score: Option<i64>) {
        self.scores.entry(key).or_default().insert(member.into(), score);
    }

    /// A worker holds a task until this deadline, or no longer.
    pub(crate) fn hold(&mut self, worker: WorkerId, task: TaskId, deadline: Option<Timestamp>) {
        self.score(Key::Held(worker), *task.as_bytes(), deadline.map(Timestamp::as_micros));
        self.holders.insert(worker);
    }

    /// A sorted set will have nothing but what is set here.
    pub(crate) fn make_anew(&mut self, key: Key) {
        self.anew.insert(key);
    }

    /// These members of a sorted set are removed, and stand before all others.
    pub(crate) fn lead(&mut self, key: Key, members: HashSet<Bytes>) {
        self.leading.insert(key, members);
    }

    /// How a sorted set changes.
    pub(crate) fn scores(&self, key: &Key) -> Option<&Scores> {
        self.scores.get(key)
    }

    /// Adds or removes a member of a set.
    pub(crate) fn member(&mut self, key: Key, member: impl Into<Vec<u8>>, there: bool) {
        self.members.entry(key).or_default().insert(member.into(), there);
    }

    /// How a set changes.
    pub(crate) fn members(&self, key: &Key) -> Option<&Members> {
        self.members.get(key)
    }

    /// Counts tasks of a lane and priority in or out of a state.
    pub(crate) fn count(&mut self, lane: u32, priority: Priority, state: StateName, by: i64) {
        *self.counts.entry((lane, priority, state)).or_default() += by;
    }

    /// Counts tasks in or out of those that wait in a queue.
    pub(crate) fn deepen(&mut self, queue: u32, by: i64) {
        *self.depths.entry(queue).or_default() += by;
    }

    /// By how much a queue gets deeper.
    pub(crate) fn deeper(&self, queue: u32) -> i64 {
        self.depths.get(&queue).copied().unwrap_or_default()
    }

    /// Appends to a stream.
    pub(crate) fn entry(&mut self, key: Key, number: u64, entry: Vec<u8>) {
        self.entries.push((key, number, entry));
    }

    /// Removes what a stream has before a number.
    pub(crate) fn trim(&mut self, key: Key, first: u64) {
        self.trims.push((key, first));
    }

    /// Adds a task to the index, or removes it.
    pub(crate) fn list(&mut self, id: TaskId, there: bool) {
        self.listed.insert(id, there);
    }

    /// Notes that a lane has changed.
    pub(crate) fn touch(&mut self, queue: u32, lane: u32, priority: Priority) {
        self.lanes.insert((queue, lane, priority), Head::Unknown);
    }

    /// Notes where lanes that have changed begin, as far as that is known.
    pub(crate) fn note_heads(&mut self, head: impl Fn(&Key, &Scores) -> Head) {
        for ((_, lane, priority), known) in &mut self.lanes {
            let key = Key::Lane(*lane, *priority);
            if let Some(changes) = self.scores.get(&key) {
                *known = head(&key, changes);
            }
        }
    }

    /// Lanes of a queue and priority that have changed.
    pub(crate) fn touched(&self, queue: u32, priority: Priority) -> Vec<u32> {
        let there =
            self.lanes.range((queue, 0, Priority::Low)..=(queue, u32::MAX, Priority::Critical));
        let of_priority = there.filter(|((_, _, own), _)| *own == priority);
        of_priority.map(|((_, lane, _), _)| *lane).collect()
    }

    /// Fields that change, by hash.
    pub(crate) fn all_fields(&self) -> impl Iterator<Item = (&Key, &Fields)> {
        self.fields.iter()
    }

    /// Members that change, by sorted set.
    pub(crate) fn all_scores(&self) -> impl Iterator<Item = (&Key, &Scores)> {
        self.scores.iter()
    }

    /// Queues that get deeper or less so.
    pub(crate) fn all_depths(&self) -> impl Iterator<Item = (u32, i64)> {
        self.depths.iter().map(|(queue, by)| (*queue, *by))
    }

    /// Lanes that have changed: queue, lane, priority.
    pub(crate) fn all_lanes(&self) -> impl Iterator<Item = (u32, u32, Priority)> {
        self.lanes.keys().copied()
    }

    /// How many counters change.
    pub(crate) fn counter_count(&self) -> usize {
        self.counts.len()
    }

    /// Counters that change, by field. Those to which `known` has an answer are set to what they come to.
    pub(crate) fn settle_counters(&mut self, mut known: impl FnMut(&[u8]) -> Option<i64>) {
        let mut settled = Vec::new();
        self.counts.retain(|(lane, priority, state), by| {
            let field = counter(*lane, *priority, *state);
            let before = if *by == 0 { None } else { known(field.as_bytes()) };
            settled.extend(before.map(|before| (field, before + *by)));
            before.is_none()
        });
        for (field, count) in settled {
            self.set(Key::Counts, field, count.to_string());
        }
    }

    /// Writes all of it as arguments of the script that writes.
    pub(crate) fn ask(mut self, request: &mut Request<'_>) {
        for (key, fields) in self.fields {
            let (mut set, mut unset) = (Vec::with_capacity(2 * fields.len()), Vec::new());
            for (field, value) in fields {
                match value {
                    Some(value) => set.extend([field.into(), value]),
                    None => unset.push(field.into()),
                }
            }
            chunked(request, "HDEL", &key, unset);
            chunked(request, "HSET", &key, set);
        }
        for (key, scores) in self.scores {
            let (mut set, mut unset) = (Vec::with_capacity(2 * scores.len()), Vec::new());
            let leading = self.leading.remove(&key).unwrap_or_default();
            for (member, score) in scores {
                match score {
                    Some(score) => set.extend([score.to_string().into(), member.into()]),
                    None if leading.contains(&member[..]) => {}
                    None => unset.push(member.into()),
                }
            }
            if self.anew.contains(&key) {
                unset.clear();
                request.command("UNLINK", &key, std::iter::empty());
            }
            if !leading.is_empty() {
                let with = ["0".into(), (leading.len() - 1).to_string().into()];
                request.command("ZREMRANGEBYRANK", &key, with.into_iter());
            }
            chunked(request, "ZREM", &key, unset);
            chunked(request, "ZADD", &key, set);
        }
        for (key, members) in self.members {
            let (mut set, mut unset) = (Vec::new(), Vec::new());
            for (member, there) in members {
                if there { &mut set } else { &mut unset }.push(member.into());
            }
            chunked(request, "SREM", &key, unset);
            chunked(request, "SADD", &key, set);
        }
        for ((lane, priority, state), by) in self.counts {
            let field = counter(lane, priority, state);
            add(request, &Key::Counts, field, by);
        }
        for (queue, by) in self.depths {
            add(request, &Key::Depth, queue.to_string(), by);
        }
        for (key, number, entry) in self.entries {
            let with = [format!("{number}-0").into(), "e".into(), entry.into()];
            request.command("XADD", &key, with.into_iter());
        }
        for (key, first) in self.trims {
            let with = ["MINID".into(), format!("{first}-0").into()];
            request.command("XTRIM", &key, with.into_iter());
        }
        let (added, removed): (Vec<_>, Vec<_>) =
            self.listed.into_iter().partition(|(_, there)| *there);
        for (kind, ids) in [("R", removed), ("A", added)] {
            if !ids.is_empty() {
                let mut packed = Vec::with_capacity(ids.len() * 16);
                ids.iter().for_each(|(id, _)| packed.extend_from_slice(id.as_bytes()));
                request.text(kind);
                request.bytes(packed);
            }
        }
        ask_heads(self.lanes, request);
        for worker in self.holders {
            request.text("H");
            request.key(&Key::Held(worker));
            request.key(&Key::Leases);
            request.bytes(worker.as_bytes().to_vec());
        }
    }
}

/// Where lanes begin, in few commands.
fn ask_heads(lanes: BTreeMap<(u32, u32, Priority), Head>, request: &mut Request<'_>) {
    let mut heads: BTreeMap<Key, [Vec<Bytes>; 3]> = BTreeMap::new();
    for ((queue, lane, priority), head) in lanes {
        let key = Key::Heads(queue, priority);
        let number = || Bytes::from(lane.to_string());
        let [at, not_after, nowhere] = heads.entry(key.clone()).or_default();
        match head {
            Head::At(score) => at.extend([score.to_string().into(), number()]),
            Head::NotAfter(score) => not_after.extend([score.to_string().into(), number()]),
            Head::Nowhere => nowhere.push(number()),
            Head::Unknown => {
                request.text("H");
                request.key(&Key::Lane(lane, priority));
                request.key(&key);
                request.bytes(number());
            }
        }
    }
    for (key, [at, not_after, nowhere]) in heads {
        chunked(request, "ZREM", &key, nowhere);
        chunked(request, "ZADD", &key, at);
        for pairs in not_after.chunks(ARGUMENTS_MAX) {
            let with: Vec<_> = std::iter::once("LT".into()).chain(pairs.iter().cloned()).collect();
            request.command("ZADD", &key, with.into_iter());
        }
    }
}

/// The field of a counter: lane, priority, state.
fn counter(lane: u32, priority: Priority, state: StateName) -> String {
    format!("{lane}:{}:{}", priority.number(), state.index())
}

fn add(request: &mut Request<'_>, key: &Key, field: String, by: i64) {
    if by != 0 {
        request.command("HINCRBY", key, [field.into(), by.to_string().into()].into_iter());
    }
}

/// One command, or several where there are many arguments. The bound is even: pairs stay together.
fn chunked(request: &mut Request<'_>, command: &'static str, key: &Key, mut with: Vec<Bytes>) {
    while !with.is_empty() {
        let rest = with.split_off(with.len().min(ARGUMENTS_MAX));
        request.command(command, key, with.into_iter());
        with = rest;
    }
}
