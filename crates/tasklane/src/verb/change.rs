//! `cancel` and `retry`.

use clap::Args;
use serde::Serialize;
use tasklane_client::wire::{PriorityWord, ReplayOne, Task, TaskFilter};
use tasklane_client::{Client, Priority, TaskId};

use super::filter::{Filter, States, is_empty};
use super::look::found;
use super::task;
use crate::connection::Connection;
use crate::consent::Consent;
use crate::ending::{DONE, Outcome, usage};
use crate::show::{List, Shown, many};
use crate::value::priority;

const CANCEL_EXAMPLES: &str = "\
Examples:
  tasklane cancel ID
  tasklane cancel --type report.build --state pending --dry-run
  tasklane cancel --queue mail --label campaign=spring --yes

What waits is cancelled at once. What runs is asked of its worker, and cancelled when that has
stopped: tasklane wait ID waits for it.";

/// Cancel tasks: by id, or all that match.
#[derive(Debug, Args)]
#[command(after_help = CANCEL_EXAMPLES)]
pub(crate) struct Cancel {
    /// The tasks.
    #[arg(value_name = "ID", conflicts_with_all = ["States", "Filter", "dry_run"])]
    ids: Vec<TaskId>,
    #[command(flatten)]
    states: States,
    #[command(flatten)]
    filter: Filter,
    /// Only count those that match.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

/// How many tasks were changed.
#[derive(Debug, Serialize)]
pub(super) struct Total {
    pub(super) changed: u64,
}

impl Cancel {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        if !self.ids.is_empty() {
            let mut tasks = Vec::new();
            for id in &self.ids {
                tasks.push(client.cancel(*id).await?);
            }
            return shown(tasks, self.shown);
        }
        let filter = self.states.within(self.filter.wanted());
        if is_empty(&filter) {
            let text = "give the ids of tasks, or say which are meant: --queue, --type, --state …";
            return Err(usage(text));
        }
        let matched = client.count_to_cancel(&filter).await?;
        if self.dry_run {
            let text = format!("{} would be cancelled\n", found(&matched, "task"));
            self.shown.one(&matched, |_| text)?;
            return Ok(DONE);
        }
        self.consent.ask(&format!("{} will be cancelled", found(&matched, "task")))?;
        let total = Total { changed: cancel_all(&client, &filter).await? };
        self.shown.one(&total, |_| format!("{} cancelled\n", many(total.changed, "task")))?;
        Ok(DONE)
    }
}

/// Slice after slice.
async fn cancel_all(client: &Client, filter: &TaskFilter) -> anyhow::Result<u64> {
    let (mut total, mut cursor) = (0, None);
    loop {
        let changed = client.cancel_tasks(filter, cursor.as_deref()).await?;
        total += changed.changed;
        cursor = changed.next_cursor;
        if !changed.more {
            return Ok(total);
        }
    }
}

fn shown(tasks: Vec<Task>, shown: Shown) -> Outcome {
    shown.many(&List::whole("tasks", tasks), task::table)?;
    Ok(DONE)
}

const RETRY_EXAMPLES: &str = "\
Examples:
  tasklane retry ID
  tasklane retry ID --new-priority high --keep-attempts

For dead letters by filter, see tasklane dlq replay.";

/// Retry tasks that ended without success.
#[derive(Debug, Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(crate) struct Retry {
    /// The tasks.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<TaskId>,
    #[command(flatten)]
    how: Anew,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
pub(super) struct Anew {
    /// Attempts go on counting instead of starting from nought.
    #[arg(long)]
    keep_attempts: bool,
    /// With another priority.
    #[arg(long = "new-priority", value_parser = priority, value_name = "PRIORITY")]
    new_priority: Option<Priority>,
}

impl Anew {
    pub(super) fn wanted(&self) -> ReplayOne {
        let new_priority = self.new_priority.map(PriorityWord);
        ReplayOne { reset_attempts: !self.keep_attempts, new_priority }
    }
}

impl Retry {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let mut tasks = Vec::new();
        for id in &self.ids {
            tasks.push(client.retry_task(*id, &self.how.wanted()).await?);
        }
        shown(tasks, self.shown)
    }
}
