//! Sample tasks, a few each second, for as long as somebody watches.

use std::time::Duration;

use serde_json::json;
use tasklane_client::{Client, NewTask, Priority};
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_millis(400);
/// How long to rest when the server takes none.
const REST: Duration = Duration::from_secs(2);

pub(super) async fn run(client: &Client, stop: &CancellationToken) {
    let _ = stop.run_until_cancelled(submit_all(client)).await;
}

async fn submit_all(client: &Client) {
    // One dead letter is enough: submitted again, it is the same task.
    let impossible = NewTask::new("report.build").payload(&json!({"month": 13}));
    submit(client, impossible.idempotency_key("dev-dead-letter")).await;
    for number in 1_u32.. {
        submit(client, sample(number)).await;
        tokio::time::sleep(EVERY).await;
    }
}

/// Mostly mail; now and then something that matters more, takes longer, or fails at first.
fn sample(number: u32) -> NewTask {
    let task = match number % 10 {
        3 => NewTask::new("invoice.charge")
            .payload(&json!({"invoice": number}))
            .priority(Priority::Critical)
            .ordering_key(format!("customer-{}", number % 3)),
        5 => NewTask::new("image.resize").payload(&json!({"frames": 5 + number % 5})),
        7 => NewTask::new("report.build")
            .payload(&json!({"month": 1 + number % 12}))
            .priority(Priority::Low),
        9 => NewTask::new("email.send")
            .payload(&json!({"to": "later@example.org"}))
            .delay(Duration::from_secs(15)),
        other => {
            let priority = if other % 2 == 0 { Priority::High } else { Priority::Normal };
            let to = format!("user-{number}@example.org");
            NewTask::new("email.send").payload(&json!({"to": to})).priority(priority)
        }
    };
    task.label("source", "dev")
}

async fn submit(client: &Client, task: NewTask) {
    if let Err(error) = client.submit(task).await {
        tracing::warn!(%error, "a sample task was not taken");
        tokio::time::sleep(REST).await;
    }
}
