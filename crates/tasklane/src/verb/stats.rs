//! `stats`.

use clap::Args;
use tasklane_client::wire::{Depth, Minute, QueueStats};

use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Cell, List, Paint, Sheet, Shown, Table, moment, seconds};

const EXAMPLES: &str = "\
Examples:
  tasklane stats
  tasklane stats --queue mail
  tasklane stats --minutes 15           # what was done in each of the last minutes
  watch -n 2 tasklane stats";

/// Count what waits and runs, and what was done lately.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stats {
    /// Only of this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// What was done in each of so many last minutes instead, up to 1440.
    #[arg(long, value_name = "COUNT", conflicts_with = "queue")]
    minutes: Option<u32>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Stats {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        if self.minutes.is_some() {
            let minutes = client.minutes(self.minutes).await?.minutes;
            self.shown.many(&List::whole("minutes", minutes), by_minute)?;
            return Ok(DONE);
        }
        let stats = client.queue_stats(self.queue.as_deref()).await?;
        self.shown.one(&stats, |colours| {
            let (depths, sheet) = (by_priority(&stats).render(colours), counters(&stats));
            format!("{depths}\n{}", sheet.render(colours))
        })?;
        Ok(DONE)
    }
}

fn by_priority(stats: &QueueStats) -> Table {
    let mut table = Table::new(&["PRIORITY", "WAITING", "OLDEST", "RUNNING"]);
    let queues = &stats.queues;
    for (name, depth) in [
        ("critical", &queues.critical),
        ("high", &queues.high),
        ("normal", &queues.normal),
        ("low", &queues.low),
    ] {
        let Depth { depth, oldest_age_seconds, running } = *depth;
        table.row(vec![
            Cell::new(name),
            Cell::number(depth),
            Cell::number(seconds(oldest_age_seconds)),
            Cell::number(running),
        ]);
    }
    table
}

fn counters(stats: &QueueStats) -> Sheet {
    let workers = &stats.workers;
    let paint = if stats.dlq_size > 0 { Paint::Bad } else { Paint::Plain };
    let sheet = Sheet::default()
        .with("scheduled", stats.scheduled.to_string())
        .with("retrying", stats.retrying.to_string())
        .with("blocked", stats.blocked.to_string())
        .painted("dead letters", stats.dlq_size.to_string(), paint)
        .with("tasks", stats.total_tasks.to_string())
        .with(
            "workers",
            format!(
                "{} active, {} paused, {} draining, {} unhealthy, {} dead",
                workers.active, workers.paused, workers.draining, workers.unhealthy, workers.dead
            ),
        )
        .with("capacity", format!("{} of {} used", workers.used_capacity, workers.total_capacity));
    let sheet = match &stats.throughput {
        Some(done) => sheet
            .with("completed", format!("{} in the last minute", done.completed_last_minute))
            .with("failed", format!("{} in the last minute", done.failed_last_minute))
            .with("duration", seconds(done.avg_task_duration_seconds)),
        None => sheet,
    };
    let waits = stats.waits.p50_seconds.zip(stats.waits.p95_seconds);
    let sheet = sheet.some(
        "wait",
        waits.map(|(p50, p95)| format!("p50 {}, p95 {}", seconds(p50), seconds(p95))),
    );
    match &stats.recovery {
        Some(lately) => sheet
            .with("leases lost", format!("{} in the last hour", lately.lease_losses_last_hour))
            .with("timed out", format!("{} in the last hour", lately.timeouts_last_hour)),
        None => sheet,
    }
}

fn by_minute(minutes: &[Minute]) -> Table {
    let headings = [
        "MINUTE",
        "SUBMITTED",
        "CLAIMED",
        "COMPLETED",
        "FAILED",
        "DEAD",
        "LOST",
        "WAIT P95",
        "TOOK P95",
    ];
    Table::of(&headings, minutes, |minute| {
        let counts = [
            minute.submitted,
            minute.claimed,
            minute.completed,
            minute.failed,
            minute.dead_lettered,
            minute.lease_losses,
        ];
        let mut row = vec![Cell::new(moment(minute.at))];
        row.extend(counts.map(Cell::number));
        row.push(Cell::number(seconds(minute.wait_p95_seconds)));
        row.push(Cell::number(seconds(minute.duration_p95_seconds)));
        row
    })
}
