//! Which tasks are meant: as a query says it, and as a body does.

use tasklane_client::wire;
use tasklane_core::{
    Invalid, Metadata, Names, Pattern, Problem, QueueName, Reach, StateName, limits,
};
use tasklane_store::{Filter, PageCursor, Query};

use super::problem::{self, Refused};
use super::query::{Form, Known, KnownParameters, Parameters, known};
use crate::limits::PAGE_DEFAULT;

/// Parameters that choose tasks, apart from their state.
pub(crate) const TASKS: &[Known] = &[
    known("type", Form::Text, "Of this type, or types that begin so with `*`."),
    known("queue", Form::Text, "In this queue, or queues that begin so with `*`."),
    known("priority", Form::Text, "Of this base priority: a word, or a number from 0 to 3."),
    known("worker_id", Form::Id, "Held by this worker, or completed by it."),
    known("metadata.", Form::Text, "With this label; may be given for several labels."),
    known("created_after", Form::Time, "Created at or after."),
    known("created_before", Form::Time, "Created before."),
    known("error", Form::Text, "Whose last error's message or code contains this, in any case."),
];

/// The parameter that chooses tasks by their state.
pub(crate) const STATE: &[Known] = &[known(
    "state",
    Form::Text,
    "In one of these states, separated by commas. `queued` is `pending`; `executing`, `processing` and `in_progress` are `running`.",
)];

/// Parameters of every list that has pages.
pub(crate) const PAGE: &[Known] = &[
    known("limit", Form::Number, "How many at most: 1 to 1,000; 50 if absent."),
    known("cursor", Form::Text, "Go on after an earlier page: its `next_cursor`."),
];

/// The parameter of an operation on many that goes on.
pub(crate) const CURSOR: &[Known] =
    &[known("cursor", Form::Text, "Go on where an earlier call stopped: its `next_cursor`.")];

/// The parameter that asks for a count.
pub(crate) const COUNTS: &[Known] =
    &[known("counts", Form::Flag, "`true`: also count all that match, up to 10,000 looked at.")];

/// The filter of a query string.
pub(crate) fn from_query<K: KnownParameters>(
    parameters: &Parameters<K>,
    reach: &Reach,
) -> Result<Filter, Refused> {
    let names = |field: &'static str| match parameters.text(field)? {
        None => Ok(Names::All),
        Some(text) => names(field, text).map_err(|invalid| at_parameter(&invalid)),
    };
    let labels = Metadata::new(parameters.beginning_with("metadata."))
        .map_err(|invalid| at_parameter(&invalid))?;
    let wanted = Filter {
        states: parameters.states("state")?,
        queues: names("queue")?,
        types: names("type")?,
        priority: parameters.priority("priority")?,
        worker: parameters.parsed("worker_id", "a UUID")?,
        metadata: owned(&labels),
        created_after: parameters.time("created_after")?,
        created_before: parameters.time("created_before")?,
        in_state_before: None,
        error: parameters.text("error")?.map(Into::into),
    };
    Ok(within(wanted, reach))
}

/// What is left of a filter within somebody's reach: the store looks for nothing else.
pub(crate) fn within(filter: Filter, reach: &Reach) -> Filter {
    let (queues, types) = (filter.queues.and(&reach.queues), filter.types.and(&reach.types));
    Filter { queues, types, ..filter }
}

/// The filter of a body, not narrowed yet; `under` is the pointer to it.
pub(crate) fn from_body(filter: &wire::TaskFilter, under: &str) -> Result<Filter, Refused> {
    let refused = |invalid: Invalid| Refused::invalid(under, &invalid);
    let names = |field: &'static str, text: &Option<Box<str>>| match text {
        None => Ok(Names::All),
        Some(text) => names(field, text).map_err(refused),
    };
    let labels = Metadata::new(filter.metadata.iter().flatten()).map_err(refused)?;
    Ok(Filter {
        states: filter.states.iter().flatten().map(|state| state.0).collect(),
        queues: names("queue", &filter.queue)?,
        types: names("type", &filter.task_type)?,
        priority: filter.priority.map(|priority| priority.0),
        worker: filter.worker_id.map(|worker| worker.0),
        metadata: owned(&labels),
        created_after: filter.created_after.map(|time| time.0),
        created_before: filter.created_before.map(|time| time.0),
        in_state_before: None,
        error: filter.error.as_deref().map(part_of_error).transpose().map_err(refused)?,
    })
}

