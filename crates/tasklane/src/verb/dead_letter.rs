//! `dlq`: dead letters.

use clap::{Args, Subcommand};
use serde::Serialize;
use tasklane_client::call::ListDeadLetters;
use tasklane_client::wire::{Attempt, DeadLetterGroup, ReplayMany, Task, TaskFilter};
use tasklane_client::{Client, TaskId};

use super::change::{Anew, Total};
use super::filter::{Filter, is_empty};
use super::look::found;
use super::paging::Paging;
use super::task;
use crate::connection::Connection;
use crate::consent::Consent;
use crate::ending::{DONE, Outcome, usage};
use crate::show::{Cell, List, Shown, Table, many, moment};

const EXAMPLES: &str = "\
Examples:
  tasklane dlq summary                           # what goes wrong, the most frequent first
  tasklane dlq list --type email.send --error timeout
  tasklane dlq show ID                           # with every attempt
  tasklane dlq replay ID
  tasklane dlq replay --all --rate 50            # gently, when the trouble is over
  tasklane dlq discard --type old.report --yes";

/// Look at dead letters, replay or discard them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeadLetters {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List dead letters, the last to end first.
    #[command(after_help = EXAMPLES)]
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        paging: Paging,
        #[command(flatten)]
        server: Connection,
        #[command(flatten)]
        shown: Shown,
    },
    /// Look at one, with every attempt.
    #[command(after_help = EXAMPLES)]
    Show {
        /// The task.
        id: TaskId,
        #[command(flatten)]
        server: Connection,
        #[command(flatten)]
        shown: Shown,
    },
    /// Let them run again: by id, or all that match.
    #[command(after_help = EXAMPLES)]
    Replay(Replay),
    /// Remove them for good: by id, or all that match.
    #[command(after_help = EXAMPLES)]
    Discard(Discard),
    /// Group them by what went wrong.
    #[command(after_help = EXAMPLES)]
    Summary {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        server: Connection,
        #[command(flatten)]
        shown: Shown,
    },
}

