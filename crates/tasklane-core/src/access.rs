//! What somebody may do, and where: verbs, and the queues and types within their reach.

use crate::error::{Invalid, Problem};
use crate::lane::{Lane, Names, Selection};
use crate::name::QueueName;

/// What a call does, as far as permission goes. None of them includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Bring tasks in, and cancel them one by one.
    Submit,
    /// Look: tasks, queues, workers, counters, events.
    Read,
    /// Be a worker.
    Work,
    /// Change what others brought in: tasks, queues, workers.
    Operate,
    /// What concerns the whole store: keys, the audit log, clean-ups, backups.
    Admin,
}

impl Verb {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Read, Self::Work, Self::Operate, Self::Admin];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Verb {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "submit, read, work, operate or admin";
        let known = Self::ALL.into_iter().find(|verb| verb.as_str() == text);
        known.ok_or(Invalid::new("verb", Problem::Malformed { expected }))
    }
}

/// Where a verb may be used. Two reaches have one in common, so that a question narrowed by a
/// reach is again a question of the same form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// In these queues.
    pub queues: Names,
    /// On tasks of these types.
    pub types: Names,
}

impl Reach {
    /// Whether it ends nowhere.
    pub fn is_everything(&self) -> bool {
        self.queues == Names::All && self.types == Names::All
    }

    /// Whether tasks of `lane` are within it.
    pub fn holds(&self, lane: &Lane) -> bool {
        self.queues.contain(lane.queue.as_str()) && self.types.contain(lane.task_type.as_str())
    }

    /// Whether all tasks of `queue` are within it, whatever their type.
    pub fn holds_all_of(&self, queue: &QueueName) -> bool {
        self.queues.contain(queue.as_str()) && Names::All.is_within(&self.types)
    }

    /// Whether everything that a worker may take is within it.
    pub fn holds_all_for(&self, worker: &Selection) -> bool {
        worker.queues.is_within(&self.queues) && worker.types.is_within(&self.types)
    }

    /// Whether something that a worker may take is within it.
    pub fn touches(&self, worker: &Selection) -> bool {
        !worker.queues.and(&self.queues).is_none() && !worker.types.and(&self.types).is_none()
    }

    /// What is left of a worker's selection inside of it.
    pub fn narrow(&self, selection: Selection) -> Selection {
        Selection {
            queues: selection.queues.and(&self.queues),
            types: selection.types.and(&self.types),
            capabilities: selection.capabilities,
        }
    }
}

/// One verb and where it may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// What.
    pub verb: Verb,
    /// Where.
    pub reach: Reach,
}

/// Everything that somebody may do: each verb at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants([Option<Reach>; Verb::ALL.len()]);

impl Grants {
    /// Checks scopes: at least one, each verb once, and `admin` without an end.
    pub fn new(scopes: impl IntoIterator<Item = Scope>) -> Result<Self, Invalid> {
        let malformed = |expected| Invalid::new("scopes", Problem::Malformed { expected });
        let mut grants = Self(Default::default());
        for Scope { verb, reach } in scopes {
            if verb == Verb::Admin && !reach.is_everything() {
                // It can make keys that reach further, so that a bound would bind nobody.
                return Err(malformed("without queues and types where the verb is admin"));
            }
            let Some(place) = grants.0.get_mut(verb as usize) else { continue };
            if place.replace(reach).is_some() {
                return Err(malformed("a list that names each verb once"));
            }
        }
        if grants.0.iter().all(Option::is_none) {
            return Err(Invalid::new("scopes", Problem::Empty));
        }
        Ok(grants)
    }

    /// Every verb everywhere.
    pub fn everything() -> Self {
        Self(std::array::from_fn(|_| Some(Reach::default())))
    }

    /// Where `verb` may be used; `None` if nowhere.
    pub fn reach(&self, verb: Verb) -> Option<&Reach> {
        self.0.get(verb as usize)?.as_ref()
    }

    /// The scopes, in the order of their verbs.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> {
        let scope = |verb| self.reach(verb).map(|reach| Scope { verb, reach: reach.clone() });
        Verb::ALL.into_iter().filter_map(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{CapabilitySet, Pattern};
    use crate::name::TaskType;

    fn names(patterns: &[&str]) -> Names {
        Names::matching(patterns.iter().map(|text| Pattern::new(text).unwrap()).collect()).unwrap()
    }

    fn scope(verb: Verb, reach: Reach) -> Scope {
        Scope { verb, reach }
    }

    fn mail() -> Reach {
        Reach { queues: names(&["mail*"]), types: names(&["email.*", "sms"]) }
    }

    #[test]
    fn a_reach_holds_what_fits_its_queues_and_its_types() {
        let lane = |queue: &str, task_type: &str| Lane {
            queue: QueueName::new(queue).unwrap(),
            task_type: TaskType::new(task_type).unwrap(),
            capabilities: CapabilitySet::default(),
        };
        assert!(mail().holds(&lane("mail.eu", "sms")));
        assert!(!mail().holds(&lane("mail.eu", "fax")) && !mail().holds(&lane("x", "sms")));
        assert!(Reach::default().holds(&lane("x", "y")) && Reach::default().is_everything());
        let queue = QueueName::new("mail").unwrap();
        assert!(!mail().holds_all_of(&queue));
        assert!(Reach { types: Names::All, ..mail() }.holds_all_of(&queue));
    }

    #[test]
    fn a_worker_is_narrowed_to_what_is_within_reach() {
        let everything = Selection::default();
        let narrowed = mail().narrow(everything.clone());
        assert_eq!((&narrowed.queues, &narrowed.types), (&mail().queues, &mail().types));
        assert!(mail().holds_all_for(&narrowed) && !mail().holds_all_for(&everything));
        assert!(mail().touches(&everything));
        let other = Selection { queues: names(&["video"]), ..Selection::default() };
        assert!(!mail().touches(&other) && mail().narrow(other).queues.is_none());
    }

    #[test]
    fn each_verb_is_granted_once_and_admin_has_no_bounds() {
        let grants =
            Grants::new([scope(Verb::Submit, mail()), scope(Verb::Read, Reach::default())])
                .unwrap();
        assert_eq!(grants.reach(Verb::Submit), Some(&mail()));
        assert_eq!(grants.reach(Verb::Work), None);
        assert_eq!(Grants::new(grants.scopes()).unwrap(), grants);
        assert!(Grants::new([]).is_err());
        let twice = [scope(Verb::Read, mail()), scope(Verb::Read, Reach::default())];
        assert!(Grants::new(twice).is_err());
        assert!(Grants::new([scope(Verb::Admin, mail())]).is_err());
        assert_eq!(Grants::everything().scopes().count(), 5);
    }

    #[test]
    fn verbs_survive_text() {
        for verb in Verb::ALL {
            assert_eq!(verb.as_str().parse::<Verb>().unwrap(), verb);
        }
        assert!("Submit".parse::<Verb>().is_err() && "".parse::<Verb>().is_err());
    }
}
