//! A server process with a store of its own, and what the system says of it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::server::{LOG, Server};
use crate::Failure;
use crate::process::{self, Status};

/// The process, ended with this.
pub struct Site {
    // Comes first, so that it has ended when its folder is removed.
    server: Server,
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
        let store = format!("sqlite:{}", store.display());
        let server = Server::start(program, folder.path(), &store, settings)?;
        let address = server.address();
        Ok(Self { server, folder, address })
    }

    /// What it has logged beyond so many bytes. What is no text in it is replaced.
    pub fn log_beyond(&self, bytes: u64) -> String {
        let log = fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(log.get(bytes as usize..).unwrap_or_default()).into_owned()
    }

    /// Bytes that it has logged.
    pub fn log_bytes(&self) -> u64 {
        fs::metadata(self.folder.path().join(LOG)).map_or(0, |file| file.len())
    }

    /// The id of its process.
    pub fn process(&self) -> u32 {
        self.server.process()
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> u64 {
        let status = Status::of(self.process()).ok();
        status.and_then(|status| status.bytes("VmRSS")).unwrap_or(0)
    }

    /// How long processors have worked for it.
    pub fn worked(&self) -> Duration {
        process::worked(self.process()).unwrap_or_default()
    }
}
