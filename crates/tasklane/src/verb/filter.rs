//! Which tasks are meant.

use clap::Args;
use tasklane_client::wire::{PriorityWord, StateWord, TaskFilter, Time, WorkerIdText};
use tasklane_client::{Priority, StateName, WorkerId};

use crate::value::{label, priority, state, time};

// What tasks have in common. Not a doc comment: it would become that of the command.
#[derive(Debug, Clone, Args)]
pub(super) struct Filter {
    /// Of this type, or types that begin so with `*`.
    #[arg(long = "type", value_name = "PATTERN", help_heading = "Which tasks")]
    task_type: Option<Box<str>>,
    /// In this queue, or queues that begin so with `*`.
    #[arg(long, value_name = "PATTERN", help_heading = "Which tasks")]
    queue: Option<Box<str>>,
    /// Of this priority.
    #[arg(long, value_parser = priority, help_heading = "Which tasks")]
    priority: Option<Priority>,
    /// Held by this worker.
    #[arg(long, value_name = "ID", help_heading = "Which tasks")]
    worker: Option<WorkerId>,
    /// With this label; may be given again.
    #[arg(long = "label", value_parser = label, value_name = "NAME=VALUE", help_heading = "Which tasks")]
    labels: Vec<(String, String)>,
    /// Created at or after this time.
    #[arg(long, value_parser = time, value_name = "TIME", help_heading = "Which tasks")]
    created_after: Option<Time>,
    /// Created before this time.
    #[arg(long, value_parser = time, value_name = "TIME", help_heading = "Which tasks")]
    created_before: Option<Time>,
    /// Whose last error contains this.
    #[arg(long, value_name = "TEXT", help_heading = "Which tasks")]
    error: Option<Box<str>>,
}

// In which states they are.
#[derive(Debug, Clone, Args)]
pub(super) struct States {
    /// In this state; several with commas.
    #[arg(
        long = "state",
        value_parser = state,
        value_delimiter = ',',
        value_name = "STATE",
        help_heading = "Which tasks"
    )]
    states: Vec<StateName>,
}

impl Filter {
    /// As it is asked for.
    pub(super) fn wanted(&self) -> TaskFilter {
        let label = |(name, value): &(String, String)| {
            (name.clone().into_boxed_str(), value.clone().into_boxed_str())
        };
        TaskFilter {
            states: None,
            task_type: self.task_type.clone(),
            queue: self.queue.clone(),
            priority: self.priority.map(PriorityWord),
            worker_id: self.worker.map(WorkerIdText),
            metadata: (!self.labels.is_empty()).then(|| self.labels.iter().map(label).collect()),
            created_after: self.created_after,
            created_before: self.created_before,
            error: self.error.clone(),
        }
    }
}

impl States {
    /// Adds them to a filter.
    pub(super) fn within(&self, filter: TaskFilter) -> TaskFilter {
        let states = self.states.iter().copied().map(StateWord).collect();
        TaskFilter { states: (!self.states.is_empty()).then_some(states), ..filter }
    }
}

/// Whether a filter excludes nothing.
pub(super) fn is_empty(filter: &TaskFilter) -> bool {
    *filter == TaskFilter::default()
}
