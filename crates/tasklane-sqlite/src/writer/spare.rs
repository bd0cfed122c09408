//! Room that is kept for settles.
//!
//! A file of the store holds some room on the disk. When a write finds the disk full, the file gives
//! its room up: what ends tasks goes on with that, and submissions are refused until the file can
//! hold its room again.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tasklane_store::StoreError;

use crate::schema::Location;

/// The file's name in the store's folder.
const NAME: &str = "spare";
/// What is written at a time where room cannot be asked for.
static BLOCK: [u8; 65_536] = [0; 65_536];

/// The file; or none, for stores without files or without room to keep.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    path: Option<PathBuf>,
    bytes: u64,
    /// The room was given up, or was never there.
    full: bool,
    /// This transaction has looked for room already.
    looked: bool,
}

impl Spare {
    /// Keeps so much room beside a database.
    pub(super) fn keep(location: &Location, bytes: u64) -> Self {
        let Location::File(database) = location else { return Self::default() };
        if bytes == 0 {
            return Self::default();
        }
        let path = database.with_file_name(NAME);
        let mut spare = Self { path: Some(path), bytes, full: true, looked: false };
        spare.look();
        spare
    }

    /// A transaction begins.
    pub(crate) const fn begin(&mut self) {
        self.looked = false;
    }

    /// Gives the room up; whether there was any.
    pub(super) fn give_up(&mut self) -> bool {
        let Some(path) = self.path.as_ref().filter(|_| !self.full) else { return false };
        self.full = true;
        // What was refused in this transaction is not asked for again in it.
        self.looked = true;
        File::create(path).is_ok()
    }

    /// Whether more may be stored. Looks for room once in a transaction.
    pub(crate) fn room(&mut self) -> Result<(), StoreError> {
        if self.full && !self.looked {
            self.looked = true;
            self.look();
        }
        self.trouble().map_or(Ok(()), |text| Err(StoreError::Full(text)))
    }

    /// Why submissions are refused.
    pub(super) fn trouble(&self) -> Option<String> {
        self.full.then(|| {
            let mebibytes = self.bytes >> 20;
            format!("the disk is full; with {mebibytes} MiB of room, submissions are taken again")
        })
    }

    fn look(&mut self) {
        let Some(path) = &self.path else { return };
        match hold(path, self.bytes) {
            Ok(()) => self.full = false,
            Err(error) => {
                // Half of it helps nobody.
                let _ = File::create(path);
                self.full = error.kind() == io::ErrorKind::StorageFull;
            }
        }
    }
}

/// Makes the file as long as it should be, with blocks on the disk behind all of it.
fn hold(path: &Path, bytes: u64) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|known| known.len() == bytes) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        asked => return Ok(asked?),
    }
    let mut left = bytes;
    while left > 0 {
        let block = BLOCK.get(..left.min(BLOCK.len() as u64) as usize).unwrap_or(&BLOCK);
        file.write_all(block)?;
        left -= block.len() as u64;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_kept_given_up_once_and_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("tasklane.db"));
        let length = || std::fs::metadata(folder.path().join(NAME)).unwrap().len();
        let mut spare = Spare::keep(&location, 100_000);
        assert_eq!((length(), spare.room()), (100_000, Ok(())));
        spare.begin();
        assert!(spare.give_up());
        assert!(!spare.give_up(), "it is gone");
        assert_eq!(length(), 0);
        assert!(matches!(spare.room(), Err(StoreError::Full(_))), "not in the same transaction");
        assert!(spare.trouble().is_some());
        spare.begin();
        assert_eq!((spare.room(), length()), (Ok(()), 100_000));
        assert_eq!(spare.trouble(), None);
    }

    #[test]
    fn a_store_without_files_keeps_none() {
        let mut spare = Spare::keep(&Location::Memory, 100_000);
        assert_eq!((spare.give_up(), spare.room()), (false, Ok(())));
    }
}
