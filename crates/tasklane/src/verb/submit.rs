//! `submit`.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::value::RawValue;
use tasklane_client::wire::{Receipt, StateWord, TaskIdText, Time};
use tasklane_client::{NewTask, Priority, Submitted, TaskId};

use super::{bulk, task, wait};
use crate::connection::Connection;
use crate::ending::{DONE, Outcome, usage};
use crate::show::{Sheet, Shown};
use crate::value::{label, priority, span, time};

const EXAMPLES: &str = "\
Examples:
  tasklane submit email.send '{\"to\": \"ada@example.org\"}'
  tasklane submit report.build @report.json --queue reports --priority high --wait
  jq -c .order order.json | tasklane submit order.ship - --idempotency-key order-17
  tasklane submit cache.warm --delay 10m --max-retries 0
  tasklane submit email.send null -o json | jq -r .id

Many at once, one task in a line, as POST /api/v1/tasks takes it:
  printf '{\"type\":\"email.send\",\"payload\":%d}\\n' 1 2 3 | tasklane submit --bulk -
  tasklane submit --bulk tasks.ndjson -o ndjson > receipts.ndjson

With ids or idempotency keys in its lines, a file can be submitted again without making twins.";

/// Submit a task, or many.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Submit {
    #[command(flatten)]
    task: Wanted,
    /// Many tasks: a file with one in a line, or - for the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["Wanted", "wait"])]
    bulk: Option<PathBuf>,
    /// Wait for its end, for so long at most; without a time, until it has ended. The exit code is 0
    /// only if it is completed.
    #[arg(long, value_parser = span, value_name = "TIME", num_args = 0..=1, require_equals = true)]
    wait: Option<Option<Duration>>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Debug, Args)]
struct Wanted {
    /// Which handler runs it, for example email.send.
    #[arg(value_name = "TYPE", required_unless_present = "bulk")]
    task_type: Option<String>,
    /// What the handler gets: JSON, @FILE, or - for the standard input; null if absent.
    #[arg(value_name = "PAYLOAD")]
    payload: Option<String>,
    /// Where it waits; `default` if absent.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// How urgent it is: critical, high, normal or low.
    #[arg(long, value_parser = priority)]
    priority: Option<Priority>,
    /// Not before this long from now, for example 10m.
    #[arg(long, value_parser = span, value_name = "TIME", conflicts_with = "at")]
    delay: Option<Duration>,
    /// Not before this instant, for example 2026-12-24T18:00:00Z.
    #[arg(long, value_parser = time, value_name = "TIME")]
    at: Option<Time>,
    /// Cancelled if it has not been claimed by then.
    #[arg(long, value_parser = time, value_name = "TIME")]
    expires_at: Option<Time>,
    /// How long one attempt may run.
    #[arg(long, value_parser = span, value_name = "TIME")]
    timeout: Option<Duration>,
    /// Retries after the first failure.
    #[arg(long, value_name = "COUNT")]
    max_retries: Option<u32>,
    /// A worker must have this capability; may be given again.
    #[arg(long = "require", value_name = "CAPABILITY")]
    required: Vec<String>,
    /// Submitted once in 24 hours for one key in one queue.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Tasks with one key in one queue run one at a time, in order.
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// A label to find it by; may be given again.
    #[arg(long = "label", value_parser = label, value_name = "NAME=VALUE")]
    labels: Vec<(String, String)>,
    /// Ends as failed, not as a dead letter, when its retries are used up.
    #[arg(long)]
    no_dead_letter: bool,
    /// A UUIDv7 of your own: the same task sent again is one task.
    #[arg(long)]
    id: Option<TaskId>,
}

impl Submit {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        if let Some(file) = &self.bulk {
            return bulk::submit(&client, file, self.shown).await;
        }
        let submitted = client.submit(self.task.read()?).await?;
        if submitted.replayed {
            eprintln!("it was there before");
        }
        match self.wait {
            Some(patience) => {
                let patience = patience.unwrap_or(wait::FOR_EVER);
                wait::submitted(&client, submitted.id, patience, self.shown).await
            }
            None => show(&submitted, self.shown).map(|()| DONE),
        }
    }
}

/// A task that was there before may have been removed since.
fn show(submitted: &Submitted, shown: Shown) -> anyhow::Result<()> {
    if let Some(task) = &submitted.task {
        return shown.one(task, |colours| task::sheet(task).render(colours));
    }
    let (id, state) = (TaskIdText(submitted.id), StateWord(submitted.state));
    let receipt = Receipt { id, state, replayed: true, expired: true };
    shown.one(&receipt, |colours| {
        let sheet = Sheet::default().with("id", submitted.id.to_string());
        sheet.with("state", format!("{}, and removed since", submitted.state)).render(colours)
    })
}

impl Wanted {
    fn read(&self) -> anyhow::Result<NewTask> {
        let mut task = NewTask::new(self.task_type.as_deref().unwrap_or_default());
        if let Some(payload) = &self.payload {
            task = task.raw_payload(read(payload)?);
        }
        macro_rules! set {
            ($($member:ident),*) => {$(
                if let Some(value) = self.$member.clone() {
                    task = task.$member(value);
                }
            )*};
        }
        set!(queue, priority, delay, timeout, max_retries, idempotency_key, ordering_key);
        if let Some(at) = self.at {
            task = task.scheduled_at(at.0);
        }
        if let Some(at) = self.expires_at {
            task = task.expires_at(at.0);
        }
        if let Some(id) = self.id {
            task = task.with_id(id);
        }
        if self.no_dead_letter {
            task = task.dead_letter(false);
        }
        let task = self.required.iter().fold(task, |task, name| task.required_capability(name));
        Ok(self.labels.iter().fold(task, |task, (name, value)| task.label(name, value)))
    }
}

/// A payload: itself, from a file, or from the standard input.
fn read(given: &str) -> anyhow::Result<Box<RawValue>> {
    let text = match (given, given.strip_prefix('@')) {
        ("-", _) => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.context("cannot read the standard input")?;
            text
        }
        (_, Some(file)) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?
        }
        (text, None) => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        usage(format!(
            "the payload is no JSON: {error}\n  → a text has quotes of its own: '\"like this\"'; \
             @FILE takes a file, - the standard input"
        ))
    })
}
