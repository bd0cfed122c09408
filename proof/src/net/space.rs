//! Network namespaces: made, joined by bridges, and removed however this ends.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{PRODUCERS, SERVERS, WORKERS};
use crate::Failure;

/// The port of servers.
const SERVER_PORT: u16 = 7170;
/// Where nobody lives: a network that is set aside for tests. Its first half is the back network,
/// its second half the front one.
const NETWORK: [u8; 3] = [198, 18, 0];
const HALF: &str = "25";
const FRONT: u8 = 128;

/// Removes all that was made, when a word comes or the input ends, which is when its owner has gone.
/// The store ends by itself then and removes its files; what else is left is killed, by number. It
/// also takes the folder away, unless a word says that its owner does.
const KEEPER: &str = r#"
    read -r word
    spaces() { ip netns list 2>/dev/null | cut -d' ' -f1 | grep "^$PREFIX-" || true; }
    for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        [ -n "$(ip netns pids "$PREFIX-store" 2>/dev/null)" ] || break
        sleep 0.1
    done
    for space in $(spaces); do
        for process in $(ip netns pids "$space"); do kill -9 "$process" 2>/dev/null; done
        ip netns delete "$space"
    done
    [ -n "$word" ] || rm -rf "$FOLDER"
"#;

/// One machine of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// Holds the bridges and nothing else.
    Hub,
    /// Where the store is.
    Store,
    /// A server.
    Server(usize),
    /// Workers.
    Worker(usize),
    /// Producers.
    Producer(usize),
    /// The one that follows the feed.
    Follower,
    /// The one that runs the test and looks at servers; its link is never cut.
    Watcher,
}

impl Node {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Hub, Self::Store, Self::Follower, Self::Watcher];
        all.extend((0..SERVERS).map(Self::Server));
        all.extend((0..WORKERS).map(Self::Worker));
        all.extend((0..PRODUCERS).map(Self::Producer));
        all
    }

    /// Its word.
    pub fn word(self) -> String {
        match self {
            Self::Hub => "hub".into(),
            Self::Store => "store".into(),
            Self::Server(at) => format!("server{at}"),
            Self::Worker(at) => format!("worker{at}"),
            Self::Producer(at) => format!("producer{at}"),
            Self::Follower => "follower".into(),
            Self::Watcher => "watcher".into(),
        }
    }

    /// Its last number in a half of the network.
    fn number(self) -> u8 {
        let after = |base: u8, at: usize| base + u8::try_from(at).unwrap_or(0);
        match self {
            Self::Hub => 1,
            Self::Store => 2,
            Self::Follower => 3,
            Self::Watcher => 4,
            Self::Server(at) => after(11, at),
            Self::Worker(at) => after(21, at),
            Self::Producer(at) => after(31, at),
        }
    }

    /// The networks it is on.
    fn sides(self) -> &'static [Side] {
        match self {
            Self::Hub => &[],
            Self::Store => &[Side::Back],
            Self::Server(_) => &[Side::Back, Side::Front],
            Self::Worker(_) | Self::Producer(_) | Self::Follower | Self::Watcher => &[Side::Front],
        }
    }
}

/// One of the two networks; also the name of its bridge, and of each device on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Servers and store.
    Back,
    /// Servers and clients.
    Front,
}

impl Side {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Back => "back",
            Self::Front => "front",
        }
    }

    /// A machine's address on it.
    pub fn address(self, node: Node) -> Ipv4Addr {
        let [a, b, c] = NETWORK;
        let base = if self == Self::Front { FRONT } else { 0 };
        Ipv4Addr::new(a, b, c, base + node.number())
    }

    /// The hub's end of a machine's link to it.
    pub fn port(self, node: Node) -> String {
        let side = if self == Self::Front { 'f' } else { 'b' };
        format!("{side}-{}", node.word())
    }
}

/// Where clients reach a server.
pub fn server_address(at: usize) -> SocketAddr {
    (Side::Front.address(Node::Server(at)), SERVER_PORT).into()
}

/// The namespaces of one run, by what their names begin with.
#[derive(Debug, Clone)]
pub struct Space {
    /// What names begin with.
    pub prefix: String,
}

