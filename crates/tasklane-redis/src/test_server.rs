//! Redis servers for tests, each in a temporary folder. They end with the process that started them,
//! however it ends.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Cmd, FromRedisValue};
use tempfile::TempDir;

/// How long a server may take to start on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Ends the server when its input ends, which is when its owner has gone.
const KEEPER: &str = r#""$@" & server=$!; read -r _; kill -9 $server; wait $server 2>/dev/null"#;

/// A server that listens on a socket in its folder, and on a port of this machine.
pub struct TestServer {
    folder: TempDir,
    port: u16,
    command: Vec<String>,
    keeper: Mutex<Option<Child>>,
}

impl TestServer {
    /// Starts Redis with these settings besides the usual ones.
    pub fn start(settings: &[&str]) -> io::Result<Self> {
        Self::with_program(Path::new("redis-server"), settings)
    }

    /// Starts Valkey.
    pub fn start_valkey(settings: &[&str]) -> io::Result<Self> {
        Self::with_program(&valkey()?, settings)
    }

    fn with_program(program: &Path, settings: &[&str]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut command = vec![program.display().to_string()];
        // Settings of a sentinel are in a file, which comes first.
        let (first, others) = match settings {
            [first, others @ ..] if first.ends_with(".conf") => (Some(*first), others),
            others => (None, others),
        };
        command.extend(first.map(str::to_owned));
        let usual = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""];
        command.extend(usual.map(str::to_owned));
        for (name, value) in [("unixsocket", "socket"), ("pidfile", "pid"), ("logfile", "log")] {
            command.extend([format!("--{name}"), path(value)]);
        }
        command.extend(["--dir".to_owned(), path("")]);
        command.extend(others.iter().map(|setting| (*setting).to_owned()));
        let server = Self { folder, port, command, keeper: Mutex::default() };
        server.begin()?;
        Ok(server)
    }

    /// Starts it again where it was, and waits until it answers.
    pub fn begin(&self) -> io::Result<()> {
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).args(&self.command);
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let begun = Instant::now();
        while !self.answers() {
            if begun.elapsed() > START_TIME_MAX {
                drop(keeper.stdin.take());
                keeper.wait()?;
                let log = std::fs::read_to_string(self.folder.path().join("log"));
                let log = log.unwrap_or_else(|_| "try `make tools`".into());
                return Err(io::Error::other(format!("{:?} does not start: {log}", self.command)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        Ok(())
    }

    /// Whether it takes commands: it may still be reading its file.
    fn answers(&self) -> bool {
        let connection = Client::open(self.address()).and_then(|client| client.get_connection());
        match connection.and_then(|mut connection| redis::cmd("PING").exec(&mut connection)) {
            Ok(()) => true,
            // It asks who this is.
            Err(error) => error.code() == Some("NOAUTH"),
        }
    }

    /// Ends it as a crash does.
    pub fn kill(&self) -> io::Result<()> {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut keeper) = keeper else { return Ok(()) };
        drop(keeper.stdin.take());
        keeper.wait()?;
        // Nobody should take it for a server that is still starting.
        let _ = std::fs::remove_file(self.folder.path().join("socket"));
        Ok(())
    }

    /// Stops it for a while: it is there, but does not answer.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("-STOP")
    }

    /// Lets it go on.
    pub fn resume(&self) -> io::Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> io::Result<()> {
        let number = std::fs::read_to_string(self.folder.path().join("pid"))?;
        let done = Command::new("kill").args([signal, number.trim()]).status()?;
        if done.success() { Ok(()) } else { Err(io::Error::other("cannot signal the server")) }
    }

    /// How to reach it by its socket.
    pub fn address(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    /// How to reach it by its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Carries out a command, past the store.
    pub fn command<T: FromRedisValue>(&self, parts: &[&str]) -> io::Result<T> {
        let client = Client::open(self.address()).map_err(io::Error::other)?;
        let mut connection = client.get_connection().map_err(io::Error::other)?;
        let mut command = Cmd::new();
        parts.iter().for_each(|part| {
            command.arg(*part);
        });
        command.query(&mut connection).map_err(io::Error::other)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // One that is stopped would not end.
        let _ = self.resume();
        let _ = self.kill();
    }
}

/// A port that nobody has at the moment.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The Valkey server: where `TASKLANE_VALKEY` says, or where `make tools` puts it.
fn valkey() -> io::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let path = std::env::var_os("TASKLANE_VALKEY");
    let path = path.map_or_else(|| target.join("test-tools/valkey-server"), PathBuf::from);
    match path.exists() {
        true => Ok(path),
        false => Err(io::Error::other("there is no valkey-server: try `make tools`")),
    }
}
