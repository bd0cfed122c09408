//! Where a store is: the addresses of servers, and our own words behind the question mark.

use std::path::PathBuf;

use tasklane_core::{Invalid, Problem};

/// Replicas that can be waited for.
const REPLICAS_MAX: u32 = 16;
/// Where sentinels listen unless they are told otherwise.
const SENTINEL_PORT: &str = "26379";

const FORMS: &str = "redis://HOST:PORT/NUMBER, rediss:// for TLS, unix:///PATH, \
                     redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT/";
const WORDS: &str = "namespace=, replicas=, ca=, certificate=, key=, sentinel_user= or \
                     sentinel_password= behind the question mark";

/// An address such as `redis://user:password@host:6379/0?namespace=mail&replicas=1`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) way: Way,
    /// Files for TLS.
    pub(crate) files: Files,
    /// What comes before the name of every key.
    pub(crate) namespace: Option<String>,
    /// How many replicas must have a write before it is answered.
    pub(crate) replicas: u32,
}

/// How the server that takes writes is found. Addresses are as the client wants them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// This is it.
    Direct(String),
    /// Sentinels know where it is by its name; it is spoken to as `primary` says, but elsewhere.
    Sentinel { sentinels: Vec<String>, name: String, primary: String },
    /// Any of these knows which one it is.
    Cluster(Vec<String>),
}

/// Files for TLS, where those of the system will not do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Files {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// The server may be named with a password: debug output, which ends in logs, does not show it.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl std::str::FromStr for Address {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (servers, words) = text.split_once('?').unwrap_or((text, ""));
        let (mut files, mut namespace, mut replicas) = (Files::default(), None, 0);
        let (mut sentinel_user, mut sentinel_password) = ("", None);
        for word in words.split('&').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').ok_or_else(|| bad(WORDS))?;
            match name {
                "namespace" => namespace = Some(value.into()),
                "replicas" => {
                    let count = value.parse().ok().filter(|count| *count <= REPLICAS_MAX);
                    replicas = count.ok_or_else(|| bad("replicas=0 to 16"))?;
                }
                "ca" => files.ca = Some(value.into()),
                "certificate" => files.certificate = Some(value.into()),
                "key" => files.key = Some(value.into()),
                "sentinel_user" => sentinel_user = value,
                "sentinel_password" => sentinel_password = Some(value),
                _ => return Err(bad(WORDS)),
            }
        }
        if files.certificate.is_some() != files.key.is_some() {
            return Err(bad("certificate= and key= together"));
        }
        if !sentinel_user.is_empty() && sentinel_password.is_none() {
            return Err(bad("sentinel_user= with a sentinel_password="));
        }
        let watcher = sentinel_password.map(|password| format!("{sentinel_user}:{password}@"));
        let way = way(servers, &watcher.unwrap_or_default()).ok_or_else(|| bad(FORMS))?;
        Ok(Self { way, files, namespace, replicas })
    }
}

fn bad(expected: &'static str) -> Invalid {
    Invalid::new("store", Problem::Malformed { expected })
}

/// `watcher` is whom sentinels take us for: with its `@`, or empty.
fn way(servers: &str, watcher: &str) -> Option<Way> {
    let (scheme, rest) = servers.split_once("://")?;
    let (plain, how) = scheme.split_once('+').unwrap_or((scheme, ""));
    match (plain, how) {
        ("redis" | "rediss" | "valkey" | "valkeys" | "unix", "") if !rest.is_empty() => {
            Some(Way::Direct(servers.into()))
        }
        ("redis" | "rediss" | "valkey" | "valkeys", "sentinel") => {
            let parts = Parts::of(rest)?;
            let (name, number) = parts.path.split_once('/').unwrap_or((parts.path, ""));
            let sentinel = |host: &str| match host.ends_with(']') || !host.contains(':') {
                true => format!("{plain}://{watcher}{host}:{SENTINEL_PORT}"),
                false => format!("{plain}://{watcher}{host}"),
            };
            let sentinels = parts.hosts().map(sentinel).collect();
            let primary = format!("{plain}://{}localhost/{number}", parts.user);
            (!name.is_empty()).then(|| Way::Sentinel { sentinels, name: name.into(), primary })
        }
        ("redis" | "rediss" | "valkey" | "valkeys", "cluster") => {
            let parts = Parts::of(rest)?;
            let node = |host: &str| format!("{plain}://{}{host}", parts.user);
            parts.path.is_empty().then(|| Way::Cluster(parts.hosts().map(node).collect()))
        }
        _ => None,
    }
}

/// `user:password@host:port,host:port/path`, taken apart.
struct Parts<'a> {
    /// With its `@`, or empty.
    user: &'a str,
    hosts: &'a str,
    path: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (servers, path) = text.split_once('/').unwrap_or((text, ""));
        let (user, hosts) = servers.split_at(servers.rfind('@').map_or(0, |at| at + 1));
        let parts = Self { user, hosts, path };
        parts.hosts().all(|host| !host.is_empty()).then_some(parts)
    }

    fn hosts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.hosts.split(',')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_words_are_taken_off_the_address() {
        let address: Address = "redis://h:1/2?namespace=mail&replicas=3".parse().unwrap();
        assert!(address.way == Way::Direct("redis://h:1/2".into()));
        assert_eq!((address.namespace.as_deref(), address.replicas), (Some("mail"), 3));
        let plain: Address = "unix:///run/redis.sock".parse().unwrap();
        assert_eq!((plain.namespace, plain.replicas), (None, 0));
        let tls: Address = "rediss://h/?ca=/a.pem&certificate=b&key=c".parse().unwrap();
        assert_eq!(tls.files.ca, Some("/a.pem".into()));
    }

    #[test]
    fn sentinels_are_asked_for_a_name_and_have_a_password_of_their_own() {
        let text = "rediss+sentinel://me:pw@a:1,b,[::1]/main/2?sentinel_password=s";
        let Way::Sentinel { sentinels, name, primary } = text.parse::<Address>().unwrap().way
        else {
            panic!("no sentinels")
        };
        let expected = ["rediss://:s@a:1", "rediss://:s@b:26379", "rediss://:s@[::1]:26379"];
        assert_eq!(sentinels, expected);
        assert_eq!((name.as_str(), primary.as_str()), ("main", "rediss://me:pw@localhost/2"));
    }

    #[test]
    fn sentinels_may_have_a_user_of_their_own() {
        let text = "redis+sentinel://a/main?sentinel_user=watcher&sentinel_password=s%40";
        let Way::Sentinel { sentinels, .. } = text.parse::<Address>().unwrap().way else {
            panic!("no sentinels")
        };
        assert_eq!(sentinels, ["redis://watcher:s%40@a:26379"]);
    }

    #[test]
    fn nodes_of_a_cluster_share_a_user() {
        let address: Address = "redis+cluster://me:pw@a:1,b:2/".parse().unwrap();
        let nodes = ["redis://me:pw@a:1".into(), "redis://me:pw@b:2".into()];
        assert!(address.way == Way::Cluster(nodes.into()));
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for text in [
            "redis:host",
            "mysql://:secret@h",
            "redis://:secret@h?replica=1",
            "redis://:secret@h?replicas=17",
            "redis+sentinel://:secret@h/",
            "redis+cluster://:secret@h,/",
            "redis+cluster://:secret@h/3",
            "unix+cluster://:secret@h/",
            "rediss://:secret@h?certificate=a",
            "redis+sentinel://:secret@h/main?sentinel_user=watcher",
        ] {
            let refused = text.parse::<Address>().unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn debug_output_shows_no_password() {
        let address: Address = "redis://:secret@host/".parse().unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
