//! PostgreSQL servers for tests, each in a temporary folder. They end with the process that started
//! them, however it ends.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where Debian keeps the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs the server until a word comes, which says how it ends, or until the input ends, which is
/// when its owner has gone: then there is nobody left who could want the folder.
const KEEPER: &str = r#"
    "$@" >>"$FOLDER/log" 2>&1 &
    server=$!
    read -r word
    case "$word" in
        stop) kill -INT $server ;;
        *) kill "-${END:-QUIT}" $server ;;
    esac
    wait $server
    [ -n "$word" ] || rm -rf "$FOLDER"
"#;

/// How much a server cares for its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// As it is installed: what is committed is on disk.
    Durable,
    /// Not at all: for tests of everything else.
    Fast,
}

/// A server that is reached by a socket in its folder.
pub struct TestServer {
    folder: PathBuf,
    settings: Vec<String>,
    keeper: Mutex<Option<Child>>,
    /// Ends when this is dropped, by the end of its input.
    pooler: Mutex<Option<Child>>,
}

impl TestServer {
    /// Makes a new one and waits until it answers.
    pub fn start(care: Care) -> io::Result<Self> {
        Self::make(new_folder()?, care, Vec::new())
    }

    /// The same, reached by `port` of this machine too, with TLS: certificate and key in PEM.
    pub fn encrypted(port: u16, certificate: &str, key: &str) -> io::Result<Self> {
        let folder = new_folder()?;
        let mut settings = vec!["ssl=on".into(), "listen_addresses=127.0.0.1".into()];
        for (setting, name, text) in
            [("ssl_cert_file", "certificate", certificate), ("ssl_key_file", "key", key)]
        {
            let file = folder.join(name);
            std::fs::write(&file, text)?;
            run(Command::new("chmod").arg("600").arg(&file))?;
            if is_root()? {
                run(Command::new("chown").arg("postgres").arg(&file))?;
            }
            settings.push(format!("{setting}={}", file.display()));
        }
        settings.push(format!("port={port}"));
        Self::make(folder, Care::Fast, settings)
    }

    /// The same, reached by the usual port of `address` too, from the network that it is on.
    pub fn listening(care: Care, address: &str) -> io::Result<Self> {
        let server = Self::make(new_folder()?, care, vec![format!("listen_addresses={address}")])?;
        let mut permissions =
            File::options().append(true).open(server.folder.join("data/pg_hba.conf"))?;
        writeln!(permissions, "host all all samenet trust")?;
        server.sql("postgres", "SELECT pg_reload_conf()")?;
        Ok(server)
    }

    fn make(folder: PathBuf, care: Care, own: Vec<String>) -> io::Result<Self> {
        run(program("initdb")?
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"])
            .args(["--locale=C", "-D"])
            .arg(folder.join("data")))?;
        let mut settings = vec!["max_connections=200", "max_locks_per_transaction=256"];
        if care == Care::Fast {
            settings.extend(["fsync=off", "full_page_writes=off", "synchronous_commit=off"]);
        }
        settings.extend(["shared_buffers=64MB", "autovacuum_naptime=5s"]);
        let settings = settings.into_iter().map(str::to_owned).chain(own).collect();
        let server = Self { folder, settings, keeper: Mutex::default(), pooler: Mutex::default() };
        server.begin()?;
        Ok(server)
    }

    /// How to reach a database on it, with its superuser.
    pub fn address(&self, database: &str) -> String {
        format!("postgres:///{database}?user=postgres&host={}", self.folder.display())
    }

    /// Puts PgBouncer in front, in transaction mode; gives what to put in the place of its own
    /// folder in an address. It ends with this process.
    pub fn pool(&self) -> io::Result<String> {
        let folder = self.folder.join("pooler");
        std::fs::create_dir(&folder)?;
        let settings = format!(
            "[databases]\n* = host={server} user=postgres\n[pgbouncer]\nlisten_addr =\n\
             unix_socket_dir = {own}\nauth_type = any\npool_mode = transaction\n\
             max_client_conn = 1000\ndefault_pool_size = 30\n",
            server = self.folder.display(),
            own = folder.display(),
        );
        std::fs::write(folder.join("settings"), settings)?;
        if is_root()? {
            run(Command::new("chown").arg("-R").arg("postgres").arg(&folder))?;
        }
        let pooler = as_postgres(Path::new("pgbouncer"))?;
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(pooler.get_program()).args(pooler.get_args());
        keeper.arg(folder.join("settings"));
        // It has nothing to lose, and waits for its clients at any other signal.
        let keeper =
            keeper.env("END", "KILL").env("FOLDER", &folder).stdin(Stdio::piped()).spawn()?;
        *self.pooler.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        let socket = folder.join(".s.PGSQL.6432");
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > START_TIME_MAX {
                let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("PgBouncer does not start: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(format!("{}&port=6432", folder.display()))
    }

    /// Makes a database that nobody has used; gives its address.
    pub fn new_database(&self) -> io::Result<String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.address(&name))
    }

