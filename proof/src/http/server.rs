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
/// Its log, in its folder.
pub(super) const LOG: &str = "log";

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
        let child = spawn(&program, folder, store, &settings)?;
        let (folder, store) = (folder.into(), store.into());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { program, folder, store, settings, child, address };
        server.address = server.listens()?;
        Ok(server)
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
        self.address = self.listens()?;
        Ok(())
    }

    /// Waits until its log says where it listens.
    fn listens(&mut self) -> Result<SocketAddr, Failure> {
        let started = Instant::now();
        loop {
            let log = fs::read(self.folder.join(LOG))?;
            let log = String::from_utf8_lossy(&log);
            if let Some(address) = address_in(&log) {
                return Ok(address);
            }
            if self.child.try_wait()?.is_some() || started.elapsed() > START_WITHIN {
                return Err(format!("the server did not start: {log}").into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
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
    let log = fs::File::create(folder.join(LOG))?;
    let child = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
        .current_dir(folder)
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    child.map_err(|error| format!("{}: {error}", program.display()).into())
}

/// The address that a log tells. Its line may be there in part: something follows what is whole.
fn address_in(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once("address=")?;
    rest.split_once(' ')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_address_is_none() {
        let log = "INFO serving address=127.0.0.1:41234 store=\"store\"";
        let whole = log.find(" store").unwrap_or_default();
        assert_eq!(address_in(log), Some(SocketAddr::from(([127, 0, 0, 1], 41_234))));
        for part in (0..=whole).filter_map(|end| log.get(..end)) {
            assert_eq!(address_in(part), None, "{part}");
        }
    }
}
