//! What to do, worked out from the flags.

use std::net::ToSocketAddrs;
use std::time::Duration;

use hyper::Uri;
use tasklane_client::Error;
use tasklane_core::{Priority, QueueName};
use tokio_rustls::rustls::pki_types::ServerName;

use super::engine::Route;
use super::flag::{Arguments, Scenario};
use crate::connection::Target;
use crate::ending::usage;

/// Shares of priorities add up to at most this.
const SHARES_MAX: usize = 100;
const SECONDS_MAX: f64 = 1e6;

/// The load of one run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(super) scenario: Scenario,
    pub(crate) route: Route,
    /// Host and key, as every request has them.
    pub(crate) headers: String,
    pub(crate) queue: String,
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
    pub(crate) rate: u32,
    /// Bytes of a payload.
    pub(crate) payload: usize,
    /// Of the tasks in turn; the server's own default where there is none.
    pub(crate) priorities: Vec<Option<&'static str>>,
    /// The server's process.
    pub(crate) pid: Option<u32>,
    /// What a drain drains is already there.
    pub(crate) filled: bool,
    /// Read live events too.
    pub(crate) events: bool,
    /// ... from a WebSocket.
    pub(crate) socket: bool,
    /// From a submission until its task is due.
    pub(crate) delay: Duration,
}

impl Plan {
    pub(super) fn new(flags: &Arguments, target: &Target) -> anyhow::Result<Self> {
        let scenario = flags.scenario;
        let (route, headers) = route(target)?;
        QueueName::new(&flags.queue)
            .map_err(|wrong| usage(format!("--queue {}: {wrong}", flags.queue)))?;
        let batch = flags.batch.unwrap_or(match scenario {
            Scenario::Submit | Scenario::Latency => 1,
            Scenario::EndToEnd => 10,
            Scenario::Overload => 1_000,
            _ => 100,
        }) as usize;
        // Few callers with many tasks each, or many with few.
        let callers = if batch >= 100 { 4 } else { 64 };
        let connections = flags.connections.unwrap_or(match scenario {
            Scenario::EndToEnd | Scenario::Latency => 16,
            Scenario::Overload => 256,
            _ => callers,
        });
        let workers = flags.workers.unwrap_or(match scenario {
            Scenario::EndToEnd | Scenario::Overload => 8,
            _ if (10..100).contains(&batch) => 16,
            _ => callers,
        });
        let many = if scenario == Scenario::Drain { 200_000 } else { u64::MAX };
        Ok(Self {
            scenario,
            route,
            headers,
            queue: flags.queue.clone(),
            connections: connections as usize,
            workers: workers as usize,
            batch,
            tasks: usize::try_from(flags.tasks.unwrap_or(many)).unwrap_or(usize::MAX),
            time: seconds("--seconds", flags.seconds)?,
            warm_up: seconds("--warm-up", flags.warm_up)?,
            rate: flags.rate,
            payload: flags.payload as usize,
            priorities: priorities(&flags.priority)?,
            pid: flags.pid,
            filled: flags.filled,
            events: flags.events,
            socket: flags.socket,
            delay: seconds("--delay", flags.delay)?,
        })
    }
}

/// Where requests go, and the headers that all of them have.
fn route(target: &Target) -> anyhow::Result<(Route, String)> {
    let server = target.server.trim();
    let wrong = || usage(format!("{server}: give an address such as http://127.0.0.1:7170"));
    let url: Uri = server.parse().map_err(|_| wrong())?;
    let (Some(host), Some(authority)) = (url.host(), url.authority()) else { return Err(wrong()) };
    if url.path() != "/" {
        return Err(usage(format!("{server}: a load is made for a server, not for a path of one")));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let secured = target.builder().tls()?;
    let port = url.port_u16().unwrap_or(if secured.is_some() { 443 } else { 80 });
    let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
    let address = found.ok_or_else(|| Error::Unreachable(format!("{server}: no such host")))?;
    let tls = match secured {
        Some(config) => Some((config, ServerName::try_from(host.to_owned()).map_err(|_| wrong())?)),
        None => None,
    };
    let mut headers = format!("host: {authority}\r\n");
    if let Some(key) = &target.key {
        headers.push_str(&format!("authorization: Bearer {}\r\n", key.trim()));
    }
    Ok((Route { server: server.trim_end_matches('/').to_owned(), address, tls }, headers))
}

fn seconds(flag: &str, value: f64) -> anyhow::Result<Duration> {
    if !(0.0..SECONDS_MAX).contains(&value) {
        return Err(usage(format!("{flag} {value}: give a number of seconds")));
    }
    Ok(Duration::from_secs_f64(value))
}

/// Each as often as its share, in turn.
fn priorities(given: &[String]) -> anyhow::Result<Vec<Option<&'static str>>> {
    let mut shares = Vec::new();
    for text in given {
        let (word, share) = text.split_once('=').unwrap_or((text, "1"));
        let wrong = || usage(format!("--priority {text}: give a word, or word=share"));
        let priority: Priority = word.parse().map_err(|_| wrong())?;
        let share: usize = share.parse().map_err(|_| wrong())?;
        shares.push((priority.as_str(), share));
    }
    let all = shares.iter().map(|(_, share)| *share).fold(0, usize::saturating_add);
    if all > SHARES_MAX || (all == 0 && !given.is_empty()) {
        return Err(usage(format!("--priority: shares add up to 1 to {SHARES_MAX}")));
    }
    // Whoever is furthest behind its share comes next, so that none comes in a block.
    let mut turns = Vec::new();
    for turn in 1..=all {
        let behind = |(word, share): &(&'static str, usize)| {
            let had = turns.iter().filter(|had| **had == Some(*word)).count();
            (share * turn) as i64 - (had * all) as i64
        };
        turns.extend(shares.iter().max_by_key(|entry| behind(entry)).map(|(word, _)| Some(*word)));
    }
    if turns.is_empty() {
        turns.push(None);
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(given: &[&str]) -> Option<Vec<Option<&'static str>>> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        priorities(&given).ok()
    }

    #[test]
    fn priorities_come_in_turn_by_their_shares() {
        assert_eq!(turns(&[]), Some(vec![None]));
        assert_eq!(turns(&["high"]), Some(vec![Some("high")]));
        let mixed = turns(&["high=1", "low=3"]).unwrap();
        assert_eq!(mixed.len(), 4);
        assert_eq!(mixed.iter().filter(|word| **word == Some("low")).count(), 3);
        for bad in [["urgent"], ["high=x"], ["high=0"], ["high=101"]] {
            assert_eq!(turns(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn times_are_numbers_of_seconds() {
        assert!(seconds("--seconds", 0.5).is_ok());
        assert!(seconds("--seconds", -1.0).is_err());
        assert!(seconds("--seconds", f64::NAN).is_err());
    }
}
