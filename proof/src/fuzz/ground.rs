//! What targets stand on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::Memory;
use super::peer::Peer;
use super::target::shelf::Shelf;
use crate::Failure;
use crate::process::Status;

/// Inputs that one server sees: what they leave behind stays bounded.
const INPUTS_OF_A_SERVER: u64 = 5_000;

/// Made when it is first needed.
pub struct Ground {
    program: PathBuf,
    folder: TempDir,
    peer: Option<Peer>,
    asked: u64,
    noted: Option<Duration>,
    shelf: Option<Shelf>,
}

impl Ground {
    /// With `program` as the server and as the command.
    pub fn new(program: &Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("fuzz-").tempdir()?;
        Ok(Self {
            program: program.to_owned(),
            folder,
            peer: None,
            asked: 0,
            noted: None,
            shelf: None,
        })
    }

    /// A server; now and then a new one.
    pub fn peer(&mut self) -> Result<&mut Peer, Failure> {
        self.asked += 1;
        if self.asked.is_multiple_of(INPUTS_OF_A_SERVER) {
            self.peer = None;
        }
        match &mut self.peer {
            Some(peer) => Ok(peer),
            none => Ok(none.insert(Peer::start(&self.program)?)),
        }
    }

    /// A store with something of everything in it.
    pub fn shelf(&mut self) -> Result<&mut Shelf, Failure> {
        match &mut self.shelf {
            Some(shelf) => Ok(shelf),
            none => Ok(none.insert(Shelf::make(self.folder.path())?)),
        }
    }

    /// The command.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A folder for whatever.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the server: the next one knows nothing of what it was sent.
    pub fn clear(&mut self) {
        self.peer = None;
        self.asked = 0;
    }

    /// The longest that a server or a store took for one answer since the last call, if they were
    /// asked: what a test does besides is not counted.
    pub fn answered_within(&mut self) -> Option<Duration> {
        let noted = self.noted.take();
        noted.max(self.peer.as_mut().and_then(Peer::longest))
    }

    /// Notes how long one call took, where an input makes many.
    pub fn note(&mut self, took: Duration) {
        self.noted = self.noted.max(Some(took));
    }

    /// The most memory that was in use at once since the last call, where it counts.
    pub fn peak_bytes(&self, whose: Memory) -> u64 {
        match (whose, &self.peer) {
            (Memory::Own, _) => peak_of("self"),
            (Memory::Server, Some(peer)) => peak_of(&peer.process().to_string()),
            _ => 0,
        }
    }
}

/// What the system noted as the peak of a process, and begins to note anew.
fn peak_of(process: &str) -> u64 {
    let status = Status::of(process).ok();
    // Where it cannot be begun anew, the peak is that of all inputs so far: none is missed.
    let _ = std::fs::write(format!("/proc/{process}/clear_refs"), "5");
    status.and_then(|status| status.bytes("VmHWM")).unwrap_or(0)
}
