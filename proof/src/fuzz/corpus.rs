//! Where inputs begin: files of real requests and records, and inputs that once broke something.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// The files of a target, in the order of their names.
pub fn read(folder: &Path, target: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let folder = folder.join(target);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, Failure>>()?;
    paths.sort();
    paths.iter().map(|path| Ok(fs::read(path)?)).collect()
}

/// The corpus of this package.
pub fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}
