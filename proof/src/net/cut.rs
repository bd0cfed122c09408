//! What is done to a link: taken away, silenced in one direction or in both, or made bad.

use std::fmt;
use std::time::Duration;

use tasklane_core::SeededRandom;

use super::space::{Node, Side, Space};
use super::{SERVERS, WORKERS};
use crate::Failure;

/// Programs for the kernel's filter. `2` is its word for dropping a packet, `4294967295` for letting
/// others decide; 4294963256 is where it keeps a random number.
const DROP_ALL: &str = "1,6 0 0 2";
const PASS: &str = "6 0 0 4294967295";
/// What a bad link loses, of a hundred packets.
const LOSS_PERCENT_MIN: u64 = 5;
const LOSS_PERCENT_MAX: u64 = 30;
/// How long packets take on a bad link, where the kernel can delay them.
const DELAY: &str = "netem delay 120ms 80ms";
/// What passes in a second otherwise: those that find the way taken wait, up to a point.
const NARROW: &str = "tbf rate 768kbit burst 4kb latency 300ms";

/// Lengths of cuts in milliseconds, from and to: of so many cuts each has one of these.
const LENGTHS: [(u64, u64); 8] = [
    (300, 700),
    (300, 700),
    (300, 700),
    (700, 1_500),
    (700, 1_500),
    (1_500, 2_500),
    (2_500, 4_000),
    (5_500, 7_000),
];
/// In a long run one of so many cuts is longer than any patience with a silent connection.
const LONG_EVERY: u64 = 24;
const LONG: (u64, u64) = (12_000, 40_000);

/// Which link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Between a server and the store.
    Back(usize),
    /// Between a server and all its callers.
    Front(usize),
    /// Between the store and all servers.
    Store,
    /// Between workers and all servers.
    Worker(usize),
}

impl Link {
    fn ends(self) -> (Node, Side) {
        match self {
            Self::Back(at) => (Node::Server(at), Side::Back),
            Self::Front(at) => (Node::Server(at), Side::Front),
            Self::Store => (Node::Store, Side::Back),
            Self::Worker(at) => (Node::Worker(at), Side::Front),
        }
    }
}

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The link is down: who sends may notice.
    Down,
    /// Nothing passes, and nobody is told.
    Silent,
    /// Nothing reaches the machine; what it sends arrives.
    Deaf,
    /// Nothing that the machine sends arrives; it is reached.
    Mute,
    /// So many of a hundred packets are lost, and the others are late.
    Bad(u64),
}

/// One cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub link: Link,
    /// What.
    pub harm: Harm,
    /// For how long.
    pub length: Duration,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, side) = self.link.ends();
        let (node, side, length) = (node.word(), side.as_str(), self.length);
        match self.harm {
            Harm::Down => write!(f, "{node} {side} down for {length:?}"),
            Harm::Silent => write!(f, "{node} {side} silent for {length:?}"),
            Harm::Deaf => write!(f, "{node} {side} deaf for {length:?}"),
            Harm::Mute => write!(f, "{node} {side} mute for {length:?}"),
            Harm::Bad(loss) => write!(f, "{node} {side} slow, losing {loss} % for {length:?}"),
        }
    }
}

/// How packets are made late on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Each by itself.
    Delayed,
    /// All that find the way taken: the kernel has no other means.
    Narrowed,
}

impl Lateness {
    /// What this kernel can do.
    pub fn find(space: &Space) -> Self {
        let port = Side::Front.port(Node::Watcher);
        let able = space.tc(Node::Hub, &format!("qdisc add dev {port} root {DELAY}"));
        if able.is_ok() {
            let _ = space.tc(Node::Hub, &format!("qdisc del dev {port} root"));
            return Self::Delayed;
        }
        Self::Narrowed
    }

    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed (netem)",
            Self::Narrowed => "held up by a narrow way (tbf; this kernel has no netem)",
        }
    }

    const fn discipline(self) -> &'static str {
        match self {
            Self::Delayed => DELAY,
            Self::Narrowed => NARROW,
        }
    }
}

impl Cut {
    /// Does it.
    pub fn make(&self, space: &Space, lateness: Lateness) -> Result<(), Failure> {
        let (node, side) = self.link.ends();
        let (port, device) = (side.port(node), side.as_str());
        let filter = |direction: &str, program: &str| {
            space.filter(&format!("filter add dev {port} {direction} protocol ip"), program)
        };
        match self.harm {
            Harm::Down => space.ip(Node::Hub, &format!("link set {port} down")),
            Harm::Deaf => filter("egress", DROP_ALL),
            Harm::Mute => filter("ingress", DROP_ALL),
            Harm::Silent => {
                filter("egress", DROP_ALL)?;
                filter("ingress", DROP_ALL)
            }
            Harm::Bad(loss) => {
                let program = drop_some(loss);
                filter("egress", &program)?;
                filter("ingress", &program)?;
                let late = lateness.discipline();
                space.tc(Node::Hub, &format!("qdisc add dev {port} root {late}"))?;
                space.tc(node, &format!("qdisc add dev {device} root {late}"))
            }
        }
    }

