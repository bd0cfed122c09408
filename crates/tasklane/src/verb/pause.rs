//! `pause` and `resume`.

use clap::Args;
use serde::Serialize;
use tasklane_client::WorkerId;
use tasklane_client::wire::{Queue, Worker};

use super::{queue, worker};
use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Format, Shown, line};

#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Named {
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
}

impl Pause {
    pub(crate) async fn run(&self) -> Outcome {
        let (client, mut changed) = (self.which.server.client()?, Changed::default());
        for name in &self.which.named.queues {
            changed.queues.push(client.pause_queue(name).await?);
        }
        for id in &self.which.named.workers {
            changed.workers.push(client.pause_worker(*id).await?);
        }
        changed.show(self.which.shown)
    }
}

impl Resume {
    pub(crate) async fn run(&self) -> Outcome {
        let (client, mut changed) = (self.which.server.client()?, Changed::default());
        for name in &self.which.named.queues {
            changed.queues.push(client.resume_queue(name).await?);
        }
        for id in &self.which.named.workers {
            changed.workers.push(client.resume_worker(*id).await?);
        }
        changed.show(self.which.shown)
    }
}

/// What was paused or resumed.
#[derive(Debug, Default, Serialize)]
struct Changed {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<Queue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    workers: Vec<Worker>,
}

impl Changed {
    fn show(&self, shown: Shown) -> Outcome {
        if shown.format() == Format::Ndjson {
            self.queues.iter().try_for_each(line)?;
            self.workers.iter().try_for_each(line)?;
            return Ok(DONE);
        }
        shown.one(self, |colours| {
            let queues = (!self.queues.is_empty()).then(|| queue::table(&self.queues));
            let workers = (!self.workers.is_empty()).then(|| worker::table(&self.workers));
            let tables = queues.into_iter().chain(workers).map(|table| table.render(colours));
            tables.collect::<Vec<_>>().join("\n")
        })?;
        Ok(DONE)
    }
}
