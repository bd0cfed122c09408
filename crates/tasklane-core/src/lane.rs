//! Lanes, and which of them a worker takes.

use std::fmt;
use std::sync::Arc;

use crate::error::{Invalid, Problem};
use crate::limits;
use crate::name::{Capability, QueueName, TaskType};

/// A sorted set of capabilities; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CapabilitySet(Arc<[Capability]>);

impl CapabilitySet {
    /// Sorts and deduplicates.
    pub fn new(capabilities: impl IntoIterator<Item = Capability>) -> Result<Self, Invalid> {
        let mut sorted: Vec<_> = capabilities.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() > limits::CAPABILITIES_MAX {
            let max = limits::CAPABILITIES_MAX;
            return Err(Invalid::new("capabilities", Problem::TooMany { max }));
        }
        Ok(Self(Arc::from(sorted)))
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Capability> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every member is also in `other`.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|capability| other.0.binary_search(capability).is_ok())
    }

    /// Members of both.
    pub fn intersection(&self, other: &Self) -> Self {
        let both = self.0.iter().filter(|c| other.0.binary_search(c).is_ok());
        Self(both.cloned().collect())
    }
}

/// What decides who may run a task: tasks of one lane and priority wait in one line by place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The queue.
    pub queue: QueueName,
    /// The type.
    pub task_type: TaskType,
    /// What a worker must have.
    pub capabilities: CapabilitySet,
}

/// A name, or the beginning of names when it ends in `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Exactly this name.
    Exact(Arc<str>),
    /// Every name that begins so.
    Prefix(Arc<str>),
}

impl Pattern {
    /// Reads `email.send` or `email.*`.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if let Some(prefix) = text.strip_suffix('*') {
            if !prefix.is_empty() {
                QueueName::new(prefix).map_err(|e| Invalid::new("pattern", e.problem))?;
            }
            return Ok(Self::Prefix(Arc::from(prefix)));
        }
        QueueName::new(text).map_err(|e| Invalid::new("pattern", e.problem))?;
        Ok(Self::Exact(Arc::from(text)))
    }

    /// Whether `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => &**exact == name,
            Self::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }

    /// Whether every name that fits `other` fits this one.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(name)) => self.matches(name),
            (Self::Prefix(prefix), Self::Prefix(longer)) => longer.starts_with(&**prefix),
            (Self::Exact(_), Self::Prefix(_)) => false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// Which names are meant: all, or those that fit one of some patterns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Names {
    /// Every name.
    #[default]
    All,
    /// Names that fit at least one.
    Matching(Arc<[Pattern]>),
}

impl Names {
    /// Only names that fit one of `patterns`; an empty list means none at all.
    pub fn matching(patterns: Vec<Pattern>) -> Result<Self, Invalid> {
        if patterns.len() > limits::PATTERNS_MAX {
            let max = limits::PATTERNS_MAX;
            return Err(Invalid::new("patterns", Problem::TooMany { max }));
        }
        Ok(Self::Matching(Arc::from(patterns)))
    }

    /// Only these names, taken literally.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, Invalid> {
        let exact = |name| {
            QueueName::new(name)?;
            Ok(Pattern::Exact(Arc::from(name)))
        };
        Self::matching(names.into_iter().map(exact).collect::<Result<_, Invalid>>()?)
    }

    /// Whether `name` is meant.
    pub fn contain(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Matching(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }

    /// Names that both mean. Two patterns share all names of one of them, or none: so what is
    /// common is again patterns, at most as many as both have.
    pub fn and(&self, other: &Self) -> Self {
        let (Self::Matching(own), Self::Matching(others)) = (self, other) else {
            return if *self == Self::All { other.clone() } else { self.clone() };
        };
        let mut both: Vec<Pattern> = Vec::new();
        let narrower = |one: &[Pattern], wide: &[Pattern], both: &mut Vec<Pattern>| {
            for pattern in one.iter().filter(|one| wide.iter().any(|wide| wide.covers(one))) {
                if !both.contains(pattern) {
                    both.push(pattern.clone());
                }
            }
        };
        narrower(own, others, &mut both);
        narrower(others, own, &mut both);
        Self::Matching(Arc::from(both))
    }

    /// Whether no name is meant.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Matching(patterns) if patterns.is_empty())
    }

    /// Whether every name meant is one that `wider` means, as far as each pattern tells by itself.
    pub fn is_within(&self, wider: &Self) -> bool {
        let anything = [Pattern::Prefix(Arc::from(""))];
        let own = match self {
            Self::All => &anything[..],
            Self::Matching(patterns) => patterns,
        };
        match wider {
            Self::All => true,
            Self::Matching(wide) => own.iter().all(|own| wide.iter().any(|wide| wide.covers(own))),
        }
    }
}

