//! Where calls come from: what a proxy says of that is believed only of those that are trusted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether an address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let begin = |one: u128, other: u128, length: u32| {
            // Shifting all bits out gives none to differ in.
            (one ^ other).checked_shr(length - self.bits).unwrap_or(0) == 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                begin(own.to_bits().into(), address.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => begin(own.to_bits(), address.to_bits(), 128),
            _ => false,
        }
    }
}

/// What a network looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give addresses or networks, such as 10.0.0.7 or 10.0.0.0/8")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().map_err(|_| NotANetwork)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let length = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(length);
        (bits <= length).then_some(Self { address, bits }).ok_or(NotANetwork)
    }
}

/// Who counts as one: an address of IPv4; of IPv6 the 64 bits that one customer gets at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    V4(Ipv4Addr),
    V6(u64),
    Unknown,
}

impl From<Option<IpAddr>> for Source {
    fn from(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => Self::V4(address),
            Some(IpAddr::V6(address)) => Self::V6((address.to_bits() >> 64) as u64),
            None => Self::Unknown,
        }
    }
}

/// Whose call a peer brings. A trusted proxy adds the address that it was called from at the end of
/// `forwarded`, so that is believed from there backwards, as far as all are trusted.
pub(crate) fn caller<'a>(
    peer: IpAddr,
    forwarded: impl DoubleEndedIterator<Item = &'a str>,
    trusted: &[Network],
) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut caller = peer;
    let mut named = forwarded.flat_map(|line| line.split(',')).rev();
    while is_trusted(caller) {
        // What is no address was not written by a proxy that one should trust.
        match named.next().and_then(|text| parse(text.trim())) {
            Some(address) => caller = address,
            None => break,
        }
    }
    caller.to_canonical()
}

/// An address, with or without a port.
fn parse(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_holds_what_begins_as_it_does() {
        for (own, inside, outside) in [
            ("10.0.0.0/8", "10.255.3.4", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.1.1.1", "::ffff:11.1.1.1"),
            ("10.0.0.0/31", "10.0.0.1", "10.0.0.2"),
        ] {
            assert!(network(own).contains(address(inside)), "{own} {inside}");
            assert!(!network(own).contains(address(outside)), "{own} {outside}");
        }
        assert!(network("0.0.0.0/0").contains(address("203.0.113.9")));
        assert!(network("::/0").contains(address("2001:db8::1")));
        assert!(!network("0.0.0.0/0").contains(address("2001:db8::1")));
        for bad in ["", "proxy", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0"] {
            assert_eq!(bad.parse::<Network>(), Err(NotANetwork), "{bad}");
        }
    }

    #[test]
    fn one_customer_of_ipv6_is_one_source() {
        let of = |text: &str| Source::from(Some(address(text)));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn what_is_forwarded_is_believed_as_far_as_proxies_are_trusted() {
        let trusted = [network("10.0.0.0/8"), network("::1")];
        let from = |peer: &str, forwarded: &[&str]| {
            caller(address(peer), forwarded.iter().copied(), &trusted).to_string()
        };
        assert_eq!(from("192.0.2.1", &["203.0.113.5"]), "192.0.2.1", "not a proxy");
        assert_eq!(from("10.0.0.1", &["203.0.113.5"]), "203.0.113.5");
        assert_eq!(from("10.0.0.1", &["1.1.1.1, 203.0.113.5"]), "203.0.113.5", "made up before");
        assert_eq!(from("10.0.0.1", &["1.1.1.1", "203.0.113.5, 10.9.9.9"]), "203.0.113.5");
        assert_eq!(from("10.0.0.1", &["10.0.0.2"]), "10.0.0.2", "all of them are proxies");
        assert_eq!(from("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &["203.0.113.5, nonsense"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(from("::1", &["203.0.113.5:4711"]), "203.0.113.5");
        assert_eq!(from("::1", &["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(from("::ffff:10.0.0.1", &["[2001:db8::7]"]), "2001:db8::7");
    }
}
