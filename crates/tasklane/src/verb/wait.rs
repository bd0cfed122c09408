//! `wait`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tasklane_client::wire::Task;
use tasklane_client::{Client, StateName, TaskId};

use super::task;
use crate::connection::Connection;
use crate::ending::{DONE, Outcome, not_as_it_should_be};
use crate::show::{List, Shown};
use crate::value::span;

const EXAMPLES: &str = "\
Examples:
  tasklane wait ID
  tasklane wait ID1 ID2 ID3 --timeout 10m && echo all completed
  tasklane wait ID -o json | jq .tasks[0].result

The exit code is 0 when all of them are completed, and 1 when one ended otherwise or none of the
time is left.";

/// What is as good as for ever.
pub(super) const FOR_EVER: Duration = Duration::from_secs(365 * 86_400);

/// Wait until tasks have ended.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Wait {
    /// The tasks.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<TaskId>,
    /// For so long at most, for example 30s or 10m; without it until they have ended.
    #[arg(long, value_parser = span, value_name = "TIME")]
    timeout: Option<Duration>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Wait {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.server.client()?;
        let until = tokio::time::Instant::now() + self.timeout.unwrap_or(FOR_EVER);
        let mut tasks = Vec::new();
        for id in &self.ids {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            tasks.push(client.wait(*id, left).await?);
        }
        let list = List::whole("tasks", tasks);
        self.shown.many(&list, task::table)?;
        Ok(judged(&list.things))
    }
}

/// Waits for one task that was just submitted.
pub(super) async fn submitted(
    client: &Client,
    id: TaskId,
    patience: Duration,
    shown: Shown,
) -> Outcome {
    let task = client.wait(id, patience).await?;
    shown.one(&task, |colours| task::sheet(&task).render(colours))?;
    Ok(judged(&[task]))
}

/// Whether all are as they should be.
fn judged(tasks: &[Task]) -> ExitCode {
    for task in tasks {
        let (id, state) = (task.id.0, task.state.0);
        match state {
            StateName::Completed => {}
            state if state.is_terminal() => eprintln!("tasklane: {id} ended as {state}"),
            state => {
                eprintln!("tasklane: {id} is still {state}\n  → tasklane explain {id} says why")
            }
        }
    }
    match tasks.iter().all(|task| task.state.0 == StateName::Completed) {
        true => DONE,
        false => not_as_it_should_be(),
    }
}
