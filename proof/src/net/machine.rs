//! The processes of the test, each on a machine of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tasklane_postgres::test_server::{Care, TestServer as Postgres};
use tasklane_redis::test_server::TestServer as Redis;

use super::Engine;
use super::space::{Node, Side, Space, server_address};
use crate::Failure;

/// How long any of them may take to start.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Short enough that cuts end leases.
const LEASE_MS: &str = "2000";

/// Starts a store on this machine, tells its address and keeps it until the input ends.
pub fn serve_store(engine: Engine) -> Result<(), Failure> {
    let own = Side::Back.address(Node::Store).to_string();
    let (_postgres, _redis);
    let address = match engine {
        Engine::Postgres => {
            let server = Postgres::listening(Care::Durable, &own)?;
            let near = server.new_database()?;
            _postgres = server;
            let (_, rest) = near.split_once(":///").ok_or("an address without a database")?;
            let database = rest.split('?').next().unwrap_or_default();
            format!("postgres://postgres@{own}/{database}?sslmode=disable")
        }
        Engine::Redis => {
            let settings = ["--bind", &own, "--protected-mode", "no"];
            let safe = ["--appendonly", "yes", "--appendfsync", "always"];
            let server = Redis::start(&[settings, safe].concat())?;
            let port = server.port();
            _redis = server;
            format!("redis://{own}:{port}/")
        }
    };
    println!("{address}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Where processes are started.
pub struct Yard<'a> {
    /// The machines.
    pub space: &'a Space,
    /// Where logs and records go.
    pub folder: &'a Path,
    /// This program.
    pub own: PathBuf,
    /// The server's program.
    pub tasklane: PathBuf,
}

impl Yard<'_> {
    /// The store; gives its address.
    pub fn start_store(&self, engine: Engine) -> Result<(Process, String), Failure> {
        let mut command = self.space.on(Node::Store, &self.own);
        command.args(["net", "store", engine.as_str()]);
        let mut process = Process::start("store", command, self.log("store")?)?;
        let address = process.line(START_WITHIN)?;
        Ok((process, address))
    }

    /// Makes the first key, which a server asks for that listens beyond its own machine.
    pub fn make_key(&self, store: &str) -> Result<String, Failure> {
        let mut command = self.space.on(Node::Server(0), &self.tasklane);
        let output = command.args(["keys", "bootstrap", "--store", store]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let key = text.split_whitespace().find(|word| word.starts_with("tl_"));
        key.map(str::to_owned).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("no key was made: {errors}").into()
        })
    }

    /// A server.
    pub fn start_server(&self, at: usize, store: &str) -> Result<Process, Failure> {
        let name = Node::Server(at).word();
        let mut command = self.space.on(Node::Server(at), &self.tasklane);
        command
            .args(["serve", "--store", store, "--auth", "keys", "--lease-ms", LEASE_MS])
            .args(["--listen", &server_address(at).to_string()])
            .env("TASKLANE_LEASE_LOSSES_MAX", "100")
            .current_dir(self.folder);
        Process::start(&name, command, self.log(&name)?)
    }

    /// This program in a role.
    pub fn start_role(
        &self,
        node: Node,
        role: &str,
        at: usize,
        key: &str,
        seed: u64,
    ) -> Result<Process, Failure> {
        let mut command = self.space.on(node, &self.own);
        let (at, seed) = (at.to_string(), seed.to_string());
        command.args(["net", role, key, &at, &seed]).arg(self.records(node));
        Process::start(&node.word(), command, self.log(&node.word())?)
    }

    /// The file of a role's records.
    pub fn records(&self, node: Node) -> PathBuf {
        self.folder.join(format!("{}.records", node.word()))
    }

    fn log(&self, name: &str) -> Result<File, Failure> {
        Ok(File::create(self.folder.join(format!("{name}.log")))?)
    }
}

/// A process, ended with this.
pub struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Process {
    fn start(name: &str, mut command: Command, log: File) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            // Ends with the process.
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        let input = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, input, lines })
    }

    /// The next line that it says.
    pub fn line(&mut self, within: Duration) -> Result<String, Failure> {
        let said = self.lines.recv_timeout(within);
        said.map_err(|_| format!("{} said nothing within {within:?}", self.name).into())
    }

    /// Tells it something.
    pub fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.input.as_mut().ok_or("its input has ended")?;
        writeln!(input, "{line}")?;
        Ok(())
    }

    /// Waits until it ends by itself; it must end well.
    pub fn wait(&mut self, within: Duration) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{} ended: {status}", self.name).into()),
                None if begun.elapsed() > within => {
                    return Err(format!("{} did not end within {within:?}", self.name).into());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{} ended by itself: {status}", self.name))
    }

    /// Lets it end by itself, which takes the end of its input.
    pub fn finish(&mut self, within: Duration) -> Result<(), Failure> {
        self.input = None;
        self.wait(within)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
