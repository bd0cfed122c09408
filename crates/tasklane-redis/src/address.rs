//! Where a store is: the address of a server, and our own words behind the question mark.

use tasklane_core::{Invalid, Problem};

/// Replicas that can be waited for.
const REPLICAS_MAX: u32 = 16;

/// An address such as `redis://user:password@host:6379/0?namespace=mail&replicas=1`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// For the client, without our own words.
    pub(crate) server: String,
    /// What comes before the name of every key.
    pub(crate) namespace: Option<String>,
    /// How many replicas must have a write before it is answered.
    pub(crate) replicas: u32,
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
        let bad = |expected| Invalid::new("store", Problem::Malformed { expected });
        let (server, words) = text.split_once('?').unwrap_or((text, ""));
        let scheme = server.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("redis" | "valkey" | "unix")) {
            return Err(bad("redis://HOST:PORT/ or unix:///PATH"));
        }
        let mut address = Self { server: server.into(), namespace: None, replicas: 0 };
        for word in words.split('&').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("namespace", name)) => address.namespace = Some(name.into()),
                Some(("replicas", count)) => {
                    let count = count.parse().ok().filter(|count| *count <= REPLICAS_MAX);
                    address.replicas = count.ok_or_else(|| bad("replicas=0 to 16"))?;
                }
                _ => return Err(bad("only namespace= and replicas= behind the question mark")),
            }
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_words_are_taken_off_the_address() {
        let address: Address = "redis://h:1/2?namespace=mail&replicas=3".parse().unwrap();
        assert_eq!(address.server, "redis://h:1/2");
        assert_eq!((address.namespace.as_deref(), address.replicas), (Some("mail"), 3));
        let plain: Address = "unix:///run/redis.sock".parse().unwrap();
        assert_eq!((plain.namespace, plain.replicas), (None, 0));
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for text in ["redis:host", "rediss://:secret@h", "redis://:secret@h?replica=1"] {
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
