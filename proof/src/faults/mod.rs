//! The faults test (`proof faults`): what the embedded store does when its disk fails, is full, or has
//! changed what was written.
//!
//! - [`disk_error`] every call to the disk fails once, and then the power goes; or it goes at any of them
//! - [`disk_full`] a real server on a small disk
//! - [`damage`] files that are cut, and bits that are turned
//! - `shim` a disk that fails, loaded into a process; `crew` the processes that try points; `world`
//!   who calls meanwhile; `files` what a store consists of

mod crew;
pub mod damage;
pub mod disk_error;
pub mod disk_full;
mod files;
mod shim;
mod world;

use std::path::{Path, PathBuf};

use crate::Failure;
use crew::Crew;
pub use crew::{Share, Tally};

/// Losses of power in one segment of a sequence: the next ones are in another.
const POWER_SEGMENT_POINTS: u64 = 50;

/// Where and how much is tried.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This program: it is a process of a crew when its arguments say so.
    pub program: PathBuf,
    /// Where stores are made; must be there.
    pub folder: PathBuf,
    /// What everything follows from.
    pub seed: u64,
    /// Operations of the sequence during which the disk fails.
    pub operations: u64,
    /// Calls to the disk that fail; all of them if there is none.
    pub points: Option<u64>,
    /// How often the power goes.
    pub power: u64,
    /// Places that are damaged; all of them if there is none.
    pub damage: Option<u64>,
    /// The disk that fails lies instead: this must not go well.
    pub lies: bool,
    /// How many processes share the points.
    pub processes: u64,
}

impl Settings {
    /// Makes the disk fail.
    pub fn fail(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Tally, Failure> {
        let mut arguments = self.arguments("fail", self.points);
        arguments.extend(["--operations".into(), self.operations.to_string()]);
        if self.lies {
            arguments.extend(["--disk".into(), "lying".into()]);
        }
        self.run_with_shim("fail", arguments, progress)
    }

    /// Takes the power away. How long the sequence is follows from how often.
    pub fn lose_power(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Tally, Failure> {
        let operations = self.power.div_ceil(POWER_SEGMENT_POINTS) * disk_error::SEGMENT_STEPS;
        let mut arguments = self.arguments("power", Some(self.power));
        arguments.extend(["--operations".into(), operations.to_string()]);
        self.run_with_shim("power", arguments, progress)
    }

    fn run_with_shim(
        &self,
        name: &str,
        arguments: Vec<String>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Tally, Failure> {
        let (folder, shim) = (self.folder(name)?, Some(shim::Shim::build(&self.folder)?));
        let (program, processes) = (self.program.as_path(), self.processes);
        Crew { program, arguments, folder, shim, processes }.run(progress)
    }

    /// Damages files.
    pub fn damage(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Tally, Failure> {
        let (folder, arguments) = (self.folder("damage")?, self.arguments("damage", self.damage));
        let (program, processes) = (self.program.as_path(), self.processes);
        Crew { program, arguments, folder, shim: None, processes }.run(progress)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn arguments(&self, part: &str, points: Option<u64>) -> Vec<String> {
        let points = points.map_or_else(|| "all".into(), |points| points.to_string());
        let seed = self.seed.to_string();
        let arguments = ["faults", "child", part, "--seed", &seed, "--points", &points];
        arguments.map(String::from).to_vec()
    }
}

/// A process of a crew dies of the first panic on any of its threads, the store's own included.
pub fn end_with_the_first_panic() {
    crate::child::end_with_the_first_panic();
}

/// Where files are written fast: in memory, where there is such a place.
pub fn fast_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