    /// Packets that were dropped so far where this cut is made, by this one and by those before it.
    pub fn dropped(&self, space: &Space) -> Result<u64, Failure> {
        let (node, side) = self.link.ends();
        space.dropped(&side.port(node))
    }

    /// Whether it drops whatever comes while it lasts. There is always something: who hears nothing
    /// sends again.
    pub const fn drops_all(&self) -> bool {
        matches!(self.harm, Harm::Silent | Harm::Deaf | Harm::Mute)
    }

    /// Undoes it.
    pub fn heal(&self, space: &Space) -> Result<(), Failure> {
        let (node, side) = self.link.ends();
        let (port, device) = (side.port(node), side.as_str());
        match self.harm {
            Harm::Down => space.ip(Node::Hub, &format!("link set {port} up")),
            Harm::Deaf => space.tc(Node::Hub, &format!("filter del dev {port} egress")),
            Harm::Mute => space.tc(Node::Hub, &format!("filter del dev {port} ingress")),
            Harm::Silent | Harm::Bad(_) => {
                space.tc(Node::Hub, &format!("filter del dev {port} egress"))?;
                space.tc(Node::Hub, &format!("filter del dev {port} ingress"))?;
                if let Harm::Bad(_) = self.harm {
                    space.tc(Node::Hub, &format!("qdisc del dev {port} root"))?;
                    space.tc(node, &format!("qdisc del dev {device} root"))?;
                }
                Ok(())
            }
        }
    }
}

/// A program that drops so many of a hundred packets: it compares a random number.
fn drop_some(percent: u64) -> String {
    let bound = u64::from(u32::MAX) * percent / 100;
    format!("4,32 0 0 4294963256,53 1 0 {bound},6 0 0 2,{PASS}")
}

/// Cuts to come: links and harms each from a deck of their own, shuffled again when it is used up,
/// so that a short run has all of them and a long one every pair.
#[derive(Debug)]
pub struct Plan {
    random: SeededRandom,
    links: Vec<Link>,
    harms: Vec<Harm>,
    lengths: Vec<(u64, u64)>,
    made: u64,
}

impl Plan {
    /// The plan that follows from a seed.
    pub fn new(seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        Self { random, links: vec![], harms: vec![], lengths: vec![], made: 0 }
    }

    /// The next cut.
    pub fn next_cut(&mut self) -> Cut {
        let random = &mut self.random;
        let server = random.below(SERVERS as u64) as usize;
        let worker = random.below(WORKERS as u64) as usize;
        let (back, front) = (Link::Back(server), Link::Front(server));
        let links = [back, back, back, back, front, front, Link::Store, Link::Worker(worker)];
        let loss = LOSS_PERCENT_MIN + random.below(LOSS_PERCENT_MAX - LOSS_PERCENT_MIN + 1);
        let harms = [Harm::Down, Harm::Silent, Harm::Deaf, Harm::Mute, Harm::Bad(loss)];
        let link = draw(&mut self.links, &links, random);
        // Of a deck that was laid out before, the kind counts, not the machine.
        let link = match link {
            Link::Back(_) => back,
            Link::Front(_) => front,
            other => other,
        };
        let harm = draw(&mut self.harms, &harms, random);
        let (mut from, mut to) = draw(&mut self.lengths, &LENGTHS, random);
        self.made += 1;
        if self.made.is_multiple_of(LONG_EVERY) {
            (from, to) = LONG;
        }
        let length = Duration::from_millis(from + random.below(to - from));
        Cut { link, harm, length }
    }
}

/// Takes a card; a deck that is used up is laid out anew.
fn draw<T: Copy>(deck: &mut Vec<T>, cards: &[T], random: &mut SeededRandom) -> T {
    if deck.is_empty() {
        deck.extend_from_slice(cards);
    }
    let at = random.below(deck.len() as u64) as usize;
    deck.swap_remove(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_cuts_have_every_kind_of_link_and_harm_and_one_that_is_long() {
        for seed in 0..20 {
            let mut plan = Plan::new(seed);
            let cuts: Vec<Cut> = (0..8).map(|_| plan.next_cut()).collect();
            let links = |is: fn(&Link) -> bool| cuts.iter().filter(|cut| is(&cut.link)).count();
            assert_eq!(links(|link| matches!(link, Link::Back(_))), 4);
            assert_eq!(links(|link| matches!(link, Link::Front(_))), 2);
            assert_eq!(links(|link| matches!(link, Link::Store)), 1);
            for harm in [Harm::Down, Harm::Silent, Harm::Deaf, Harm::Mute] {
                assert!(cuts.iter().any(|cut| cut.harm == harm), "{harm:?} in {cuts:?}");
            }
            assert!(cuts.iter().any(|cut| matches!(cut.harm, Harm::Bad(_))));
            let total: Duration = cuts.iter().map(|cut| cut.length).sum();
            assert!(cuts.iter().any(|cut| cut.length >= Duration::from_secs(5)));
            assert!(total <= Duration::from_secs(19), "{total:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_cuts_and_another_gives_others() {
        let cuts = |seed| {
            let mut plan = Plan::new(seed);
            (0..100).map(|_| plan.next_cut()).collect::<Vec<_>>()
        };
        assert_eq!(cuts(1), cuts(1));
        assert_ne!(cuts(1), cuts(2));
    }
}
