//! What a group of calls changes: only what comes out in the end, key by key.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tasklane_core::{Priority, TaskId};

use crate::keys::Key;
use crate::read::ARGUMENTS_MAX;
use crate::request::Request;

/// Changes of many keys. The order in which they were made does not matter any more.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    fields: BTreeMap<Key, BTreeMap<Vec<u8>, Option<Bytes>>>,
    scores: BTreeMap<Key, BTreeMap<Vec<u8>, Option<i64>>>,
    members: BTreeMap<Key, BTreeMap<Vec<u8>, bool>>,
    sums: BTreeMap<Key, BTreeMap<Vec<u8>, i64>>,
    lists: BTreeMap<Key, (Vec<Vec<u8>>, Option<usize>)>,
    removed: BTreeSet<Key>,
    entries: Vec<(Key, u64, Vec<u8>)>,
    trims: Vec<(Key, u64)>,
    listed: BTreeMap<TaskId, bool>,
    /// Lanes that have changed: queue, lane, priority.
    lanes: BTreeSet<(u32, u32, Priority)>,
}

impl Writes {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
            && self.scores.is_empty()
            && self.members.is_empty()
            && self.sums.is_empty()
            && self.lists.is_empty()
            && self.removed.is_empty()
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

    /// How a sorted set changes.
    pub(crate) fn scores(&self, key: &Key) -> Option<&BTreeMap<Vec<u8>, Option<i64>>> {
        self.scores.get(key)
    }

    /// Adds or removes a member of a set.
    pub(crate) fn member(&mut self, key: Key, member: impl Into<Vec<u8>>, there: bool) {
        self.members.entry(key).or_default().insert(member.into(), there);
    }

    /// How a set changes.
    pub(crate) fn members(&self, key: &Key) -> Option<&BTreeMap<Vec<u8>, bool>> {
        self.members.get(key)
    }

    /// Adds to a counter.
    pub(crate) fn add(&mut self, key: Key, field: impl Into<Vec<u8>>, by: i64) {
        *self.sums.entry(key).or_default().entry(field.into()).or_default() += by;
    }

    /// By how much a counter changes.
    pub(crate) fn sum(&self, key: &Key, field: &[u8]) -> i64 {
        self.sums.get(key).and_then(|sums| sums.get(field)).copied().unwrap_or_default()
    }

    /// Appends to a list.
    pub(crate) fn push(&mut self, key: Key, item: Vec<u8>) {
        self.lists.entry(key).or_default().0.push(item);
    }

    /// What is appended to a list.
    pub(crate) fn pushed(&self, key: &Key) -> &[Vec<u8>] {
        self.lists.get(key).map_or(&[], |(items, _)| items)
    }

    /// Whether a key is removed before anything is added to it.
    pub(crate) fn is_removed(&self, key: &Key) -> bool {
        self.removed.contains(key)
    }

    /// Keeps only the last so many of a list.
    pub(crate) fn keep_last(&mut self, key: Key, count: usize) {
        self.lists.entry(key).or_default().1 = Some(count);
    }

    /// Removes a list.
    pub(crate) fn remove(&mut self, key: Key) {
        self.lists.remove(&key);
        self.removed.insert(key);
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
        self.lanes.insert((queue, lane, priority));
    }

    /// Lanes of a queue and priority that have changed.
    pub(crate) fn touched(&self, queue: u32, priority: Priority) -> Vec<u32> {
        let there =
            self.lanes.range((queue, 0, Priority::Low)..=(queue, u32::MAX, Priority::Critical));
        there.filter(|(_, _, own)| *own == priority).map(|(_, lane, _)| *lane).collect()
    }

    /// Fields that change, by hash.
    pub(crate) fn all_fields(
        &self,
    ) -> impl Iterator<Item = (&Key, &BTreeMap<Vec<u8>, Option<Bytes>>)> {
        self.fields.iter()
    }

