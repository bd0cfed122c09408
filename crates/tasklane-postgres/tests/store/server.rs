//! A PostgreSQL server of this test run's own, in a temporary folder. Tests fail if there is none.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where Debian keeps the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs the server until its input ends, which is when this process does; then tidies up.
const KEEPER: &str = r#"
    "$@" >"$FOLDER/log" 2>&1 &
    server=$!
    read -r _
    kill -QUIT $server
    wait $server
    rm -rf "$FOLDER"
"#;

pub(crate) struct Server {
    folder: PathBuf,
    _keeper: Child,
}

/// The server of this process, started when it is first asked for.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

impl Server {
    /// How to reach it, with its superuser.
    pub(crate) fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.display())
    }

    fn start() -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("tasklane-pg-").tempdir().unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let data = folder.join("data");
        run(as_postgres(&programs.join("initdb"))
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"])
            .args(["--locale=C", "-D"])
            .arg(&data));
        let postgres = as_postgres(&programs.join("postgres"));
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(postgres.get_program()).args(postgres.get_args());
        keeper.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-k"]).arg(&folder);
        // Durability is not what these tests are about.
        for setting in [
            "fsync=off",
            "full_page_writes=off",
            "synchronous_commit=off",
            "max_connections=200",
            "shared_buffers=64MB",
            "max_locks_per_transaction=256",
            "autovacuum_naptime=5s",
        ] {
            keeper.args(["-c", setting]);
        }
        let keeper = keeper.env("FOLDER", &folder).stdin(Stdio::piped()).spawn().unwrap();
        let server = Self { folder, _keeper: keeper };
        server.wait(&programs);
        server
    }

    fn wait(&self, programs: &Path) {
        let begun = Instant::now();
        loop {
            let ready = Command::new(programs.join("pg_isready"))
                .arg("-q")
                .arg("-h")
                .arg(&self.folder)
                .status()
                .unwrap();
            if ready.success() {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < START_TIME_MAX, "PostgreSQL does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn programs() -> PathBuf {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut found: Vec<_> = versions
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("postgres").exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("PostgreSQL is not installed: try `make tools`"))
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim() == "0"
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
}
