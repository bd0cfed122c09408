//! `queues`, `pause`, `resume` and `purge`.

use clap::Args;
use tasklane_client::wire::{PriorityWord, Queue, StateWord, TaskFilter, Worker};
use tasklane_client::{Priority, StateName, WorkerId};

use super::change::Total;
use super::look::counted;
use super::worker;
use crate::connection::Connection;
use crate::consent::Consent;
use crate::ending::{DONE, Outcome};
use crate::show::{Cell, List, Paint, Sheet, Shown, Table, seconds};
use crate::value::priority;

/// Where tasks wait.
const WAITING: [StateName; 4] =
    [StateName::Scheduled, StateName::Blocked, StateName::Pending, StateName::Retrying];

const QUEUES_EXAMPLES: &str = "\
Examples:
  tasklane queues
  tasklane queues mail            # one of them, with its settings
  tasklane queues -o json | jq -r '.queues[] | select(.paused) | .name'";

/// List queues, or look at one.
#[derive(Debug, Args)]
#[command(after_help = QUEUES_EXAMPLES)]
pub(crate) struct Queues {
    /// Only this one, with its settings.
    name: Option<String>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Queues {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        match &self.name {
            Some(name) => {
                let queue = client.get_queue(name).await?;
                self.shown.one(&queue, |colours| sheet(&queue).render(colours))?;
            }
            None => show(client.list_queues().await?, self.shown)?,
        }
        Ok(DONE)
    }
}

fn show(queues: Vec<Queue>, shown: Shown) -> anyhow::Result<()> {
    shown.many(&List::whole("queues", queues), |queues| {
        Table::of(&["NAME", "STATE", "DEPTH", "WEIGHT", "ORDER"], queues, |queue| {
            vec![
                Cell::new(&queue.name),
                Cell::new(state(queue).0).painted(state(queue).1),
                Cell::number(queue.depth),
                Cell::number(queue.weight),
                Cell::new(&queue.order),
            ]
        })
    })
}

const fn state(queue: &Queue) -> (&'static str, Paint) {
    if queue.paused { ("paused", Paint::Doubtful) } else { ("open", Paint::Good) }
}

fn sheet(queue: &Queue) -> Sheet {
    let limits = queue.depth_limits;
    let aging = queue.aging.map(|aging| {
        let level = |name, time: Option<_>| time.map(|time| format!("{name} {}", seconds(time)));
        let levels = [
            level("normal", aging.normal_seconds),
            level("high", aging.high_seconds),
            level("critical", aging.critical_seconds),
        ];
        levels.into_iter().flatten().collect::<Vec<_>>().join(", ")
    });
    let origins = &queue.origins;
    Sheet::default()
        .with("name", &queue.name)
        .painted("state", state(queue).0, state(queue).1)
        .with("depth", queue.depth.to_string())
        .with("weight", format!("{} ({})", queue.weight, origins.weight))
        .with("order", format!("{} ({})", queue.order, origins.order))
        .some("counts as", aging)
        .some("shares", queue.weights.map(|weights| weights.map(|w| w.to_string()).join("/")))
        .with(
            "refuses from",
            format!(
                "normal {}, high {}, all {} ({})",
                limits.normal, limits.high, limits.all, origins.depth_limits
            ),
        )
        .with("retention", &origins.retention)
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Which {
    /// Queues by name.
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// A worker by id; may be given again.
    #[arg(long = "worker", value_name = "ID")]
    workers: Vec<WorkerId>,
}

const PAUSE_EXAMPLES: &str = "\
Examples:
  tasklane pause mail                   # nothing is claimed from it; submissions go on
  tasklane pause --worker ID            # this worker gets no more tasks";

/// Pause queues or workers.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

const RESUME_EXAMPLES: &str = "\
Examples:
  tasklane resume mail
  tasklane resume --worker ID";

/// Resume queues or workers.
#[derive(Debug, Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Pause {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        for queue in &self.which.queues {
            queues.push(client.pause_queue(queue).await?);
        }
        for worker in &self.which.workers {
            workers.push(client.pause_worker(*worker).await?);
        }
        show_both(queues, workers, self.shown)
    }
}

impl Resume {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let (mut queues, mut workers) = (Vec::new(), Vec::new());
        for queue in &self.which.queues {
            queues.push(client.resume_queue(queue).await?);
        }
        for worker in &self.which.workers {
            workers.push(client.resume_worker(*worker).await?);
        }
        show_both(queues, workers, self.shown)
    }
}

fn show_both(queues: Vec<Queue>, workers: Vec<Worker>, shown: Shown) -> Outcome {
    if !queues.is_empty() {
        show(queues, shown)?;
    }
    if !workers.is_empty() {
        shown.many(&List::whole("workers", workers), worker::table)?;
    }
    Ok(DONE)
}

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
        let mut matched = tasklane_client::wire::Matched { matched: 0, exact: true };
        for priority in &self.priorities {
            let filter = TaskFilter {
                states: Some(WAITING.map(StateWord).into()),
                queue: self.queue.clone(),
                priority: Some(PriorityWord(*priority)),
                ..TaskFilter::default()
            };
            let found = client.count_to_cancel(&filter).await?;
            matched.matched += found.matched;
            matched.exact &= found.exact;
        }
        if self.dry_run {
            let text = format!("{} tasks would be cancelled\n", counted(&matched));
            self.shown.one(&matched, |_| text)?;
            return Ok(DONE);
        }
        let place = self.queue.as_ref().map_or("all queues".to_owned(), |q| format!("{q:?}"));
        self.consent.ask(&format!("{} tasks in {place} will be cancelled", counted(&matched)))?;
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
        self.shown.one(&total, |_| format!("{} tasks cancelled\n", total.changed))?;
        Ok(DONE)
    }
}