impl Space {
    /// The name of a machine's namespace.
    pub fn name(&self, node: Node) -> String {
        format!("{}-{}", self.prefix, node.word())
    }

    /// A program on a machine. It is not told of keys that are pressed here.
    pub fn on(&self, node: Node, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(node)]).arg(program).process_group(0);
        command
    }

    /// `ip` for a machine.
    pub fn ip(&self, node: Node, words: &str) -> Result<(), Failure> {
        self.tool("ip", node, words)
    }

    /// `tc` for a machine.
    pub fn tc(&self, node: Node, words: &str) -> Result<(), Failure> {
        self.tool("tc", node, words)
    }

    /// `tc` for the hub, with a program for the kernel's filter.
    pub fn filter(&self, words: &str, program: &str) -> Result<(), Failure> {
        let mut command = Command::new("tc");
        command.args(["-n", &self.name(Node::Hub)]).args(words.split(' '));
        ran(command.args(["bpf", "da", "bytecode", program]))
    }

    /// Packets that filters have dropped so far at the hub's end of a link.
    pub fn dropped(&self, port: &str) -> Result<u64, Failure> {
        let words = format!("-s -j qdisc show dev {port}");
        let mut command = Command::new("tc");
        let told = output(command.args(["-n", &self.name(Node::Hub)]).args(words.split(' ')))?;
        let shown: Vec<Value> = serde_json::from_slice(&told)?;
        let filters = shown.iter().find(|shown| shown.get("kind") == Some(&"clsact".into()));
        let drops = filters.and_then(|filters| filters.get("drops")?.as_u64());
        drops.ok_or_else(|| format!("no filters at {port}").into())
    }

    fn tool(&self, tool: &str, node: Node, words: &str) -> Result<(), Failure> {
        let mut command = Command::new(tool);
        ran(command.args(["-n", &self.name(node)]).args(words.split(' ')))
    }

    fn make(&self) -> Result<(), Failure> {
        for node in Node::all() {
            ran(Command::new("ip").args(["netns", "add", &self.name(node)]))?;
            self.ip(node, "link set lo up")?;
        }
        for side in [Side::Back, Side::Front] {
            self.ip(Node::Hub, &format!("link add name {} type bridge", side.as_str()))?;
            self.ip(Node::Hub, &format!("link set {} up", side.as_str()))?;
        }
        for node in Node::all() {
            for side in node.sides() {
                self.join(node, *side)?;
            }
        }
        Ok(())
    }

    /// Puts a link between a machine and a bridge. Neither end is ever outside of a namespace.
    fn join(&self, node: Node, side: Side) -> Result<(), Failure> {
        let (port, device, own) = (side.port(node), side.as_str(), self.name(node));
        let link = format!("link add name {port} type veth peer name {device} netns {own}");
        self.ip(Node::Hub, &link)?;
        self.ip(Node::Hub, &format!("link set {port} master {device}"))?;
        self.ip(Node::Hub, &format!("link set {port} up"))?;
        self.tc(Node::Hub, &format!("qdisc add dev {port} clsact"))?;
        let address = side.address(node);
        self.ip(node, &format!("address add {address}/{HALF} dev {device}"))?;
        self.ip(node, &format!("link set {device} up"))
    }
}

/// The namespaces while they are there; gone with this.
pub struct Spaces {
    /// How to use them.
    pub space: Space,
    keeper: Child,
}

impl Spaces {
    /// Makes them. `folder` is removed too if this process ends before they are.
    pub fn make(folder: &Path) -> Result<Self, Failure> {
        let space = Space { prefix: format!("tasklane-net-{}", std::process::id()) };
        let keeper = Command::new("sh")
            .args(["-c", KEEPER])
            .env("PREFIX", &space.prefix)
            .env("FOLDER", folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let spaces = Self { space, keeper };
        spaces.space.make().map_err(|failure| {
            format!("namespaces cannot be made, which takes root and iproute2: {failure}")
        })?;
        Ok(spaces)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        if let Some(mut input) = self.keeper.stdin.take() {
            let _ = writeln!(input, "done");
        }
        let _ = self.keeper.wait();
    }
}

fn ran(command: &mut Command) -> Result<(), Failure> {
    output(command).map(|_| ())
}

/// What a command wrote, if it did what it should.
fn output(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
