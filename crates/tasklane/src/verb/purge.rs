//! `purge`.

use clap::Args;
use tasklane_client::wire::{Matched, PriorityWord, StateWord, TaskFilter};
use tasklane_client::{Priority, StateName};

use super::change::Total;
use super::look::found;
use crate::connection::Connection;
use crate::consent::Consent;
use crate::ending::{DONE, Outcome};
use crate::show::{Shown, many};
use crate::value::priority;

/// Where tasks wait.
const WAITING: [StateName; 4] =
    [StateName::Scheduled, StateName::Blocked, StateName::Pending, StateName::Retrying];

const PURGE_EXAMPLES: &str = "\
Examples:
  tasklane purge low --queue mail --dry-run
  tasklane purge low --queue mail --yes
  tasklane purge critical high normal low --queue 'test.*'

What waits at these priorities is cancelled; what runs is left alone.";

/// Cancel what waits at a priority.
#[derive(Debug, Args)]
#[command(after_help = PURGE_EXAMPLES)]
pub(crate) struct Purge {
    /// Base priorities: critical, high, normal or low.
    #[arg(value_name = "PRIORITY", required = true, value_parser = priority)]
    priorities: Vec<Priority>,
    /// In this queue, or queues that begin so with `*`; in all if absent.
    #[arg(long, value_name = "PATTERN")]
    queue: Option<Box<str>>,
    /// Only count them.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Purge {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let mut matched = Matched { matched: 0, exact: true };
        for priority in &self.priorities {
            let filter = TaskFilter {
                states: Some(WAITING.map(StateWord).into()),
                queue: self.queue.clone(),
                priority: Some(PriorityWord(*priority)),
                ..TaskFilter::default()
            };
            let counted = client.count_to_cancel(&filter).await?;
            matched.matched += counted.matched;
            matched.exact &= counted.exact;
        }
        if self.dry_run {
            let text = format!("{} would be cancelled\n", found(&matched, "task"));
            self.shown.one(&matched, |_| text)?;
            return Ok(DONE);
        }
        let place = self.queue.as_ref().map_or("all queues".to_owned(), |q| format!("{q:?}"));
        self.consent.ask(&format!("{} in {place} will be cancelled", found(&matched, "task")))?;
        let mut total = Total { changed: 0 };
        for priority in &self.priorities {
            let mut cursor = None;
            loop {
                let queue = self.queue.as_deref();
                let changed = client.purge_priority(*priority, queue, cursor.as_deref()).await?;
                total.changed += changed.changed;
                cursor = changed.next_cursor;
                if !changed.more {
                    break;
                }
            }
        }
        self.shown.one(&total, |_| format!("{} cancelled\n", many(total.changed, "task")))?;
        Ok(DONE)
    }
}
