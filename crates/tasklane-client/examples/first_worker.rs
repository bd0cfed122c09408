//! A first worker: `cargo run -p tasklane-client --example first_worker`, beside a server.

use serde::{Deserialize, Serialize};
use tasklane_client::Client;
use tasklane_client::worker::{Context, TaskError, Worker};

#[derive(Deserialize)]
pub(crate) struct Email {
    to: String,
    text: String,
}

#[derive(Serialize)]
pub(crate) struct Sent {
    characters: usize,
}

pub(crate) async fn send(context: Context, email: Email) -> Result<Sent, TaskError> {
    if !email.to.contains('@') {
        return Err(TaskError::permanent("that is no address"));
    }
    context.progress(50.0, "the mail server is listening");
    println!("attempt {} to {}", context.attempt(), email.to);
    Ok(Sent { characters: email.text.chars().count() })
}

#[tokio::main]
async fn main() -> Result<(), tasklane_client::Error> {
    let client = Client::from_env()?;
    let worker = Worker::builder(client).capacity(10).handle("email.send", send).build()?;
    worker.run(async { drop(tokio::signal::ctrl_c().await) }).await
}
