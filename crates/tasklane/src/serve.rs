//! `tasklane serve`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tasklane_core::{ApiKey, Verb};
use tasklane_server::{Authentication, Server, Settings};
use tasklane_sqlite::Options;
use tasklane_store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{keys, log, store};

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
    /// Who may call: `keys` asks everybody for an API key, `off` nobody. Keys if there are any;
    /// otherwise off, which only an address of this machine itself may be.
    #[arg(long, env = "TASKLANE_AUTH", value_enum, value_name = "HOW")]
    auth: Option<Auth>,
    /// Ask for a key at /metrics too: one with the scope read that is not bounded.
    #[arg(long, env = "TASKLANE_GUARD_METRICS")]
    guard_metrics: bool,
    /// Pages of this origin may call from a browser too, for example https://board.example.org;
    /// may be given again.
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allowed_origins: Vec<Box<str>>,
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

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Auth {
    /// Who shows a good key.
    Keys,
    /// Everybody.
    Off,
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
    let listener = TcpListener::bind(&arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let shutdown = CancellationToken::new();
    watch_signals(shutdown.clone())?;
    let address = listener.local_addr()?;
    let settings = Settings {
        lease,
        heartbeat_every: lease / 3,
        authentication: authentication(arguments, store.as_ref(), address).await?,
        guard_metrics: arguments.guard_metrics,
        allowed_origins: arguments.allowed_origins.clone(),
        ..Settings::default()
    };
    let durability = store.status().durability.as_str();
    let keys = settings.authentication == Authentication::Keys;
    tracing::info!(%address, store = arguments.store, durability, keys, "serving");
    let server = Server::new(Arc::clone(&store), settings);
    server.run(listener, shutdown).await?;
    drop(store);
    tracing::info!("stopped");
    Ok(())
}

/// Whether callers are asked for keys; refuses to serve what nobody should.
async fn authentication(
    arguments: &Arguments,
    store: &dyn Store,
    address: SocketAddr,
) -> anyhow::Result<Authentication> {
    let now = store.now();
    let keys = store.api_keys().await.context("cannot read the keys")?;
    let wanted = arguments.auth.unwrap_or(if keys.is_empty() { Auth::Off } else { Auth::Keys });
    let place = &arguments.store;
    if wanted == Auth::Off {
        if !address.ip().to_canonical().is_loopback() {
            bail!(
                "refusing to listen on {address} without keys: whoever reaches that address could \
                 do everything.\nMake a first key, then start the server again:\n  \
                 tasklane keys bootstrap --store {place}\n\
                 or listen on this machine alone: --listen 127.0.0.1:{}",
                address.port()
            );
        }
        if !keys.is_empty() {
            tracing::warn!("there are keys, but --auth off lets everybody in without one");
        }
        return Ok(Authentication::Off);
    }
    let opens = |key: &ApiKey| key.is_good(now) && key.grants.reach(Verb::Admin).is_some();
    if !keys.iter().any(opens) {
        if place.starts_with("memory:") {
            let made = keys::make_first(store, "admin").await?;
            eprintln!("The store is in memory, so is its key. It is shown this once:");
            println!("{}", made.reveal());
        } else {
            bail!(
                "no key with the scope admin is good: nobody could make others. Make one:\n  \
                 tasklane keys bootstrap --store {place}"
            );
        }
    }
    Ok(Authentication::Keys)
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