/// A text to look for in errors: an empty one would be in all of them.
fn part_of_error(text: &str) -> Result<Box<str>, Invalid> {
    let problem = match text {
        "" => Problem::Empty,
        text if text.contains('\0') => Problem::Characters,
        text => return Ok(text.into()),
    };
    Err(Invalid::new("error", problem))
}

/// A filter that names nothing would mean everything: too much to be meant by leaving it out.
pub(crate) fn at_least_one(filter: &Filter) -> Result<(), Refused> {
    if *filter != Filter::default() {
        return Ok(());
    }
    let detail = "give at least one member; states alone will do";
    Err(Refused::field(problem::VALIDATION_FAILED, "/filter", "empty", detail))
}

/// Narrows a filter to `possible` states; those that were asked for and are none of them are
/// refused with the pointer.
pub(crate) fn only_states(
    filter: &mut Filter,
    possible: &[StateName],
    pointer: &str,
) -> Result<(), Refused> {
    if filter.states.is_empty() {
        filter.states = possible.to_vec();
    }
    if filter.states.iter().all(|state| possible.contains(state)) {
        return Ok(());
    }
    let words: Vec<_> = possible.iter().map(|state| state.as_str()).collect();
    let detail = format!("only {} can be meant here", words.join(", "));
    Err(Refused::field(problem::VALIDATION_FAILED, pointer, "malformed", detail))
}

/// A page of what `filter` means.
pub(crate) fn page<K: KnownParameters>(
    parameters: &Parameters<K>,
    filter: Filter,
) -> Result<Query, Refused> {
    Ok(Query { after: after(parameters)?, ..Query::new(filter, limit(parameters)?) })
}

/// Where an earlier call stopped, as a query says it.
pub(crate) fn after<K: KnownParameters>(
    parameters: &Parameters<K>,
) -> Result<Option<PageCursor>, Refused> {
    parameters.text("cursor")?.map(cursor).transpose()
}

/// How many records a page may have.
pub(crate) fn limit<K: KnownParameters>(parameters: &Parameters<K>) -> Result<usize, Refused> {
    let limit = parameters.number("limit", 1..=limits::PAGE_MAX as u64)?;
    Ok(limit.map_or(PAGE_DEFAULT, |limit| limit as usize))
}

/// Where an earlier page ended.
pub(crate) fn cursor(text: &str) -> Result<PageCursor, Refused> {
    text.parse().map_err(|_| bad_cursor())
}

/// The same in a body, looked at before it is known whether anything goes on there: what is none of ours
/// is a mistake in any case.
pub(crate) fn cursor_in(member: Option<&str>) -> Result<Option<PageCursor>, Refused> {
    member.map(cursor).transpose()
}