    /// Members that change, by sorted set.
    pub(crate) fn all_scores(
        &self,
    ) -> impl Iterator<Item = (&Key, &BTreeMap<Vec<u8>, Option<i64>>)> {
        self.scores.iter()
    }

    /// Counters that change, by hash.
    pub(crate) fn all_sums(&self) -> impl Iterator<Item = (&Key, &BTreeMap<Vec<u8>, i64>)> {
        self.sums.iter()
    }

    /// Lanes that have changed: queue, lane, priority.
    pub(crate) fn all_lanes(&self) -> impl Iterator<Item = (u32, u32, Priority)> {
        self.lanes.iter().copied()
    }

    /// Writes all of it as arguments of the script that writes.
    pub(crate) fn ask(self, request: &mut Request<'_>) {
        for key in &self.removed {
            request.command("UNLINK", key, std::iter::empty::<Vec<u8>>());
        }
        for (key, fields) in self.fields {
            let (set, unset): (Vec<_>, Vec<_>) =
                fields.into_iter().partition(|(_, value)| value.is_some());
            let unset = unset.into_iter().map(|(field, _)| field).collect();
            let set = set.into_iter();
            let set = set.flat_map(|(field, value)| [field, value.unwrap_or_default().to_vec()]);
            chunked(request, "HDEL", &key, unset);
            chunked(request, "HSET", &key, set.collect());
        }
        for (key, scores) in self.scores {
            let (set, unset): (Vec<_>, Vec<_>) =
                scores.into_iter().partition(|(_, score)| score.is_some());
            let unset = unset.into_iter().map(|(member, _)| member).collect();
            let set = set.into_iter().flat_map(|(member, score)| {
                [score.unwrap_or_default().to_string().into_bytes(), member]
            });
            chunked(request, "ZREM", &key, unset);
            chunked(request, "ZADD", &key, set.collect());
        }
        for (key, members) in self.members {
            let (set, unset): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, there)| *there);
            let only = |members: Vec<(Vec<u8>, bool)>| -> Vec<Vec<u8>> {
                members.into_iter().map(|(member, _)| member).collect()
            };
            chunked(request, "SREM", &key, only(unset));
            chunked(request, "SADD", &key, only(set));
        }
        for (key, sums) in self.sums {
            for (field, by) in sums.into_iter().filter(|(_, by)| *by != 0) {
                let with = [field, by.to_string().into_bytes()];
                request.command("HINCRBY", &key, with.into_iter());
            }
        }
        for (key, (items, keep)) in self.lists {
            chunked(request, "RPUSH", &key, items);
            if let Some(keep) = keep {
                let with = [format!("-{keep}").into_bytes(), b"-1".to_vec()];
                request.command("LTRIM", &key, with.into_iter());
            }
        }
        for (key, number, entry) in self.entries {
            let with = [format!("{number}-0").into_bytes(), b"e".to_vec(), entry];
            request.command("XADD", &key, with.into_iter());
        }
        for (key, first) in self.trims {
            let with = [b"MINID".to_vec(), format!("{first}-0").into_bytes()];
            request.command("XTRIM", &key, with.into_iter());
        }
        let (added, removed): (Vec<_>, Vec<_>) =
            self.listed.into_iter().partition(|(_, there)| *there);
        for (kind, ids) in [("R", removed), ("A", added)] {
            if !ids.is_empty() {
                request.text(kind);
                request.number(ids.len());
                ids.iter().for_each(|(id, _)| request.bytes(id.as_bytes().to_vec()));
            }
        }
        for (queue, lane, priority) in self.lanes {
            request.text("H");
            request.key(&Key::Lane(lane, priority));
            request.key(&Key::Heads(queue, priority));
            request.number(lane);
        }
    }
}

/// One command, or several where there are many arguments. The bound is even: pairs stay together.
fn chunked(request: &mut Request<'_>, command: &str, key: &Key, with: Vec<Vec<u8>>) {
    for part in with.chunks(ARGUMENTS_MAX) {
        request.command(command, key, part.iter().cloned());
    }
}
