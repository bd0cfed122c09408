//! `queues`.

use clap::{Args, Subcommand};
use tasklane_client::wire::{
    AgingSettings, DepthSettings, Queue, QueueMember, QueuePatch, RetentionSettings, Seconds,
};

use super::setting::{aging, depth_limits, member, retention, weights};
use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Cell, List, Paint, Sheet, Shown, Table, seconds};

const QUEUES_EXAMPLES: &str = "\
Examples:
  tasklane queues
  tasklane queues -o json | jq -r '.queues[] | select(.paused) | .name'
  tasklane queues show mail
  tasklane queues set mail --weight 5";

/// List queues; look at one, or change its settings.
#[derive(Debug, Args)]
#[command(after_help = QUEUES_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Queues {
    #[command(subcommand)]
    one: Option<One>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Subcommand)]
enum One {
    Show(Show),
    Set(Set),
}

impl Queues {
    pub(crate) async fn run(&self) -> Outcome {
        match &self.one {
            Some(One::Show(verb)) => return verb.run().await,
            Some(One::Set(verb)) => return verb.run().await,
            None => {}
        }
        let queues = self.server.client()?.list_queues().await?;
        self.shown.many(&List::whole("queues", queues), table)?;
        Ok(DONE)
    }
}

const SHOW_EXAMPLES: &str = "\
Examples:
  tasklane queues show mail

Behind each setting stands who has set it: an operator, the server's configuration, or nobody
(default).";

/// Look at a queue and its settings.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// Its name.
    name: String,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Show {
    async fn run(&self) -> Outcome {
        let queue = self.server.client()?.get_queue(&self.name).await?;
        self.shown.one(&queue, |colours| sheet(&queue).render(colours))?;
        Ok(DONE)
    }
}

const SET_EXAMPLES: &str = "\
Examples:
  tasklane queues set mail --weight 5
  tasklane queues set mail --aging normal=5m,high=10m,critical=never
  tasklane queues set mail --shares critical=70,high=20,normal=8,low=2
  tasklane queues set mail --depth-limits normal=10000,high=20000,all=50000
  tasklane queues set mail --retention completed=1h,cancelled=1h,failed=7d,dead_letter=forever
  tasklane queues set mail --reset retention,weight

What an operator sets counts before the server's configuration, also after a restart, until --reset
gives it back. tasklane pause and resume say whether anything is claimed.";

/// Change settings of a queue.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
struct Set {
    /// Its name.
    name: String,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Settings {
    /// Its share among queues when a worker takes several, 1 to 1000.
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Choose by aging: how long a task waits until it counts as each of normal, high and critical.
    #[arg(long, value_name = "LEVEL=TIME,…", value_parser = aging, conflicts_with = "shares")]
    aging: Option<AgingSettings>,
    /// Choose by drawing: the shares of critical, high, normal and low.
    #[arg(long, value_name = "PRIORITY=SHARE,…", value_parser = weights)]
    shares: Option<[u32; 4]>,
    /// Depths from which it refuses tasks: normal ones and lower, high ones, all.
    #[arg(long, value_name = "LEVEL=DEPTH,…", value_parser = depth_limits)]
    depth_limits: Option<DepthSettings>,
    /// How long tasks are kept that are completed, cancelled, failed or a dead_letter.
    #[arg(long, value_name = "STATE=TIME,…", value_parser = retention)]
    retention: Option<RetentionSettings>,
    /// What should be as the server's configuration has it: order, weight, depth_limits, retention.
    #[arg(long, value_name = "SETTING,…", value_parser = member, value_delimiter = ',')]
    reset: Vec<QueueMember>,
}

impl Set {
    async fn run(&self) -> Outcome {
        let Settings { weight, aging, shares, depth_limits, retention, reset } = &self.settings;
        let patch = QueuePatch {
            paused: None,
            weight: *weight,
            aging: *aging,
            weights: *shares,
            depth_limits: *depth_limits,
            retention: *retention,
            reset: reset.clone(),
        };
        let queue = self.server.client()?.update_queue(&self.name, &patch).await?;
        self.shown.one(&queue, |colours| sheet(&queue).render(colours))?;
        Ok(DONE)
    }
}

/// Queues in rows.
pub(super) fn table(queues: &[Queue]) -> Table {
    Table::of(&["NAME", "STATE", "DEPTH", "WEIGHT", "ORDER"], queues, |queue| {
        vec![
            Cell::new(&queue.name),
            Cell::new(state(queue).0).painted(state(queue).1),
            Cell::number(queue.depth),
            Cell::number(queue.weight),
            Cell::new(&queue.order),
        ]
    })
}

const fn state(queue: &Queue) -> (&'static str, Paint) {
    if queue.paused { ("paused", Paint::Doubtful) } else { ("open", Paint::Good) }
}

fn sheet(queue: &Queue) -> Sheet {
    let limits = queue.depth_limits;
    let aging = queue.aging.map(|aging| {
        let levels = [
            ("normal", aging.normal_seconds),
            ("high", aging.high_seconds),
            ("critical", aging.critical_seconds),
        ];
        times(levels, "never")
    });
    let kept = queue.retention.map(|kept| {
        let states = [
            ("completed", kept.completed_seconds),
            ("cancelled", kept.cancelled_seconds),
            ("failed", kept.failed_seconds),
            ("dead_letter", kept.dead_letter_seconds),
        ];
        times(states, "forever")
    });
    let kept = kept.unwrap_or_else(|| "as the server's".to_owned());
    let shares = queue.weights.map(|[critical, high, normal, low]| {
        format!("critical {critical}, high {high}, normal {normal}, low {low}")
    });
    let origins = &queue.origins;
    Sheet::default()
        .with("name", &queue.name)
        .painted("state", state(queue).0, state(queue).1)
        .with("depth", queue.depth.to_string())
        .with("weight", format!("{} ({})", queue.weight, origins.weight))
        .with("order", format!("{} ({})", queue.order, origins.order))
        .some("counts as", aging)
        .some("shares", shares)
        .with(
            "refuses from",
            format!(
                "normal {}, high {}, all {} ({})",
                limits.normal, limits.high, limits.all, origins.depth_limits
            ),
        )
        .with("retention", format!("{kept} ({})", origins.retention))
}

fn times<const N: usize>(times: [(&str, Option<Seconds>); N], without: &str) -> String {
    let time = |time: Option<_>| time.map_or(without.to_owned(), seconds);
    times.map(|(name, given)| format!("{name} {}", time(given))).join(", ")
}
