//! Which events a live reader wants, and where it begins.

use std::collections::HashSet;

use axum::http::HeaderMap;
use tasklane_core::{Names, Pattern, QueueName, Reach, TaskId};
use tasklane_store::{Cursor, FeedEvent, Subject};

use super::kind;
use crate::engine::Told;
use crate::http::problem::{self, Refused};
use crate::http::query::{Form, Known, Parameters, known, parameters};
use crate::limits::FILTER_NAMES_MAX;

const LAST_EVENT_ID: &str = "last-event-id";

const EVENTS: &[Known] = &[
    known("kinds", Form::Text, "Only these kinds, for example task.completed,worker.*"),
    known("type", Form::Text, "Only tasks of these types, separated by commas"),
    known("queue", Form::Text, "Only of these queues, separated by commas"),
    known("task_id", Form::Text, "Only of these tasks, separated by commas"),
    known("cursor", Form::Text, "Go on after this event; the header Last-Event-ID counts more"),
];

parameters!(
    /// What live readers may ask for.
    Events = [EVENTS]
);

/// What a live reader asked for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) filter: Filter,
    /// The last event it has seen.
    pub(super) cursor: Option<Cursor>,
}

/// Which events a live reader gets: those that fit every part.
#[derive(Debug)]
pub(super) struct Filter {
    /// A bit for each kind.
    kinds: u64,
    types: Names,
    queues: Names,
    tasks: Option<HashSet<TaskId>>,
}

impl Wish {
    /// Reads what was asked for, and where a client that comes back left off.
    pub(super) fn read(
        parameters: &Parameters<Events>,
        headers: &HeaderMap,
    ) -> Result<Self, Refused> {
        let list = |name| -> Result<Vec<&str>, Refused> {
            let text = parameters.text(name)?;
            let names: Vec<_> = text.into_iter().flat_map(|text| text.split(',')).collect();
            if names.len() > FILTER_NAMES_MAX {
                let detail = format!("at most {FILTER_NAMES_MAX}");
                return Err(refused(name, "too-many", &detail));
            }
            Ok(names.into_iter().map(str::trim).collect())
        };
        // The client that comes back repeats its first address: what it saw last is newer.
        let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("-"));
        let seen = header.filter(|seen| !seen.is_empty());
        let cursor = match seen {
            Some(seen) => Some(seen),
            None => parameters.text("cursor")?,
        };
        let filter = Filter {
            kinds: read_kinds(&list("kinds")?)?,
            types: read_names("type", &list("type")?)?,
            queues: read_names("queue", &list("queue")?)?,
            tasks: read_tasks(&list("task_id")?)?,
        };
        Ok(Self { filter, cursor: cursor.map(read_cursor).transpose()? })
    }
}

impl Wish {
    /// What is left of it within somebody's reach. What is about no queue, such as workers and the
    /// figures of the whole server, is for those who reach everything.
    pub(super) fn within(mut self, reach: &Reach) -> Self {
        self.filter.queues = self.filter.queues.and(&reach.queues);
        self.filter.types = self.filter.types.and(&reach.types);
        self
    }
}

impl Filter {
    /// Whether an event is wanted.
    pub(super) fn takes(&self, event: &FeedEvent) -> bool {
        if self.kinds & (1 << kind::number(&event.subject)) == 0 {
            return false;
        }
        match &event.subject {
            Subject::Task(notice) => {
                self.queues.contain(notice.lane.queue.as_str())
                    && self.types.contain(notice.lane.task_type.as_str())
                    && self.tasks.as_ref().is_none_or(|tasks| tasks.contains(&notice.id))
            }
            Subject::Worker(..) => self.is_about(None),
            Subject::Queue(queue, _) => self.is_about(Some(queue)),
        }
    }

    /// Whether something told besides is wanted.
    pub(super) fn takes_told(&self, told: &Told) -> bool {
        let number = kind::KINDS.iter().position(|known| *known == told.kind);
        number.is_some_and(|number| self.kinds & (1 << number) != 0)
            && self.is_about(told.queue.as_ref())
    }

    /// Whether something is wanted that is about no task.
    fn is_about(&self, queue: Option<&QueueName>) -> bool {
        let queue = match (&self.queues, queue) {
            (Names::All, _) => true,
            (names, Some(queue)) => names.contain(queue.as_str()),
            (Names::Matching(_), None) => false,
        };
        queue && self.types == Names::All && self.tasks.is_none()
    }
}

fn refused(name: &str, code: &'static str, detail: &str) -> Refused {
    Refused::field(problem::VALIDATION_FAILED, format!("?{name}"), code, detail)
}

fn read_cursor(text: &str) -> Result<Cursor, Refused> {
    let detail = "give a cursor as this server told it, or none to begin now";
    text.parse().map_err(|_| Refused::new(problem::INVALID_CURSOR, detail))
}

