//! Where the server that takes writes is, as those say who are asked for it.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, Value};
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::source::{connect, fault, unavailable};
use crate::value;

/// A host and a port, as sentinels and nodes name them.
pub(crate) type Place = (String, u16);

/// Somebody who knows where the primary is: a sentinel, by its name; a node, by a key.
pub(crate) enum Asked {
    Sentinel(Client, String),
    Node(Client, Vec<u8>),
}

/// What was named by whom.
pub(crate) struct Vote {
    /// How many were asked.
    asked: usize,
    named: BTreeMap<usize, Place>,
}

impl Vote {
    /// The places to go to, the best first, and whether most of all who were asked agree on the only one.
    pub(crate) fn candidates(&self) -> (Vec<Place>, bool) {
        let votes = |place: &Place| self.named.values().filter(|named| *named == place).count();
        let mut places: Vec<Place> = Vec::new();
        for place in self.named.values() {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        places.sort_by_key(|place| std::cmp::Reverse(votes(place)));
        let agreed = places.first().is_some_and(|place| votes(place) * 2 > self.asked);
        if agreed {
            places.truncate(1);
        }
        (places, agreed)
    }
}

/// Asks all at once, until most agree: one that is silent keeps nobody waiting, and one that is cut
/// off from the others is not believed. Where they do not agree, this takes half of the time.
pub(crate) async fn ask(
    those: Vec<Asked>,
    config: &AsyncConnectionConfig,
    time_max: Duration,
) -> Result<Vote, Fault> {
    let mut asking = JoinSet::new();
    for (number, asked) in those.into_iter().enumerate() {
        let config = config.clone();
        asking.spawn(async move { (number, asked.place(&config).await) });
    }
    let mut vote = Vote { asked: asking.len(), named: BTreeMap::new() };
    let mut last = unavailable("nobody has said in time where the primary is");
    let until = tokio::time::Instant::now() + time_max / 2;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, asking.join_next()).await {
        match answer {
            Ok((number, Ok(place))) => drop(vote.named.insert(number, place)),
            Ok((_, Err(fault))) => last = fault,
            // It was ended with its runtime.
            Err(_) => {}
        }
        if vote.candidates().1 {
            break;
        }
    }
    if vote.named.is_empty() { Err(last) } else { Ok(vote) }
}

impl Asked {
    async fn place(&self, config: &AsyncConnectionConfig) -> Result<Place, Fault> {
        match self {
            Self::Sentinel(client, name) => ask_sentinel(client, name, config).await,
            Self::Node(client, key) => ask_node(client, key, config).await,
        }
    }
}

/// Asks a sentinel where the primary is.
async fn ask_sentinel(
    sentinel: &Client,
    name: &str,
    config: &AsyncConnectionConfig,
) -> Result<Place, Fault> {
    let mut asked = connect(sentinel, config).await?;
    let mut ask = redis::cmd("SENTINEL");
    ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let answer = ask.query_async(&mut asked.connection).await.map_err(|error| fault(&error))?;
    place(answer, None)?.ok_or_else(|| unavailable(&format!("the sentinels know no {name:?}")))
}

/// Asks one node of a cluster which of them holds the key.
async fn ask_node(
    node: &Client,
    key: &[u8],
    config: &AsyncConnectionConfig,
) -> Result<Place, Fault> {
    let mut asked = connect(node, config).await?;
    let mut pipeline = redis::pipe();
    pipeline.cmd("CLUSTER").arg("KEYSLOT").arg(key).cmd("CLUSTER").arg("SLOTS");
    let (slot, ranges): (i64, Value) =
        pipeline.query_async(&mut asked.connection).await.map_err(|error| fault(&error))?;
    for range in value::array(ranges)? {
        let mut parts = value::array(range)?.into_iter();
        let mut next = || parts.next().unwrap_or_default();
        let (first, last) = (value::integer(next())?, value::integer(next())?);
        if (first..=last).contains(&slot)
            && let Some(place) = place(next(), Some(node.get_connection_info().addr()))?
        {
            return Ok(place);
        }
    }
    Err(unavailable("the cluster has no node for these keys"))
}

/// A host and its port; a host that is not named is the one that was asked.
fn place(answer: Value, asked: Option<&ConnectionAddr>) -> Result<Option<Place>, Fault> {
    let mut parts = value::array(answer)?.into_iter();
    let (Some(host), Some(port)) = (parts.next(), parts.next()) else { return Ok(None) };
    let host = value::bytes(host)?.unwrap_or_default();
    let host = match (String::from_utf8_lossy(&host).into_owned(), asked) {
        (host, Some(ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. }))
            if host.is_empty() || host == "?" =>
        {
            own.clone()
        }
        (host, _) => host,
    };
    Ok(u16::try_from(value::integer(port)?).ok().map(|port| (host, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(asked: usize, named: &[&str]) -> Vote {
        let place = |host: &&str| ((*host).to_owned(), 6379);
        Vote { asked, named: named.iter().map(place).enumerate().collect() }
    }

    #[test]
    fn most_of_those_who_are_asked_agree_or_nobody_does() {
        for (asked, named, first, agreed) in [
            (1, &["a"][..], "a", true),
            (3, &["a", "b", "b"], "b", true),
            // The others are silent, and may know better.
            (3, &["a"], "a", false),
            (4, &["a", "b", "a", "b"], "a", false),
            (5, &["a", "b", "b"], "b", false),
        ] {
            let (places, is_agreed) = vote(asked, named).candidates();
            assert_eq!((places[0].0.as_str(), is_agreed), (first, agreed), "{named:?}");
        }
    }

    #[test]
    fn where_they_do_not_agree_each_place_is_tried_once_and_otherwise_one_alone() {
        assert_eq!(vote(4, &["a", "b", "a", "b"]).candidates().0.len(), 2);
        assert_eq!(vote(3, &["a", "b", "b"]).candidates().0.len(), 1);
        assert_eq!(vote(3, &[]).candidates(), (vec![], false));
    }
}