#[derive(Debug, Args)]
struct Replay {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: Anew,
    /// At most so many a second.
    #[arg(long, value_name = "COUNT")]
    rate: Option<u32>,
    /// Only count them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
struct Discard {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
struct Which {
    /// The tasks.
    #[arg(value_name = "ID", conflicts_with_all = ["Filter", "all"])]
    ids: Vec<TaskId>,
    #[command(flatten)]
    filter: Filter,
    /// All of them.
    #[arg(long, conflicts_with = "Filter")]
    all: bool,
}

impl Which {
    /// Something must be said.
    fn check(&self) -> anyhow::Result<()> {
        match self.ids.is_empty() && !self.all && is_empty(&self.filter.wanted()) {
            true => Err(usage("give ids, or say which are meant: --type, --error …, or --all")),
            false => Ok(()),
        }
    }
}

impl DeadLetters {
    pub(crate) async fn run(&self) -> Outcome {
        match &self.verb {
            Verb::List { filter, paging, server, shown } => {
                list(&server.client()?, filter, paging, *shown).await
            }
            Verb::Show { id, server, shown } => {
                let task = server.client()?.get_dead_letter(*id).await?;
                shown.one(&task, |colours| {
                    let attempts = task.attempt_history.as_deref().unwrap_or_default();
                    let sheet = task::sheet(&task).render(colours);
                    format!("{sheet}\n{}", attempted(attempts).render(colours))
                })?;
                Ok(DONE)
            }
            Verb::Replay(replay) => replay.run().await,
            Verb::Discard(discard) => discard.run().await,
            Verb::Summary { filter, server, shown } => {
                let summary = server.client()?.summarise_dead_letters(&filter.wanted()).await?;
                if !summary.exact {
                    eprintln!("only the first {} were looked at", summary.examined);
                }
                shown.answer(&summary, ("groups", &summary.groups), grouped)?;
                Ok(DONE)
            }
        }
    }
}

async fn list(client: &Client, filter: &Filter, paging: &Paging, shown: Shown) -> Outcome {
    let page = async |limit, cursor| {
        let filter = filter.wanted();
        let list = ListDeadLetters { filter, limit, cursor, counts: false };
        let page = client.list_dead_letters(&list).await?;
        Ok((page.entries, page.next_cursor))
    };
    let entries = paging.gather("entries", page).await?;
    shown.many(&entries, ended)?;
    Ok(DONE)
}

/// Dead letters in rows.
fn ended(tasks: &[Task]) -> Table {
    Table::of(&["ID", "TYPE", "QUEUE", "ATTEMPTS", "REASON", "ENDED", "ERROR"], tasks, |task| {
        vec![
            Cell::new(task.id.0.to_string()),
            Cell::new(&task.task_type),
            Cell::new(&task.queue),
            Cell::number(task.attempts),
            Cell::some(task.reason.as_ref()),
            Cell::some(task.completed_at.map(moment)),
            Cell::new(task.error.as_ref().map(task::failure).unwrap_or_default()),
        ]
    })
}

fn attempted(attempts: &[Attempt]) -> Table {
    Table::of(&["ATTEMPT", "WORKER", "STARTED", "ENDED", "OUTCOME", "ERROR"], attempts, |attempt| {
        vec![
            Cell::number(attempt.attempt),
            Cell::new(attempt.worker_id.0.to_string()),
            Cell::some(attempt.started_at.map(moment)),
            Cell::some(attempt.ended_at.map(moment)),
            Cell::some(attempt.outcome.as_ref()),
            Cell::new(attempt.error.as_ref().map(task::failure).unwrap_or_default()),
        ]
    })
}

fn grouped(groups: &[DeadLetterGroup]) -> Table {
    Table::of(&["COUNT", "TYPE", "REASON", "KIND", "LAST", "MESSAGE"], groups, |group| {
        vec![
            Cell::number(group.count),
            Cell::new(&group.task_type),
            Cell::new(&group.reason),
            Cell::some(group.kind.map(|kind| kind.0.as_str())),
            Cell::new(moment(group.last_at)),
            Cell::some(group.message.as_ref()),
        ]
    })
}

/// How many were replayed.
#[derive(Debug, Serialize)]
struct Revived {
    replayed: u64,
}

impl Replay {
    async fn run(&self) -> Outcome {
        self.which.check()?;
        let (client, how) = (self.server.client()?, self.how.wanted());
        if !self.which.ids.is_empty() {
            let mut tasks = Vec::new();
            for id in &self.which.ids {
                tasks.push(client.replay_dead_letter(*id, &how).await?);
            }
            self.shown.many(&List::whole("tasks", tasks), task::table)?;
            return Ok(DONE);
        }
        let mut replay = ReplayMany {
            reset_attempts: how.reset_attempts,
            new_priority: how.new_priority,
            rate_per_second: self.rate,
            ..all_of(self.which.filter.wanted())
        };
        if self.dry_run {
            let matched = client.count_to_replay(&replay).await?;
            let text = format!("{} would be replayed\n", found(&matched, "dead letter"));
            self.shown.one(&matched, |_| text)?;
            return Ok(DONE);
        }
        let mut total = Revived { replayed: 0 };
        loop {
            let slice = client.replay_dead_letters(&replay).await?;
            total.replayed += slice.replayed;
            replay.cursor = slice.next_cursor;
            if !slice.more {
                break;
            }
        }
        self.shown
            .one(&total, |_| format!("{} replayed\n", many(total.replayed, "dead letter")))?;
        Ok(DONE)
    }
}

impl Discard {
    async fn run(&self) -> Outcome {
        self.which.check()?;
        let client = self.server.client()?;
        let mut total = Total { changed: 0 };
        if self.which.ids.is_empty() {
            let filter = self.which.filter.wanted();
            let matched = client.count_to_replay(&all_of(filter.clone())).await?;
            self.consent.ask(&format!("{} will be removed", found(&matched, "dead letter")))?;
            let mut cursor = None;
            loop {
                let slice = client.discard_dead_letters(&filter, cursor.as_deref()).await?;
                total.changed += slice.changed;
                cursor = slice.next_cursor;
                if !slice.more {
                    break;
                }
            }
        } else {
            let count = self.which.ids.len();
            self.consent.ask(&format!("{} will be removed", many(count as u64, "dead letter")))?;
            for id in &self.which.ids {
                client.discard_dead_letter(*id).await?;
                total.changed += 1;
            }
        }
        self.shown.one(&total, |_| format!("{} removed\n", many(total.changed, "dead letter")))?;
        Ok(DONE)
    }
}

/// All that match.
fn all_of(filter: TaskFilter) -> ReplayMany {
    ReplayMany {
        filter,
        reset_attempts: true,
        new_priority: None,
        rate_per_second: None,
        dry_run: false,
        cursor: None,
    }
}
