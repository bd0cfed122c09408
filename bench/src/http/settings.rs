//! What to do, from the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// Which load to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Fill,
    Submit,
    Drain,
    Pickup,
    Events,
    Mixed,
}

/// The options of all scenarios.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) scenario: Scenario,
    pub(crate) address: SocketAddr,
    /// Of the `Host` header.
    pub(crate) host: String,
    pub(crate) connections: usize,
    pub(crate) workers: usize,
    /// Tasks of one call.
    pub(crate) batch: usize,
    /// Tasks after which a submit ends, or that a drain drains.
    pub(crate) tasks: usize,
    pub(crate) time: Duration,
    /// What is answered before this does not count.
    pub(crate) warm_up: Duration,
    /// Tasks a second.
    pub(crate) rate: usize,
    /// Bytes of a payload.
    pub(crate) payload: usize,
    /// Of every task; the server's own default if absent.
    pub(crate) priority: Option<String>,
    /// Tasks submitted first, which stay waiting.
    pub(crate) queued: usize,
    /// The server's process, to say what a task costs it.
    pub(crate) pid: Option<usize>,
    /// What a drain drains is already there.
    pub(crate) filled: bool,
}

const USAGE: &str = "http fill|submit|drain|pickup|events|mixed [--url http://HOST:PORT] \
    [--connections N] [--workers N] [--batch N] [--tasks N] [--seconds N] [--warm-up SECONDS] \
    [--rate N] [--payload BYTES] [--priority WORD] [--queued N] [--filled] [--pid SERVER]";

impl Settings {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let scenario = match arguments.next().as_deref() {
            Some("fill") => Scenario::Fill,
            Some("submit") => Scenario::Submit,
            Some("drain") => Scenario::Drain,
            Some("pickup") => Scenario::Pickup,
            Some("events") => Scenario::Events,
            Some("mixed") => Scenario::Mixed,
            _ => return Err(USAGE.into()),
        };
        let (mut priority, mut pid) = (None, None);
        let mut url = "http://127.0.0.1:7170".to_owned();
        let (mut batch, mut connections, mut workers, mut tasks) = (None, None, None, None);
        let (mut seconds, mut warm_up) = (5.0, 0.0);
        let (mut rate, mut payload, mut queued, mut filled) = (200, 100, 0, false);
        while let Some(flag) = arguments.next() {
            if flag == "--filled" {
                filled = true;
                continue;
            }
            let value = arguments.next().ok_or(format!("{flag} wants a value"))?;
            let count = || value.parse::<usize>().map_err(|_| format!("{flag} wants a number"));
            let time = || {
                let seconds =
                    value.parse::<f64>().ok().filter(|seconds| (0.0..1e6).contains(seconds));
                seconds.ok_or(format!("{flag} wants a number of seconds"))
            };
            match flag.as_str() {
                "--url" => url.clone_from(&value),
                "--priority" => priority = Some(value.clone()),
                "--pid" => pid = Some(count()?),
                "--batch" => batch = Some(count()?.max(1)),
                "--connections" => connections = Some(count()?.max(1)),
                "--workers" => workers = Some(count()?.max(1)),
                "--tasks" => tasks = Some(count()?),
                "--seconds" => seconds = time()?,
                "--warm-up" => warm_up = time()?,
                "--rate" => rate = count()?.max(1),
                "--payload" => payload = count()?,
                "--queued" => queued = count()?,
                _ => return Err(format!("unknown flag {flag}\n{USAGE}")),
            }
        }
        let host = url.strip_prefix("http://").unwrap_or(&url).trim_end_matches('/').to_owned();
        let address = host.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.ok_or(format!("--url {url}: give http://HOST:PORT"))?;
        let batch = batch.unwrap_or(match scenario {
            Scenario::Submit => 1,
            Scenario::Mixed => 10,
            _ => 100,
        });
        // Few callers with many tasks each, or many with few.
        let callers = if batch >= 100 { 4 } else { 64 };
        let many = if scenario == Scenario::Drain { 200_000 } else { usize::MAX };
        Ok(Self {
            scenario,
            address,
            host,
            connections: connections.unwrap_or(match scenario {
                Scenario::Mixed => 16,
                _ => callers,
            }),
            workers: workers.unwrap_or(match scenario {
                Scenario::Mixed => 8,
                _ if (10..100).contains(&batch) => 16,
                _ => callers,
            }),
            batch,
            tasks: tasks.unwrap_or(many),
            time: Duration::from_secs_f64(seconds),
            warm_up: Duration::from_secs_f64(warm_up),
            rate,
            payload,
            priority,
            queued,
            pid,
            filled,
        })
    }
}
