//! `tasklane dev`: a server, a worker and some traffic, to look at.

mod demo;
mod traffic;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use tasklane_client::Client;
use tasklane_store::StoreError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::{self, Reloading, Sources};
use crate::ending::{DONE, Outcome};
use crate::{log, serve};

const EXAMPLE: &str = "\
Examples:
  tasklane dev                                              # ./tasklane-dev, 127.0.0.1:7170
  tasklane dev --folder /tmp/other --listen 127.0.0.1:0     # a second one, on a free port

Delete the folder to begin anew. For real use there is `tasklane serve`.";

/// Where commands look for a server.
const DEFAULT_PORT: u16 = 7170;
/// Where a running one says how to reach it, in its folder.
const ADDRESS_FILE: &str = "address";

/// Try it: a server with a worker and sample tasks, in one go.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// Where to listen; port 0 takes one that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7170")]
    listen: String,
    /// Where tasks are kept.
    #[arg(long, value_name = "FOLDER", default_value = "./tasklane-dev")]
    folder: PathBuf,
    /// Submit nothing: the worker waits for what you submit.
    #[arg(long)]
    quiet: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    all(arguments).await?;
    Ok(DONE)
}

/// Everything, until a signal: then the traffic ends, the worker finishes what it has, and the
/// server follows.
async fn all(arguments: &Arguments) -> anyhow::Result<()> {
    let (stop, server_stop) = (CancellationToken::new(), CancellationToken::new());
    serve::watch_signals(stop.clone())?;
    let (ready, listening) = oneshot::channel();
    let server = tokio::spawn({
        let (effective, reloading) = settings(arguments)?;
        let told = move |address| {
            let _ = ready.send(address);
        };
        serve::serve(effective, reloading, server_stop.clone(), told)
    });
    let Ok(address) = listening.await else {
        let outcome = server.await.context("the server ended in the middle")?;
        return outcome.map_err(|error| explain(error, arguments));
    };
    let url = format!("http://{address}");
    let noted = arguments.folder.join(ADDRESS_FILE);
    std::fs::write(&noted, &url).with_context(|| format!("cannot write {}", noted.display()))?;
    let client = Client::connect_to(&url)?;
    print!("{}", welcome(address, &arguments.folder, !arguments.quiet));
    let traffic = async {
        if !arguments.quiet {
            traffic::run(&client, &stop).await;
        }
    };
    let worker = demo::worker(client.clone())?;
    tokio::spawn({
        let stop = stop.clone();
        async move {
            stop.cancelled().await;
            eprintln!("Stopping: the worker finishes what it has.");
        }
    });
    let (worked, ()) = tokio::join!(worker.run(stop.clone().cancelled_owned()), traffic);
    // A worker ends by itself only if it cannot go on.
    if !stop.is_cancelled() {
        eprintln!("tasklane: the demo worker has ended; the server goes on");
        stop.cancelled().await;
    }
    server_stop.cancel();
    let served = server.await.context("the server ended in the middle")?;
    let _ = std::fs::remove_file(noted);
    served?;
    worked?;
    eprintln!("Stopped. Its tasks are still in {}.", arguments.folder.display());
    Ok(())
}

/// As `tasklane serve` has them, but for where: nothing that is set for another server counts here.
fn settings(arguments: &Arguments) -> anyhow::Result<(config::Effective, Reloading)> {
    let flags = [
        ("listen", arguments.listen.clone()),
        ("store", format!("sqlite:{}", arguments.folder.display())),
        ("log.level", "warn".to_owned()),
    ];
    let flags: BTreeMap<_, _> = flags.map(|(name, value)| (name.to_owned(), value)).into();
    let sources = Sources { flags, ..Sources::default() };
    let loaded = config::load(&sources)?;
    let effective = loaded.effective.clone();
    let log = log::start(effective.log_format, &effective.log_level)?;
    Ok((effective, Reloading::new(sources, loaded, log)))
}

/// What to do when the usual goes wrong: there is one already.
fn explain(error: anyhow::Error, arguments: &Arguments) -> anyhow::Error {
    let folder = &arguments.folder;
    if matches!(error.downcast_ref(), Some(StoreError::Locked(_))) {
        let address = std::fs::read_to_string(folder.join(ADDRESS_FILE));
        let at = address.map_or(String::new(), |address| format!(", at {}", address.trim()));
        return anyhow!(
            "one is running in {} already{at}.\nUse that one, or start another beside it:\n  \
             tasklane dev --folder ./tasklane-dev-2 --listen 127.0.0.1:0",
            folder.display()
        );
    }
    if error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == ErrorKind::AddrInUse) {
        return anyhow!(
            "something else listens on {} already. Take a free port instead:\n  \
             tasklane dev --listen 127.0.0.1:0",
            arguments.listen
        );
    }
    error
}

fn welcome(address: SocketAddr, folder: &Path, traffic: bool) -> String {
    let (url, folder) = (format!("http://{address}"), folder.display());
    // As it was called: it need not be where commands are looked for.
    let program = std::env::args().next().unwrap_or_else(|| "tasklane".to_owned());
    let port = match address.port() {
        DEFAULT_PORT => String::new(),
        _ => format!(" --server {url}"),
    };
    let traffic = if traffic { " and sample tasks, some of which fail" } else { "" };
    format!(
        "Tasklane is running at {url}, with a demo worker{traffic}.\n\
         Its tasks are kept in {folder}.\n\
         \n\
         Look:\n  \
         {program} top{port}   # everything at a glance\n  \
         {url}/docs   # every call\n  \
         curl -N {url}/api/v1/events   # what happens, as it happens\n\
         \n\
         Try:\n  \
         curl {url}/api/v1/tasks -H 'content-type: application/json' -d '{{\"type\": \"echo\", \"payload\": {{\"hello\": \"world\"}}}}'\n  \
         curl {url}/api/v1/queue/stats\n  \
         curl {url}/api/v1/dlq\n\
         \n\
         Stop: Ctrl-C\n"
    )
}
