//! Dead letters, grouped by what went wrong (S14).

use std::collections::HashMap;
use std::sync::Arc;

use tasklane_core::limits::{EXAMINED_MAX, PAGE_MAX};
use tasklane_core::{Failure, StateName, Task, TaskId, Timestamp};
use tasklane_store::{Filter, Query};

use super::Engine;
use super::error::EngineError;
use super::fingerprint::{fingerprint, reason};
use crate::limits::{GROUP_TASKS_MAX, GROUPS_MAX};

/// Dead letters that failed alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What they have in common, as a hash.
    pub fingerprint: String,
    /// How many.
    pub count: u64,
    /// Of which type.
    pub task_type: Box<str>,
    /// Why they were given up.
    pub reason: &'static str,
    /// The last failure of one of them.
    pub failure: Option<Arc<Failure>>,
    /// When the first of them ended.
    pub first_at: Timestamp,
    /// When the last of them ended.
    pub last_at: Timestamp,
    /// Some of them.
    pub tasks: Vec<TaskId>,
}

/// Groups of dead letters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// The largest first.
    pub groups: Vec<Group>,
    /// Dead letters looked at.
    pub examined: u64,
    /// Whether these are all of them and all of their groups.
    pub exact: bool,
}

impl Engine {
    /// Groups what `filter` means of the dead letters, the most recent first, up to a bound.
    pub async fn summarise(&self, filter: Filter) -> Result<Summary, EngineError> {
        let filter = Filter { states: vec![StateName::DeadLetter], ..filter };
        let mut groups: HashMap<String, Group> = HashMap::new();
        let (mut looked_at, mut examined, mut after) = (0, 0, None);
        let mut exact = false;
        while examined < EXAMINED_MAX {
            let query = Query { after, ..Query::new(filter.clone(), PAGE_MAX) };
            let page = self.store.list(query).await?;
            for stored in &page.tasks {
                looked_at += 1;
                add(&mut groups, &stored.task);
            }
            examined += page.examined.max(1);
            after = page.next;
            if after.is_none() {
                exact = true;
                break;
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|one, other| {
            (other.count, other.last_at, &other.fingerprint).cmp(&(
                one.count,
                one.last_at,
                &one.fingerprint,
            ))
        });
        exact &= groups.len() <= GROUPS_MAX;
        groups.truncate(GROUPS_MAX);
        Ok(Summary { groups, examined: looked_at, exact })
    }
}

fn add(groups: &mut HashMap<String, Group>, task: &Task) {
    let print = fingerprint(task);
    let ended = task.state.ended().map_or(task.updated_at, |ended| ended.at);
    let group = groups.entry(print).or_insert_with_key(|print| Group {
        fingerprint: print.clone(),
        count: 0,
        task_type: task.spec.lane.task_type.as_str().into(),
        reason: reason(task).map_or("", |reason| reason.as_str()),
        failure: task.error.clone(),
        first_at: ended,
        last_at: ended,
        tasks: Vec::new(),
    });
    group.count += 1;
    group.first_at = group.first_at.min(ended);
    group.last_at = group.last_at.max(ended);
    if group.tasks.len() < GROUP_TASKS_MAX {
        group.tasks.push(task.id);
    }
}