/// Where to go on behind a queue.
pub(crate) fn cursor_behind(queue: &QueueName) -> Box<str> {
    queue.as_str().bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// What an earlier page ended with: the bytes of a name, or of what stands where one could.
pub(crate) fn queue_before(cursor: &str) -> Result<Vec<u8>, Refused> {
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = cursor.as_bytes().chunks(2).map(byte).collect();
    let fits = |bytes: &Vec<u8>| (1..=limits::NAME_BYTES_MAX).contains(&bytes.len());
    bytes.filter(fits).ok_or_else(bad_cursor)
}

/// A cursor that is none of ours.
pub(crate) fn bad_cursor() -> Refused {
    Refused::new(problem::INVALID_CURSOR, "give next_cursor of an earlier answer, unchanged")
}

fn names(field: &'static str, text: &str) -> Result<Names, Invalid> {
    Pattern::new(text)
        .and_then(|pattern| Names::matching(vec![pattern]))
        .map_err(|invalid| Invalid::new(field, invalid.problem))
}

fn owned(labels: &Metadata) -> Vec<(Box<str>, Box<str>)> {
    labels.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// What is wrong with a parameter: the kind as for a member of a body, the pointer as for a query.
fn at_parameter(invalid: &Invalid) -> Refused {
    let kind = Refused::invalid("", invalid).kind();
    Refused::field(kind, format!("?{}", invalid.field), kind.word, invalid.problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::query::parameters;

    parameters!(Sample = [TASKS, STATE, PAGE]);

    fn filter(query: &str) -> Result<Filter, Refused> {
        from_query(&Parameters::<Sample>::read(query).unwrap(), &Reach::default())
    }

    #[test]
    fn a_query_and_a_body_mean_the_same() {
        let query = filter(
            "state=queued,retrying&type=email.*&queue=mail&priority=2&metadata.user=7&error=boom&created_after=2026-11-15T12:00:00Z",
        );
        let body = r#"{"states": ["pending", "retrying"], "type": "email.*", "queue": "mail",
            "priority": "high", "metadata": {"user": "7"}, "error": "boom",
            "created_after": "2026-11-15T12:00:00Z"}"#;
        let body = from_body(&serde_json::from_str(body).unwrap(), "/filter").unwrap();
        assert_eq!(query.unwrap(), body);
        assert!(at_least_one(&body).is_ok());
        assert!(at_least_one(&filter("").unwrap()).is_err());
    }

    #[test]
    fn a_body_does_not_look_for_what_is_in_every_error() {
        for (error, kind) in [("", "validation-failed"), ("a\0", "invalid-characters")] {
            let body = wire::TaskFilter { error: Some(error.into()), ..Default::default() };
            assert_eq!(from_body(&body, "/filter").unwrap_err().kind().word, kind);
        }
    }

    #[test]
    fn a_filter_never_means_more_than_is_within_reach() {
        let names = |text| names("queue", text).unwrap();
        let reach = Reach { queues: names("mail*"), types: Names::All };
        let narrowed = |query: &str| {
            from_query(&Parameters::<Sample>::read(query).unwrap(), &reach).unwrap().queues
        };
        assert_eq!(narrowed(""), names("mail*"));
        assert_eq!(narrowed("queue=mail.eu"), names("mail.eu"));
        assert!(narrowed("queue=video").is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |query: &str| filter(query).unwrap_err().kind().word;
        assert_eq!(refused("queue=a:b"), "invalid-characters");
        assert_eq!(refused("priority=7"), "out-of-range");
        assert_eq!(refused("priority=urgent"), "validation-failed");
        assert_eq!(refused("worker_id=me"), "validation-failed");
        assert_eq!(refused("type="), "validation-failed");
        assert_eq!(cursor("abc").unwrap_err().kind().word, "invalid-cursor");
    }

    #[test]
    fn a_list_of_queues_goes_on_behind_any_name() {
        for name in ["a", "mail.eu", "größe 7", &"x".repeat(128)] {
            let queue = QueueName::new(name).unwrap();
            assert_eq!(queue_before(&cursor_behind(&queue)).unwrap(), name.as_bytes());
        }
        for cursor in ["", "6", "616", "zz", "+1", "3A", &"61".repeat(129)] {
            assert_eq!(queue_before(cursor).unwrap_err().kind().word, "invalid-cursor", "{cursor}");
        }
    }

    #[test]
    fn a_filter_is_narrowed_to_what_is_possible() {
        let possible = [StateName::Pending, StateName::Running];
        let mut any = Filter::default();
        only_states(&mut any, &possible, "/filter/states").unwrap();
        assert_eq!(any.states, possible);
        let mut other = Filter { states: vec![StateName::Completed], ..Filter::default() };
        assert!(only_states(&mut other, &possible, "/filter/states").is_err());
    }
}
