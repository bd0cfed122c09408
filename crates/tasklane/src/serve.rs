//! `tasklane serve`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tasklane_server::{Server, Settings};
use tasklane_sqlite::Options;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{log, store};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen.
    #[arg(long, env = "TASKLANE_LISTEN", default_value = "127.0.0.1:7170", value_name = "ADDRESS")]
    listen: String,
    /// Where tasks are kept: sqlite:FOLDER, or memory: to lose them at the end.
    #[arg(
        long,
        env = "TASKLANE_STORE",
        default_value = "sqlite:./tasklane-data",
        value_name = "STORE"
    )]
    store: String,
    /// How long a worker holds a task without a sign of life, in milliseconds.
    #[arg(long, env = "TASKLANE_LEASE_MS", default_value_t = 30_000, value_name = "MS")]
    lease_ms: u64,
    /// How log lines look.
    #[arg(long, env = "TASKLANE_LOG_FORMAT", value_enum, default_value_t = log::Format::Human)]
    log_format: log::Format,
    /// Which log lines to write: error, warn, info, debug or trace.
    #[arg(long, env = "TASKLANE_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    log::start(arguments.log_format, &arguments.log_level)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> anyhow::Result<()> {
    let lease = Duration::from_millis(arguments.lease_ms);
    let mut options = Options::default();
    options.rules.lease = lease;
    options.rules.silence = lease;
    let store = store::open(&arguments.store, &options)?;
    let settings = Settings { lease, heartbeat_every: lease / 3, ..Settings::default() };
    let listener = TcpListener::bind(&arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let shutdown = CancellationToken::new();
    watch_signals(shutdown.clone())?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "there are no keys yet: whoever reaches this address may do everything");
    }
    let durability = store.status().durability.as_str();
    tracing::info!(%address, store = arguments.store, durability, "serving");
    let server = Server::new(Arc::clone(&store), settings);
    server.run(listener, shutdown).await?;
    drop(store);
    tracing::info!("stopped");
    Ok(())
}

/// The first signal asks for an end; the second one is one.
fn watch_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                tracing::warn!("second signal: stopping at once");
                std::process::exit(1);
            }
            shutdown.cancel();
        }
    });
    Ok(())
}