/// `task.completed`, `worker.*` or `*`; none is all.
fn read_kinds(words: &[&str]) -> Result<u64, Refused> {
    if words.is_empty() {
        return Ok(u64::MAX);
    }
    let mut bits = 0;
    for word in words {
        let prefix =
            word.strip_suffix('*').filter(|prefix| prefix.is_empty() || prefix.ends_with('.'));
        let fits = |known: &str| match prefix {
            Some(prefix) => known.starts_with(prefix),
            None => known == *word,
        };
        let mut found = kind::TO_COME.iter().any(|some| word.starts_with(some));
        for (number, _) in kind::KINDS.iter().enumerate().filter(|(_, known)| fits(known)) {
            found = true;
            bits |= 1 << number;
        }
        if !found {
            return Err(refused("kinds", "malformed", "kinds such as task.completed or worker.*"));
        }
    }
    Ok(bits)
}

fn read_names(name: &'static str, texts: &[&str]) -> Result<Names, Refused> {
    if texts.is_empty() {
        return Ok(Names::All);
    }
    let invalid =
        |invalid: tasklane_core::Invalid| refused(name, "malformed", &invalid.problem.to_string());
    let patterns = texts.iter().map(|text| Pattern::new(text)).collect::<Result<_, _>>();
    Names::matching(patterns.map_err(invalid)?).map_err(invalid)
}

fn read_tasks(texts: &[&str]) -> Result<Option<HashSet<TaskId>>, Refused> {
    if texts.is_empty() {
        return Ok(None);
    }
    let malformed = |_| refused("task_id", "malformed", "ids of tasks");
    texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Some).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use tasklane_core::{Timestamp, WorkerId};
    use tasklane_store::{Position, QueueChange, WorkerChange};

    fn read(query: &str) -> Result<Wish, Refused> {
        Wish::read(&Parameters::read(query)?, &HeaderMap::new())
    }

    fn event(subject: Subject) -> FeedEvent {
        FeedEvent { at: Timestamp::EPOCH, position: Position(1), subject }
    }

    fn worker(change: WorkerChange) -> FeedEvent {
        event(Subject::Worker(WorkerId::from_bytes([1; 16]), change))
    }

    fn queue(name: &str) -> FeedEvent {
        event(Subject::Queue(QueueName::new(name).unwrap(), QueueChange::Paused))
    }

    #[test]
    fn kinds_are_exact_or_a_beginning() {
        let exact = read("kinds=worker.dead,queue.*").unwrap().filter;
        assert!(exact.takes(&worker(WorkerChange::Dead)) && exact.takes(&queue("a")));
        assert!(!exact.takes(&worker(WorkerChange::Joined)));
        let all = read("").unwrap().filter;
        assert!(all.takes(&worker(WorkerChange::Joined)));
        for bad in ["kinds=worker", "kinds=worker*", "kinds=task.done", "kinds=,"] {
            assert_eq!(read(bad).unwrap_err().kind(), problem::VALIDATION_FAILED, "{bad}");
        }
        assert!(read("kinds=workflow.*").is_ok());
    }

    #[test]
    fn what_has_no_queue_is_not_of_one() {
        let filter = read("queue=mail,print*").unwrap().filter;
        assert!(filter.takes(&queue("mail")) && filter.takes(&queue("printer")));
        assert!(!filter.takes(&queue("other")) && !filter.takes(&worker(WorkerChange::Dead)));
    }

    #[test]
    fn nobody_hears_of_what_is_out_of_reach() {
        let mail = Names::matching(vec![Pattern::new("mail*").unwrap()]).unwrap();
        let by_queue = Reach { queues: mail.clone(), types: Names::All };
        let filter = read("").unwrap().within(&by_queue).filter;
        assert!(filter.takes(&queue("mail.eu")) && !filter.takes(&queue("other")));
        assert!(!filter.takes(&worker(WorkerChange::Dead)));
        let filter = read("queue=other").unwrap().within(&by_queue).filter;
        assert!(!filter.takes(&queue("other")) && !filter.takes(&queue("mail")));
        let by_type = Reach { queues: Names::All, types: mail };
        let filter = read("").unwrap().within(&by_type).filter;
        assert!(!filter.takes(&queue("mail")) && !filter.takes(&worker(WorkerChange::Dead)));
        let filter = read("").unwrap().within(&Reach::default()).filter;
        assert!(filter.takes(&queue("x")) && filter.takes(&worker(WorkerChange::Dead)));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (bad, kind) in [
            ("color=red", problem::VALIDATION_FAILED),
            ("task_id=1", problem::VALIDATION_FAILED),
            ("queue=a:b", problem::VALIDATION_FAILED),
            ("cursor=1", problem::INVALID_CURSOR),
        ] {
            assert_eq!(read(bad).unwrap_err().kind(), kind, "{bad}");
        }
    }

    #[test]
    fn what_was_seen_last_counts_more_than_the_address() {
        let cursor = |position| Cursor { epoch: 7, position: Position(position) };
        let query = Parameters::read(&format!("cursor={}", cursor(1))).unwrap();
        let mut headers = HeaderMap::new();
        assert_eq!(Wish::read(&query, &headers).unwrap().cursor, Some(cursor(1)));
        let seen = HeaderValue::try_from(cursor(5).to_string()).unwrap();
        headers.insert(LAST_EVENT_ID, seen);
        assert_eq!(Wish::read(&query, &headers).unwrap().cursor, Some(cursor(5)));
    }
}
