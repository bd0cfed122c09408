//! The files of a store, held in memory: put back for every point.

use std::path::Path;

use crate::Failure;

/// Names and contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files(Vec<(String, Vec<u8>)>);

impl Files {
    /// Reads what a store consists of. The index of the log is none of it: it is made anew.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".db") || name.ends_with("-wal") {
                files.push((name, std::fs::read(entry.path())?));
            }
        }
        files.sort();
        Ok(Self(files))
    }

    /// Makes the folder hold these and nothing else.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        std::fs::create_dir_all(folder)?;
        for (name, bytes) in &self.0 {
            std::fs::write(folder.join(name), bytes)?;
        }
        Ok(())
    }

    /// Names and lengths.
    pub(super) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), bytes.len()))
    }

    /// The content of a file, to be changed.
    pub(super) fn content(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.0.iter_mut().find(|(known, _)| known == name).map(|(_, bytes)| bytes)
    }
}
