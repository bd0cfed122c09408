//! `tasklane worker`: a worker without writing code.
//!
//! - [`settings`] which handlers, and how: from flags and a file
//! - [`simple`], [`webhook`], [`email`], [`exec`] the handlers; [`address`] what a webhook may call
//! - [`listen`] probes and metrics, from what [`tally`] counts

mod address;
mod email;
mod exec;
mod listen;
mod settings;
mod simple;
mod tally;
mod webhook;

use std::sync::Arc;

use tasklane_client::Client;
use tasklane_client::worker::{Worker, WorkerBuilder};
use tokio_util::sync::CancellationToken;

use crate::ending::{DONE, Outcome};
use crate::{log, serve};
pub(crate) use settings::Arguments;
use settings::{Handler, Settings};
use tally::Tally;

pub(crate) const EXAMPLE: &str = "\
Examples:
  tasklane worker --handle echo,sleep
  tasklane worker --handle webhook --capacity 50 --listen 127.0.0.1:7171
  tasklane worker --exec resize='convert - -resize 50% -' --queue images
  tasklane worker --config worker.toml

What each handler takes, and what becomes of a task, is in docs/worker-guide.md.";

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let settings = Settings::load(arguments)?;
    log::start(settings.log_format, &settings.log_level)?;
    let client = arguments.connection.client()?;
    let tally = Arc::new(Tally::default());
    let worker = build(&settings, client, &tally)?;
    let stop = CancellationToken::new();
    serve::watch_signals(stop.clone())?;
    let ended = CancellationToken::new();
    let listening = match &settings.listen {
        Some(place) => {
            let listener = listen::bind(place).await?;
            let (tally, stop, ended) = (Arc::clone(&tally), stop.clone(), ended.clone());
            Some(tokio::spawn(listen::run(listener, tally, stop, ended)))
        }
        None => None,
    };
    let handlers = settings.names();
    tracing::info!(server = settings.server, handlers, capacity = settings.capacity, "working");
    let worked = worker.run(stop.cancelled_owned()).await;
    ended.cancel();
    if let Some(listening) = listening {
        listening.await?;
    }
    worked?;
    tracing::info!("stopped");
    Ok(DONE)
}

fn build(settings: &Settings, client: Client, tally: &Arc<Tally>) -> anyhow::Result<Worker> {
    let mut builder = Worker::builder(client)
        .capacity(settings.capacity)
        .version(env!("CARGO_PKG_VERSION"))
        .drain_within(settings.drain_within);
    if let Some(name) = &settings.name {
        builder = builder.name(name.as_str());
    }
    for queue in &settings.queues {
        builder = builder.queue(queue.as_str());
    }
    for capability in &settings.capabilities {
        builder = builder.capability(capability.as_str());
    }
    for handler in &settings.handlers {
        builder = enable(builder, *handler, settings, tally)?;
    }
    Ok(builder.build()?)
}

fn enable(
    builder: WorkerBuilder,
    handler: Handler,
    settings: &Settings,
    tally: &Arc<Tally>,
) -> anyhow::Result<WorkerBuilder> {
    let name = handler.as_str();
    Ok(match handler {
        Handler::Echo => builder.handle(name, tally.counting(name, simple::echo)),
        Handler::Sleep => builder.handle(name, tally.counting(name, simple::sleep)),
        Handler::Webhook => {
            let caller = Arc::new(webhook::Caller::new(&settings.webhook)?);
            let call = move |context, payload| Arc::clone(&caller).run(context, payload);
            builder.handle(name, tally.counting(name, call))
        }
        Handler::Email => {
            let sender = Arc::new(email::Sender::new(&settings.email)?);
            let send = move |context, payload| Arc::clone(&sender).run(context, payload);
            builder.handle(name, tally.counting(name, send))
        }
        Handler::Exec => {
            let runner = Arc::new(exec::Runner::new(settings.commands.clone()));
            let run = move |context, payload| Arc::clone(&runner).run(context, payload);
            builder.handle(name, tally.counting(name, run))
        }
    })
}
