//! `tasklane serve`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use tasklane_core::{ApiKey, AuditEntry, Verb, Who};
use tasklane_server::engine::{Engine, NamedCertificate, ReloadRequest};
use tasklane_server::tls::Tls;
use tasklane_server::trace::Tracer;
use tasklane_server::{Authentication, Server, Settings};
use tasklane_store::Store;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Auth, Effective, Flags, Reloading};
use crate::ending::{DONE, Outcome};
use crate::{keys, listen, log, machine, store};

pub(crate) const EXAMPLE: &str = "\
Examples:
  tasklane serve                                  # ./tasklane-data, 127.0.0.1:7170
  tasklane serve --store postgres://tasklane@db.example.org/tasks
  tasklane serve --store redis://cache.example.org:6379/
  tasklane serve --config tasklane.toml --log-format json
  TASKLANE_BREAKER_FAILURES=10 tasklane serve     # every setting has a name in the environment

`tasklane config default` prints a file with every setting.";

pub(crate) async fn run(flags: &Flags) -> Outcome {
    let sources = flags.sources();
    let loaded = config::load(&sources)?;
    let effective = loaded.effective.clone();
    let log = log::start(effective.log_format, &effective.log_level)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let reloading = Reloading::new(sources, loaded, log);
    let shutdown = CancellationToken::new();
    watch_signals(shutdown.clone())?;
    serve(effective, reloading, shutdown, |_| ()).await?;
    Ok(DONE)
}

/// Serves until `shutdown`. `listening` is told where, once calls are taken.
pub(crate) async fn serve(
    effective: Effective,
    reloading: Reloading,
    shutdown: CancellationToken,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let Effective { listen, store: place, auth, options, tls, traces, settings, tokens, .. } =
        effective;
    machine::raise_open_files();
    let tls = tls.map(Tls::open).transpose()?;
    let tracer = traces.map(Tracer::open).transpose()?;
    let tokens = tokens.read().map_err(anyhow::Error::msg)?;
    let store = store::open(&place, &options).await?;
    let listener =
        listen::listen(&listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let settings = Settings { tokens, ..settings };
    let authentication = authentication(auth, &place, store.as_ref(), &settings, address).await?;
    let settings = Settings { authentication, ..settings };
    let durability = store.status().durability.as_str();
    let server = Server::new(Arc::clone(&store), settings);
    let server = match &tls {
        Some(tls) => server.with_tls(Arc::clone(tls)),
        None => server,
    };
    let server = match tracer {
        Some(tracer) => server.with_traces(tracer),
        None => server,
    };
    let engine = Arc::clone(server.engine());
    let folder = machine::folder(&place);
    engine.measure_machine_by(move || machine::figures(folder.as_ref()));
    let hangup = signal(SignalKind::hangup())?;
    let speaks_tls = tls.is_some();
    tokio::spawn(reload(reloading, engine.reloads(), hangup, engine, tls, shutdown.clone()));
    let (keys, place) = (authentication == Authentication::Keys, config::shown_address(&place));
    tracing::info!(%address, store = place, durability, keys, tls = speaks_tls, "serving");
    listening(address);
    server.run(listener, shutdown).await?;
    drop(store);
    tracing::info!("stopped");
    Ok(())
}

/// Whether callers are asked for keys; refuses to serve what nobody should.
async fn authentication(
    auth: Auth,
    place: &str,
    store: &dyn Store,
    settings: &Settings,
    address: SocketAddr,
) -> anyhow::Result<Authentication> {
    // What is shown must not hold a password.
    let shown = config::shown_address(place);
    let now = store.now();
    let keys = store.api_keys().await.context("cannot read the keys")?;
    let Settings { client_certificates, tokens, .. } = settings;
    let nobody_is_known = keys.is_empty() && client_certificates.is_empty() && tokens.is_none();
    if auth == Auth::Off || (auth == Auth::Auto && nobody_is_known) {
        if !address.ip().to_canonical().is_loopback() {
            bail!(
                "refusing to listen on {address} without keys: whoever reaches that address could \
                 do everything.\nMake a first key, then start the server again:\n  \
                 tasklane keys bootstrap --store {shown}\n\
                 or listen on this machine alone: --listen 127.0.0.1:{}",
                address.port()
            );
        }
        if !nobody_is_known {
            tracing::warn!("there are keys, but auth = \"off\" lets everybody in without one");
        }
        return Ok(Authentication::Off);
    }
    let opens = |key: &ApiKey| key.is_good(now) && key.grants.reach(Verb::Admin).is_some();
    let admins =
        |certificate: &Arc<NamedCertificate>| certificate.grants.reach(Verb::Admin).is_some();
    // Tokens may have the scope too: their issuer knows.
    let others = tokens.is_some() || client_certificates.values().any(admins);
    if !others && !keys.iter().any(opens) {
        if place.starts_with("memory:") {
            let made = keys::make_first(store, "admin").await?;
            eprintln!("The store is in memory, so is its key. It is shown this once:");
            println!("{}", made.reveal());
        } else {
            bail!(
                "no key with the scope admin is good: nobody could make others. Make one:\n  \
                 tasklane keys bootstrap --store {shown}"
            );
        }
    }
    Ok(Authentication::Keys)
}

/// Reads the configuration anew when asked, one time after the other.
async fn reload(
    mut reloading: Reloading,
    mut requests: mpsc::Receiver<ReloadRequest>,
    mut hangup: Signal,
    engine: Arc<Engine>,
    tls: Option<Arc<Tls>>,
    shutdown: CancellationToken,
) {
    loop {
        let asked = tokio::select! {
            request = requests.recv() => request,
            _ = hangup.recv() => None,
            () = shutdown.cancelled() => return,
        };
        if let Some(tls) = &tls {
            tls.refresh().await;
        }
        let outcome = reloading.run(&engine).await;
        match &outcome {
            Ok(reloaded) => {
                let (applied, needs_restart) =
                    (reloaded.applied.join(", "), reloaded.needs_restart.join(", "));
                tracing::info!(applied, needs_restart, "the configuration was read anew");
            }
            Err(wrong) => {
                tracing::error!(%wrong, "the configuration is wrong: nothing was changed");
            }
        }
        match asked {
            // Who asked may have gone. That they asked is recorded where calls are.
            Some(request) => drop(request.send(outcome.map_err(|wrong| wrong.0))),
            None => {
                let outcome = outcome.map_or("invalid-configuration", |_| AuditEntry::DONE);
                engine.record(AuditEntry::new(&Who::Machine, "SIGHUP", outcome)).await;
            }
        }
    }
}

/// The first signal asks for an end; the second one is one.
pub(crate) fn watch_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
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
