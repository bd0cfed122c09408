//! Labels: cheap to make for each event, and bounded in number.

use std::collections::HashSet;
use std::fmt::{self, Display, Write};
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use tasklane_core::{QueueName, TaskType};

/// A name, or one of those beyond the bound. Cloning one counts a reference and allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name<N> {
    Own(N),
    Other,
}

impl<N: Display> EncodeLabelValue for Name<N> {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Self::Own(name) => write!(encoder, "{name}"),
            Self::Other => encoder.write_str("other"),
        }
    }
}

/// The names that are told apart: the first that came, up to a bound.
#[derive(Debug)]
pub(super) struct Names<N> {
    known: RwLock<HashSet<N>>,
    max: usize,
}

impl<N: Clone + Eq + Hash> Names<N> {
    pub(super) fn new(max: usize) -> Self {
        Self { known: RwLock::default(), max }
    }

    pub(super) fn of(&self, name: &N) -> Name<N> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(name) {
            return Name::Own(name.clone());
        }
        if known.len() >= self.max {
            return Name::Other;
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < self.max {
            known.insert(name.clone());
        }
        if known.contains(name) { Name::Own(name.clone()) } else { Name::Other }
    }
}

pub(super) type Queue = Name<QueueName>;
pub(super) type Type = Name<TaskType>;
/// One of a few fixed words.
pub(super) type Word = &'static str;

macro_rules! labels {
    ($($name:ident { $($label:ident: $type:ty),* })*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name { $(pub(super) $label: $type),* }
    )*};
}

labels! {
    ByPriority { priority: Word }
    ByQueue { queue: Queue }
    ByQueueKind { queue: Queue, kind: Word }
    ByQueuePriority { queue: Queue, priority: Word }
    ByQueueReason { queue: Queue, reason: Word }
    ByReason { reason: Word }
    ByState { state: Word }
    FromTo { from: Word, to: Word }
    Retried { queue: Queue, priority: Word, reason: Word }
    ByVersion { version: Word }
}

/// Of tasks taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Taken {
    pub(super) queue: Queue,
    pub(super) r#type: Type,
    pub(super) priority: Word,
}

/// Of tasks that ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Ended {
    pub(super) queue: Queue,
    pub(super) r#type: Type,
    pub(super) status: Word,
}

/// Of attempts that ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Attempt {
    pub(super) r#type: Type,
    pub(super) status: Word,
    pub(super) priority: Word,
}

/// Of what waits, by type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByType {
    pub(super) r#type: Type,
}

/// Of answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answered {
    pub(super) route: Word,
    pub(super) status: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_one() {
        let names = Names::new(2);
        let name = |text: &str| QueueName::new(text).unwrap();
        for own in ["a", "b", "a"] {
            assert_eq!(names.of(&name(own)), Name::Own(name(own)));
        }
        assert_eq!(names.of(&name("c")), Name::Other);
    }
}
