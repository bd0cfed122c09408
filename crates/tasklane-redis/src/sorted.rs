//! The beginning of a sorted set, as it was read and has been changed since.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::snapshot::Firsts;

/// Members by score and, within one score, by their bytes: the order of Redis.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    items: BTreeSet<(i64, Bytes)>,
    /// What stands behind this one was not read.
    bound: Option<(i64, Bytes)>,
}

/// What is first, as far as was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    /// This.
    Is(i64, Bytes),
    /// There is none.
    None,
    /// More has to be read to know.
    Unknown,
}

impl Sorted {
    /// From what was read, and how it has changed.
    pub(crate) fn new(read: &Firsts, changes: Option<&BTreeMap<Vec<u8>, Option<i64>>>) -> Self {
        let bound = if read.complete { None } else { read.items.last().cloned() };
        let mut sorted = Self { items: read.items.iter().cloned().collect(), bound };
        for (member, score) in changes.into_iter().flatten() {
            sorted.items.retain(|(_, known)| known != member);
            if let Some(score) = score {
                sorted.insert(*score, member.clone().into());
            }
        }
        sorted
    }

    pub(crate) fn insert(&mut self, score: i64, member: Bytes) {
        self.items.insert((score, member));
    }

    pub(crate) fn remove(&mut self, score: i64, member: &Bytes) {
        self.items.remove(&(score, member.clone()));
    }

    pub(crate) fn first(&self) -> First {
        match (self.items.first(), &self.bound) {
            (Some(first), Some(bound)) if first > bound => First::Unknown,
            (None, Some(_)) => First::Unknown,
            (Some((score, member)), _) => First::Is(*score, member.clone()),
            (None, None) => First::None,
        }
    }
}
