//! `workers` and `drain`.

use clap::Args;
use tasklane_client::WorkerId;
use tasklane_client::call::ListWorkers;
use tasklane_client::wire::Worker;

use super::paging::Paging;
use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Cell, List, Paint, Sheet, Shown, Table, moment};

const WORKERS_EXAMPLES: &str = "\
Examples:
  tasklane workers
  tasklane workers --state unhealthy
  tasklane workers ID                   # one of them, with all it says of itself";

/// List workers, or look at one.
#[derive(Debug, Args)]
#[command(after_help = WORKERS_EXAMPLES)]
pub(crate) struct Workers {
    /// Only this one.
    id: Option<WorkerId>,
    /// In this state: active, paused, draining, unhealthy or dead.
    #[arg(long)]
    state: Option<Box<str>>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Workers {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        if let Some(id) = self.id {
            let worker = client.get_worker(id).await?;
            self.shown.one(&worker, |colours| sheet(&worker).render(colours))?;
            return Ok(DONE);
        }
        let page = async |limit, cursor| {
            let list = ListWorkers { state: self.state.clone(), limit, cursor };
            let page = client.list_workers(&list).await?;
            Ok((page.workers, page.next_cursor))
        };
        let workers = self.paging.gather("workers", page).await?;
        self.shown.many(&workers, table)?;
        Ok(DONE)
    }
}

/// Workers in rows.
pub(super) fn table(workers: &[Worker]) -> Table {
    let headings = ["ID", "NAME", "STATE", "TASKS", "BREAKER", "QUEUES", "TYPES", "SEEN"];
    Table::of(&headings, workers, |worker| {
        vec![
            Cell::new(worker.worker_id.0.to_string()),
            Cell::some(worker.name.as_ref()),
            Cell::new(&worker.state).painted(paint(&worker.state)),
            Cell::number(format!("{}/{}", worker.leases, worker.capacity)),
            Cell::new(&worker.breaker).painted(breaker(&worker.breaker)),
            Cell::new(names(worker.queues.as_deref())),
            Cell::new(names(worker.types.as_deref())),
            Cell::new(moment(worker.seen_at)),
        ]
    })
}

fn sheet(worker: &Worker) -> Sheet {
    let percent = |share: Option<f32>| share.map(|share| format!("{share:.0} %"));
    let capabilities = &worker.capabilities;
    Sheet::default()
        .with("id", worker.worker_id.0.to_string())
        .some("name", worker.name.as_ref())
        .painted("state", &worker.state, paint(&worker.state))
        .with("tasks", format!("{} of {}", worker.leases, worker.capacity))
        .painted("breaker", &worker.breaker, breaker(&worker.breaker))
        .with("failures", format!("{} in a row", worker.consecutive_failures))
        .with("queues", names(worker.queues.as_deref()))
        .with("types", names(worker.types.as_deref()))
        .some("capabilities", (!capabilities.is_empty()).then(|| capabilities.join(" ")))
        .some("host", worker.host.as_ref())
        .some("version", worker.version.as_ref())
        .some("processor", percent(worker.cpu_percent))
        .some("memory", percent(worker.memory_percent))
        .with("registered", moment(worker.registered_at))
        .with("seen", moment(worker.seen_at))
}

fn names(names: Option<&[Box<str>]>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| names.join(" "))
}

fn paint(state: &str) -> Paint {
    match state {
        "active" => Paint::Good,
        "paused" | "draining" => Paint::Doubtful,
        "unhealthy" => Paint::Bad,
        _ => Paint::Faint,
    }
}

fn breaker(state: &str) -> Paint {
    if state == "closed" { Paint::Plain } else { Paint::Bad }
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  tasklane drain ID          # before its machine is stopped
  tasklane drain $(tasklane workers -o ndjson --all | jq -r 'select(.host == \"a\") | .worker_id')";

/// Drain workers: they finish what they have and get no more.
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct Drain {
    /// The workers.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<WorkerId>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Drain {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let mut workers = Vec::new();
        for id in &self.ids {
            workers.push(client.drain_worker(*id).await?);
        }
        self.shown.many(&List::whole("workers", workers), table)?;
        Ok(DONE)
    }
}
