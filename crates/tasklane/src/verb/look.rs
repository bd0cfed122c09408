//! `get`, `list`, `history` and `explain`.

use clap::Args;
use tasklane_client::TaskId;
use tasklane_client::call::{ListTasks, Look};
use tasklane_client::wire::{Explanation, HistoryEntry, Matched, Time};

use super::filter::{Filter, States};
use super::paging::Paging;
use super::task;
use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Cell, Paint, Sheet, Shown, Table, many, moment, seconds};
use crate::value::time;

const GET_EXAMPLES: &str = "\
Examples:
  tasklane get 0199f3a4-5b6c-7d8e-9f01-23456789abcd
  tasklane get ID -o json | jq .result
  tasklane get ID --as-of 2026-11-15T12:00:00Z     # as it was then";

/// Look at a task.
#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct Get {
    /// The task.
    id: TaskId,
    /// With everything that happened to it.
    #[arg(long)]
    history: bool,
    /// As it was at that time.
    #[arg(long, value_parser = time, value_name = "TIME")]
    as_of: Option<Time>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Get {
    pub(crate) async fn run(&self) -> Outcome {
        let look = Look { history: self.history, as_of: self.as_of.map(|time| time.0) };
        let found = self.server.client()?.look(self.id, look).await?;
        self.shown.one(&found, |colours| {
            let mut text = task::sheet(&found).render(colours);
            if let Some(history) = &found.history {
                text.push('\n');
                text.push_str(&happened(history).render(colours));
            }
            text
        })?;
        Ok(DONE)
    }
}

const LIST_EXAMPLES: &str = "\
Examples:
  tasklane list --state pending,retrying --queue mail
  tasklane list --type 'report.*' --error timeout --limit 10
  tasklane list --label user=7 -o ndjson --all | jq -r .id
  tasklane list --state running --count

States: scheduled, blocked, pending, assigned, running, retrying, completed, failed, cancelled,
dead_letter.";

/// List tasks, the newest first.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    #[command(flatten)]
    states: States,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    paging: Paging,
    /// Only count them.
    #[arg(long, help_heading = "How many")]
    count: bool,
    /// With payloads and results, in JSON.
    #[arg(long)]
    payloads: bool,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl List {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let filter = self.states.within(self.filter.wanted());
        let list = ListTasks { filter, payloads: self.payloads, ..ListTasks::default() };
        if self.count {
            let page =
                client.list_tasks(&ListTasks { limit: Some(1), counts: true, ..list }).await?;
            let (matched, exact) = (page.count.unwrap_or_default(), page.exact.unwrap_or_default());
            let matched = Matched { matched, exact };
            self.shown.one(&matched, |_| format!("{}\n", counted(&matched)))?;
            return Ok(DONE);
        }
        let list = &list;
        let page = async |limit, cursor| {
            let page = client.list_tasks(&ListTasks { limit, cursor, ..list.clone() }).await?;
            Ok((page.tasks, page.next_cursor))
        };
        let tasks = self.paging.gather("tasks", page).await?;
        self.shown.many(&tasks, task::table)?;
        Ok(DONE)
    }
}

/// A number, which may be where counting stopped.
pub(super) fn counted(matched: &Matched) -> String {
    let more = if matched.exact { "" } else { " or more" };
    format!("{}{more}", matched.matched)
}

/// The same with a word for what was counted.
pub(super) fn found(matched: &Matched, thing: &str) -> String {
    match matched.exact {
        true => many(matched.matched, thing),
        false => format!("{} {thing}s", counted(matched)),
    }
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  tasklane history ID
  tasklane history ID -o ndjson | jq -r '[.timestamp, .type] | @tsv'";

/// Show everything that happened to a task.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(crate) struct History {
    /// The task.
    id: TaskId,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl History {
    pub(crate) async fn run(&self) -> Outcome {
        let found = self.server.client()?.task_history(self.id).await?;
        if found.cut {
            eprintln!("the oldest entries were dropped because there were too many");
        }
        self.shown.answer(&found, ("history", &found.history), happened)?;
        Ok(DONE)
    }
}

/// What happened, in rows.
fn happened(entries: &[HistoryEntry]) -> Table {
    Table::of(&["TIME", "EVENT", "WORKER", "DETAIL"], entries, |entry| {
        let due = entry.due_at.map(|at| format!("due at {}", moment(at)));
        let changed = match (entry.from, entry.to) {
            (Some(from), Some(to)) => Some(format!("from {} to {}", from.0, to.0)),
            (None, Some(to)) => Some(format!("to {}", to.0)),
            _ => None,
        };
        let reason = entry.reason.as_ref().map(ToString::to_string);
        let error = entry.error.as_ref().map(task::failure);
        let detail: Vec<_> = [reason, changed, error, due].into_iter().flatten().collect();
        vec![
            Cell::new(moment(entry.timestamp)),
            Cell::new(&entry.event_type),
            Cell::some(entry.worker_id.map(|worker| worker.0.to_string())),
            Cell::new(detail.join("; ")),
        ]
    })
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tasklane explain ID
  tasklane explain ID -o json | jq -r '.obstacles[].code'";

/// Say why a task is not running, or what it is doing.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// The task.
    id: TaskId,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Explain {
    pub(crate) async fn run(&self) -> Outcome {
        let found = self.server.client()?.explain_task(self.id).await?;
        self.shown.one(&found, |colours| {
            let mut text = explained(&found).render(colours);
            for obstacle in &found.obstacles {
                let until = obstacle.until.map(|at| format!(", until {}", moment(at)));
                let until = until.unwrap_or_default();
                text.push_str(&format!("  - {}{until}\n", crate::show::clean(&obstacle.detail)));
            }
            text
        })?;
        Ok(DONE)
    }
}

fn explained(found: &Explanation) -> Sheet {
    Sheet::default()
        .with("id", found.task_id.0.to_string())
        .painted("state", found.state.0.as_str(), Paint::of(found.state.0))
        .some("position", found.queue_position.map(|position| position.to_string()))
        .some("estimated wait", found.estimated_wait_seconds.map(seconds))
        .some("critical in", found.wait_bound_seconds.map(seconds))
        .with("why", &found.summary)
}