/// What a worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// From which queues.
    pub queues: Names,
    /// Of which types.
    pub types: Names,
    /// With what it can do.
    pub capabilities: CapabilitySet,
}

impl Selection {
    /// Whether a task of `lane` may go to this worker (S8).
    pub fn takes(&self, lane: &Lane) -> bool {
        self.queues.contain(lane.queue.as_str())
            && self.types.contain(lane.task_type.as_str())
            && lane.capabilities.is_subset_of(&self.capabilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> CapabilitySet {
        CapabilitySet::new(names.iter().map(|n| Capability::new(n).unwrap())).unwrap()
    }

    fn lane(queue: &str, task_type: &str, capabilities: &[&str]) -> Lane {
        Lane {
            queue: QueueName::new(queue).unwrap(),
            task_type: TaskType::new(task_type).unwrap(),
            capabilities: set(capabilities),
        }
    }

    #[test]
    fn sets_do_not_depend_on_order_or_repetition() {
        assert_eq!(set(&["gpu", "eu", "gpu"]), set(&["eu", "gpu"]));
        assert!(set(&["gpu"]).is_subset_of(&set(&["eu", "gpu"])));
        assert!(!set(&["gpu", "big"]).is_subset_of(&set(&["eu", "gpu"])));
        assert_eq!(set(&["a", "b"]).intersection(&set(&["b", "c"])), set(&["b"]));
        assert!(
            CapabilitySet::new((0..33).map(|n| Capability::new(format!("c{n}")).unwrap())).is_err()
        );
    }

    #[test]
    fn a_worker_takes_what_fits_its_queues_types_and_capabilities() {
        let worker = Selection {
            queues: Names::only(["mail"]).unwrap(),
            types: Names::matching(vec![Pattern::new("email.*").unwrap()]).unwrap(),
            capabilities: set(&["eu"]),
        };
        assert!(worker.takes(&lane("mail", "email.send", &[])));
        assert!(worker.takes(&lane("mail", "email.send", &["eu"])));
        assert!(!worker.takes(&lane("mail", "email.send", &["gpu"])));
        assert!(!worker.takes(&lane("mail", "sms.send", &[])));
        assert!(!worker.takes(&lane("other", "email.send", &[])));
        assert!(Selection::default().takes(&lane("any", "thing", &[])));
    }

    fn patterns(texts: &[&str]) -> Names {
        Names::matching(texts.iter().map(|text| Pattern::new(text).unwrap()).collect()).unwrap()
    }

    #[test]
    fn what_two_lists_of_names_share_is_what_both_contain() {
        let lists = [
            Names::All,
            patterns(&[]),
            patterns(&["mail"]),
            patterns(&["mail*", "sms"]),
            patterns(&["mail.in*", "s*"]),
            patterns(&["*"]),
            patterns(&["mail.in", "push", "sms*"]),
        ];
        let names = ["mail", "mail.in", "mail.inner", "mail.out", "sms", "sms.eu", "push", "x"];
        for one in &lists {
            for other in &lists {
                let both = one.and(other);
                for name in names {
                    let expected = one.contain(name) && other.contain(name);
                    assert_eq!(both.contain(name), expected, "{one:?} and {other:?}: {name}");
                }
                if one.is_within(other) {
                    assert!(names.iter().all(|name| !one.contain(name) || other.contain(name)));
                }
                assert!(both.is_within(one) && both.is_within(other), "{both:?}");
            }
        }
        assert!(patterns(&["mail"]).and(&patterns(&["sms"])).is_none());
        assert!(Names::All.is_within(&patterns(&["a", "*"])));
        assert!(!Names::All.is_within(&patterns(&["a*"])));
        assert!(!patterns(&["a*"]).is_within(&patterns(&["a"])));
    }

    #[test]
    fn bad_patterns_are_refused_and_an_empty_list_means_none() {
        assert!(Pattern::new("").is_err() && Pattern::new("a:b*").is_err());
        assert!(Pattern::new("*").unwrap().matches("anything"));
        assert!(!Names::matching(vec![]).unwrap().contain("x"));
    }
}
