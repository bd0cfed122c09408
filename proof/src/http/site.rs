//! A server process with a store of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Failure;

/// How long a server may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);

/// In which Linux counts the work of a process.
const TICKS_PER_SECOND: u64 = 100;

/// The process, ended with this.
pub struct Site {
    child: Child,
    folder: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Site {
    /// Starts `program` on a free port, with these settings in its environment.
    pub fn start(program: &Path, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_on(program, Path::new("store"), settings)
    }

    /// The same, with its store in this folder.
    pub fn start_on(
        program: &Path,
        store: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("proof-").tempdir()?;
        let log = folder.path().join("log");
        let child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(format!("sqlite:{}", store.display()))
            .current_dir(folder.path())
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut site = Self { child, folder, address: ([127, 0, 0, 1], 0).into() };
        let started = Instant::now();
        while started.elapsed() < START_WITHIN {
            let text = site.log();
            let address = text.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(address) = address.and_then(|text| text.parse().ok()) {
                site.address = address;
                return Ok(site);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the server did not start: {}", site.log()).into())
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Bytes that it has logged.
    pub fn log_bytes(&self) -> u64 {
        fs::metadata(self.folder.path().join("log")).map_or(0, |file| file.len())
    }

    /// The id of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1024
    }

    /// How long processors have worked for it.
    pub fn worked(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let text = text.unwrap_or_default();
        let after_name = text.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
