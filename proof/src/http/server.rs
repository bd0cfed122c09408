//! A server process that is ended at any moment, and started again on the same store.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Failure;

/// How long a server may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The process, ended with this.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    /// Where its log is, and what a store in files is relative to.
    folder: PathBuf,
    store: String,
    settings: Vec<(String, String)>,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `program` on a free port, with these settings in its environment.
    pub fn start(
        program: &Path,
        folder: &Path,
        store: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let program =
            program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let settings: Vec<(String, String)> = settings.collect();
        let mut child = spawn(&program, folder, store, &settings)?;
        let address = listens(&mut child, folder)?;
        Ok(Self { program, folder: folder.into(), store: store.into(), settings, child, address })
    }

    /// Where it listens; another place after each restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its number among processes.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again where it was, once it was killed.
    pub fn begin(&mut self) -> Result<(), Failure> {
        self.child = spawn(&self.program, &self.folder, &self.store, &self.settings)?;
        self.address = listens(&mut self.child, &self.folder)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn spawn(
    program: &Path,
    folder: &Path,
    store: &str,
    settings: &[(String, String)],
) -> Result<Child, Failure> {
    let log = fs::File::create(folder.join("log"))?;
    let child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
        .current_dir(folder)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    child.map_err(|error| format!("{}: {error}", program.display()).into())
}

/// Waits until the log says where it listens.
fn listens(child: &mut Child, folder: &Path) -> Result<SocketAddr, Failure> {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(folder.join("log"))?;
        let address = text.split("address=").nth(1).and_then(|rest| rest.split(' ').next());
        if let Some(address) = address.and_then(|text| text.parse().ok()) {
            return Ok(address);
        }
        if child.try_wait()?.is_some() || started.elapsed() > START_WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the server did not start: {text}").into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