    /// A copy of a database, as SQL.
    pub fn dump(&self, database: &str) -> io::Result<Vec<u8>> {
        let mut dump = program("pg_dump")?;
        dump.args(["-U", "postgres", "-h"]).arg(&self.folder).args(["-d", database]);
        Ok(run(&mut dump)?.stdout)
    }

    /// Runs SQL in a database as its superuser; gives what it says.
    pub fn sql(&self, database: &str, sql: &str) -> io::Result<String> {
        let output = run(self.session(database)?.args(["-c", sql]))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A session that runs what is written to it.
    pub fn session(&self, database: &str) -> io::Result<Command> {
        let mut psql = program("psql")?;
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.folder)
            .args(["-d", database]);
        Ok(psql)
    }

    /// Starts it again where it is, and waits until it answers.
    pub fn begin(&self) -> io::Result<()> {
        let postgres = program("postgres")?;
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(postgres.get_program()).args(postgres.get_args());
        keeper.arg("-D").arg(self.folder.join("data"));
        keeper.args(["-c", "listen_addresses=", "-k"]).arg(&self.folder);
        for setting in &self.settings {
            keeper.args(["-c", setting]);
        }
        let keeper = keeper.env("FOLDER", &self.folder).stdin(Stdio::piped()).spawn()?;
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        self.wait()
    }

    /// Where its socket is: the host in an address.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Forgets all that it has, and becomes a standby of another one.
    pub fn follow(&self, primary: &Self) -> io::Result<()> {
        self.crash()?;
        let data = self.folder.join("data");
        std::fs::remove_dir_all(&data)?;
        run(program("pg_basebackup")?
            .args(["-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-h"])
            .arg(&primary.folder)
            .arg("-D")
            .arg(&data))?;
        self.begin()
    }

    /// Ends it as an operator does: what is under way is rolled back, connections are told.
    pub fn stop(&self) -> io::Result<()> {
        self.end("stop")
    }

    /// Ends it as a crash does: nothing is written any more, and the next start has to recover.
    pub fn crash(&self) -> io::Result<()> {
        self.end("crash")
    }

    fn end(&self, word: &str) -> io::Result<()> {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut keeper) = keeper else { return Ok(()) };
        if let Some(mut input) = keeper.stdin.take() {
            writeln!(input, "{word}")?;
        }
        keeper.wait()?;
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            // The socket is named after the port, of which there is one.
            let sockets = std::fs::read_dir(&self.folder)?.flatten();
            let port = sockets.filter_map(|file| {
                let name = file.file_name().to_str()?.strip_prefix(".s.PGSQL.")?.to_owned();
                (!name.ends_with(".lock")).then_some(name)
            });
            for port in port {
                let mut ready = program("pg_isready")?;
                ready.args(["-q", "-p", &port, "-h"]).arg(&self.folder);
                if ready.status()?.success() {
                    return Ok(());
                }
            }
            if begun.elapsed() > START_TIME_MAX {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("PostgreSQL does not start: {log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Its input ends with this.
        if let Some(mut keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        } else {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A folder that the server may write to.
fn new_folder() -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("tasklane-pg-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    // Of a process that had the same number and was killed together with its keeper.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder)?;
    if is_root()? {
        run(Command::new("chown").arg("postgres").arg(&folder))?;
    }
    Ok(folder)
}

/// One of PostgreSQL's programs, of the newest version that is installed. They refuse to run as
/// root.
fn program(name: &str) -> io::Result<Command> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut found: Vec<_> = versions
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("postgres").exists())
        .collect();
    found.sort();
    let programs = found.pop();
    let programs = programs
        .ok_or_else(|| io::Error::other("PostgreSQL is not installed: try `make tools`"))?;
    as_postgres(&programs.join(name))
}

fn as_postgres(program: &Path) -> io::Result<Command> {
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command.current_dir(Path::new("/"));
    Ok(command)
}

fn is_root() -> io::Result<bool> {
    let id = Command::new("id").arg("-u").output()?;
    Ok(String::from_utf8_lossy(&id.stdout).trim() == "0")
}

fn run(command: &mut Command) -> io::Result<Output> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?} failed: {errors}")))
}
