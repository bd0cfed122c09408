//! A first task: `cargo run -p tasklane-client --example first_task`, beside a server and the
//! worker of the example `first_worker`.

use std::time::Duration;

use serde_json::json;
use tasklane_client::{Client, Error, NewTask, Priority};

#[tokio::main]
async fn main() -> Result<(), Error> {
    println!("{}", send_email(&Client::from_env()?).await?);
    Ok(())
}

/// Submits a task and waits for what comes of it.
pub(crate) async fn send_email(client: &Client) -> Result<String, Error> {
    let email = NewTask::new("email.send")
        .payload(&json!({"to": "ada@example.org", "text": "good morning"}))
        .priority(Priority::High)
        .label("user", "7");
    // Should the answer get lost, the client sends the task again: its id makes it one task.
    let submitted = client.submit(email).await?;
    let task = client.wait(submitted.id, Duration::from_secs(60)).await?;
    let result = task.result.map(|result| String::from_utf8_lossy(&result.0).into_owned());
    Ok(format!("{}: {}", task.state.0, result.unwrap_or_default()))
}
