//! `events`: what happens, as it happens.

use clap::Args;
use tasklane_client::TaskId;
use tasklane_client::call::EventFilter;
use tasklane_client::wire::{Event, EventData};

use crate::connection::Connection;
use crate::ending::{DONE, Outcome};
use crate::show::{Colours, Format, Paint, Shown, age, clean, line, moment, print};

const EXAMPLES: &str = "\
Examples:
  tasklane events                                     # until Ctrl-C
  tasklane events --kind task.dead_lettered --kind 'worker.*'
  tasklane events --queue mail --type email.send -o ndjson | jq .data.task_id
  tasklane events --task ID
  tasklane events --cursor CURSOR                     # goes on after an event seen before

With -o json or ndjson each event is a line. It goes on by itself after a lost connection or a
restart of the server; none is missed. If events are gone for good, one of type system.gap says so.
At its end the cursor to go on with is told.";

/// Follow events.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    /// Of this kind, for example task.completed or worker.*; may be given again.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Of tasks of this type; may be given again.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Of this queue; may be given again.
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
    /// Of this task; may be given again.
    #[arg(long = "task", value_name = "ID")]
    tasks: Vec<TaskId>,
    /// Go on after the event with this cursor.
    #[arg(long)]
    cursor: Option<String>,
    /// End after so many.
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

impl Events {
    pub(crate) async fn run(&self) -> Outcome {
        let filter = EventFilter {
            kinds: self.kinds.clone(),
            types: self.types.clone(),
            queues: self.queues.clone(),
            tasks: self.tasks.clone(),
        };
        let client = self.server.client()?;
        let mut events = client.events(filter, self.cursor.as_deref()).await?;
        let colours = Colours::of_output();
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let event = tokio::select! {
                event = events.next() => event?,
                _ = tokio::signal::ctrl_c() => break,
            };
            match self.shown.format() {
                Format::Table => print(&told(&event, colours))?,
                Format::Json | Format::Ndjson => line(&event)?,
            }
            left -= 1;
        }
        if let Some(cursor) = events.cursor() {
            eprintln!("to go on after this: --cursor {cursor}");
        }
        Ok(DONE)
    }
}

/// An event for people.
fn told(event: &Event, colours: Colours) -> String {
    let data = &event.data;
    let kind = format!("{:<20}", clean(&event.event_type));
    let kind = colours.paint(paint(&event.event_type), &kind);
    let of_what = data.task_id.map(|task| task.0.to_string());
    let of_what = of_what.or_else(|| data.worker_id.map(|worker| worker.0.to_string()));
    let of_what = of_what.or_else(|| data.queue.as_ref().map(ToString::to_string));
    let detail = detail(data).join(" ");
    let of_what = clean(&of_what.unwrap_or_default());
    let text = format!("{}  {kind}  {of_what:<36}  {}", moment(event.timestamp), clean(&detail));
    format!("{}\n", text.trim_end())
}

fn detail(data: &EventData) -> Vec<String> {
    let millis = |millis: u64| age(std::time::Duration::from_millis(millis));
    let of_task = data.task_id.is_some();
    let parts = [
        data.task_type.as_ref().map(|task_type| format!("type={task_type}")),
        data.queue.as_ref().filter(|_| of_task).map(|queue| format!("queue={queue}")),
        data.priority.map(|priority| format!("priority={}", priority.0)),
        data.worker_id.filter(|_| of_task).map(|worker| format!("worker={}", worker.0)),
        data.waited_ms.map(|waited| format!("waited={}", millis(waited))),
        data.duration_ms.map(|took| format!("took={}", millis(took))),
        data.due_at.map(|due| format!("due={}", moment(due))),
        data.depths.map(|depths| format!("depths={}", depths.map(|d| d.to_string()).join("/"))),
        data.gap.as_ref().map(|gap| format!("gap={gap}")),
        data.reason.as_ref().map(|reason| format!("reason={reason}")),
        data.error.as_ref().map(|error| format!("kind={}", error.kind.0.as_str())),
        data.error
            .as_ref()
            .and_then(|error| error.code.as_ref())
            .map(|code| format!("code={code}")),
    ];
    parts.into_iter().flatten().collect()
}

fn paint(kind: &str) -> Paint {
    match kind {
        "task.completed" => Paint::Good,
        "task.failed" | "task.dead_lettered" | "worker.dead" | "worker.unhealthy"
        | "system.gap" => Paint::Bad,
        "task.retrying" | "task.lease_lost" => Paint::Doubtful,
        "task.claimed" | "task.started" | "task.progress" => Paint::Busy,
        _ => Paint::Plain,
    }
}
