//! How tasks are shown.

use tasklane_client::StateName;
use tasklane_client::wire::{Failure, Json, Progress, Task, Time};

use crate::show::{Cell, Paint, Sheet, Table, age, moment, seconds};

/// Tasks in rows.
pub(super) fn table(tasks: &[Task]) -> Table {
    let headings = ["ID", "TYPE", "QUEUE", "PRIORITY", "STATE", "ATTEMPTS", "AGE", "ERROR"];
    Table::of(&headings, tasks, |task| {
        vec![
            Cell::new(task.id.0.to_string()),
            Cell::new(&task.task_type),
            Cell::new(&task.queue),
            Cell::new(task.effective_priority.0.as_str()),
            Cell::new(task.state.0.as_str()).painted(Paint::of(task.state.0)),
            Cell::number(format!("{}/{}", task.attempts, task.max_retries.saturating_add(1))),
            Cell::number(seconds(task.age_seconds)),
            Cell::new(standing(task).map_or("", |error| &error.message)),
        ]
    })
}

/// One task.
pub(super) fn sheet(task: &Task) -> Sheet {
    let state = match &task.reason {
        Some(reason) => format!("{} ({reason})", task.state.0),
        None => task.state.0.to_string(),
    };
    let priority = match task.priority == task.effective_priority {
        true => task.priority.0.to_string(),
        false => format!("{}, by now {}", task.priority.0, task.effective_priority.0),
    };
    let labels = task.metadata.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<_> = labels.collect();
    let sheet = Sheet::default()
        .with("id", task.id.0.to_string())
        .with("type", &task.task_type)
        .with("queue", &task.queue)
        .with("priority", priority)
        .painted("state", state, Paint::of(task.state.0))
        .with("attempts", format!("{} of {}", task.attempts, task.max_retries.saturating_add(1)))
        .some("requires", listed(&task.required_capabilities))
        .some("labels", (!labels.is_empty()).then(|| labels.join(" ")))
        .some("idempotency key", task.idempotency_key.as_ref())
        .some("ordering key", task.ordering_key.as_ref())
        .some("progress", task.progress.as_ref().map(progress))
        .some("worker", task.worker_id.map(|worker| worker.0.to_string()));
    outcome(times(sheet, task), task)
}

fn times(sheet: Sheet, task: &Task) -> Sheet {
    let shown = |time: Option<Time>| time.map(moment);
    let age = age(task.age_seconds.0);
    sheet
        .with("created", format!("{} ({age} ago)", moment(task.created_at)))
        .some("scheduled", shown(task.scheduled_at))
        .some("started", shown(task.started_at))
        .some("next retry", shown(task.next_retry_at))
        .some("expires", shown(task.expires_at))
        .some("cancel asked", shown(task.cancel_requested_at))
        .some("ended", shown(task.completed_at))
        .some("position", task.queue_position.map(|position| position.to_string()))
        .some("estimated wait", task.estimated_wait_seconds.map(seconds))
}

fn outcome(sheet: Sheet, task: &Task) -> Sheet {
    let sheet = sheet
        .some("payload", task.payload.as_ref().and_then(json))
        .some("result", task.result.as_ref().and_then(json));
    match (&task.error, standing(task)) {
        (_, Some(error)) => sheet.painted("error", failure(error), Paint::Bad),
        (Some(error), None) => sheet.with("failed before", failure(error)),
        (None, None) => sheet,
    }
}

/// What is wrong with it now: a task that is completed may have failed before.
fn standing(task: &Task) -> Option<&Failure> {
    task.error.as_ref().filter(|_| task.state.0 != StateName::Completed)
}

/// What went wrong, in a line.
pub(super) fn failure(error: &Failure) -> String {
    let kind = error.kind.map(|kind| kind.0.as_str());
    let about: Vec<_> = kind.into_iter().chain(error.code.as_deref()).collect();
    match about.as_slice() {
        [] => error.message.to_string(),
        about => format!("{} ({})", error.message, about.join(", ")),
    }
}

fn progress(progress: &Progress) -> String {
    let percent = progress.percent.map(|percent| format!("{percent:.0} %"));
    let step = progress.step.map(|step| match progress.steps {
        Some(steps) => format!("step {step} of {steps}"),
        None => format!("step {step}"),
    });
    let rest = progress.eta_seconds.map(|rest| format!("{} left", seconds(rest)));
    let message = progress.message.as_ref().map(ToString::to_string);
    [percent, step, message, rest].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// As it is, unless it says nothing.
fn json(json: &Json) -> Option<String> {
    (&*json.0 != b"null").then(|| String::from_utf8_lossy(&json.0).into_owned())
}

fn listed(names: &[Box<str>]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(" "))
}
