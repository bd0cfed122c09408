//! Redis servers in temporary folders.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use redis::{Client, Commands, Connection};
use tempfile::TempDir;

/// How long a server may take to start on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Ends the server when the test that started it has gone, however it went.
const WATCH: &str = r#"redis-server "$@" & server=$!; read -r _; kill -9 $server"#;

/// A server that listens on a socket in its folder, and on a port if others must reach it.
pub(crate) struct Server {
    watcher: Child,
    /// Closed when the test ends.
    lifeline: Option<ChildStdin>,
    folder: TempDir,
    pub(crate) port: u16,
}

impl Server {
    /// Starts one with these settings besides the usual ones.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::on_port(0, settings)
    }

    /// Starts one that listens on a port, too.
    pub(crate) fn with_port(settings: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self::on_port(port, settings);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn on_port(port: u16, settings: &[&str]) -> Self {
        let known = Command::new("redis-server").arg("--version").output();
        assert!(known.is_ok(), "there is no redis-server: apt-get install redis-server");
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (socket, log, home, number) = (path("socket"), path("log"), path(""), port.to_string());
        let mut watcher = Command::new("sh")
            .args(["-c", WATCH, "sh", "--port", &number, "--bind", "127.0.0.1"])
            .args(["--unixsocket", &socket, "--dir", &home, "--logfile", &log, "--save", ""])
            .args(settings)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let lifeline = watcher.stdin.take();
        let deadline = Instant::now() + START_TIME_MAX;
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not answer: see {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { watcher, lifeline, folder, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    /// A connection past the store.
    pub(crate) fn connect(&self) -> Connection {
        Client::open(self.address()).unwrap().get_connection().unwrap()
    }

    /// Sets one of its settings while it runs.
    pub(crate) fn configure(&self, name: &str, value: &str) {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg(name).arg(value);
        set.query::<()>(&mut self.connect()).unwrap();
    }

    /// Waits until a replica of this one has everything.
    pub(crate) fn wait_for_replica(&self) {
        let deadline = Instant::now() + START_TIME_MAX;
        let mut connection = self.connect();
        let _: () = connection.set("probe", "1").unwrap();
        let mut wait = redis::cmd("WAIT");
        wait.arg(1).arg(100);
        while wait.query::<u32>(&mut connection).unwrap() < 1 {
            assert!(Instant::now() < deadline, "the replica does not follow");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = self.watcher.wait();
    }
}

/// The server that tests share, each in a namespace of its own.
pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&["--appendonly", "no"]))
}
