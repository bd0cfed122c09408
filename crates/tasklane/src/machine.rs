//! What the machine has left for the server.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tasklane_server::engine::MachineFigures;

/// Where the store is, if it is in files.
pub(crate) fn folder(store: &str) -> Option<PathBuf> {
    store.strip_prefix("sqlite:").map(PathBuf::from)
}

/// As many open files as the system allows: each connection is one, and the limit that programs
/// begin with is made for others.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Asks the system.
pub(crate) fn figures(folder: Option<&PathBuf>) -> MachineFigures {
    let disk = folder.and_then(|folder| rustix::fs::statvfs(folder).ok());
    let disk_bytes = disk.map(|disk| {
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        (bytes(disk.f_bavail), bytes(disk.f_blocks))
    });
    // What cannot be counted on this system is not told.
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
    let max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    MachineFigures { disk_bytes, files: open.map(|open| (open, max)) }
}
