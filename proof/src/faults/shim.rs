//! The disk that fails: `proof/faults/shim.c`, compiled when a run begins and loaded into the
//! processes of its crew. This is how they give it orders.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

const SOURCE: &str = include_str!("../../faults/shim.c");

/// The folder of the store, in the environment of the shim.
pub(super) const FOLDER: &str = "FAULTS_FOLDER";
/// The file of orders, in the environment of the shim.
pub(super) const CONTROL: &str = "FAULTS_CONTROL";

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    /// The disk is broken.
    Io,
    /// The disk is full.
    NoSpace,
    /// The disk gets full in the middle of a write.
    Short,
    /// From then on syncs do nothing, and say that they did.
    Lie,
    /// The power is gone: from then on nothing reaches the disk.
    Power,
}

impl Error {
    pub(super) const ALL: [Self; 3] = [Self::Io, Self::NoSpace, Self::Short];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Io => "eio",
            Self::NoSpace => "enospc",
            Self::Short => "short",
            Self::Lie => "lie",
            Self::Power => "power",
        }
    }

    /// Whether there is no room.
    pub(super) const fn is_full(self) -> bool {
        matches!(self, Self::NoSpace | Self::Short)
    }
}

/// Which call fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// Its number, from 1 on; 0 for none.
    pub(super) at: usize,
    pub(super) error: Error,
    /// Those after it fail too.
    pub(super) lasting: bool,
    /// What is lost when the power goes follows from this.
    pub(super) weather: u64,
}

impl Fault {
    pub(super) const NONE: Self = Self { at: 0, error: Error::Io, lasting: false, weather: 0 };
}

/// What the shim has seen since it was armed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// The call that failed: a small letter for a write, a capital for a sync, `t` for a change of
    /// length; `d` the database, `l` the log, `i` its index, `o` another file.
    pub(super) fired: Option<char>,
    /// Syncs that succeeded though an earlier one had not saved what was written.
    pub(super) late_syncs: u64,
    /// All calls, a letter each.
    pub(super) calls: String,
}

impl Seen {
    /// A sync of the log has failed.
    pub(super) fn log_is_unsynced(&self) -> bool {
        self.fired == Some('L')
    }
}

/// The way to the shim in this process.
pub(super) struct Shim(PathBuf);

impl Shim {
    /// Compiles the shim into `folder`.
    pub(super) fn build(folder: &Path) -> Result<PathBuf, Failure> {
        let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
        std::fs::write(&source, SOURCE)?;
        let built = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-pthread", "-o"])
            .args([&library, &source])
            .output()
            .map_err(|error| format!("the shim needs the compiler cc: {error}"))?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr).into_owned();
            return Err(format!("the shim was not compiled: {text}").into());
        }
        Ok(library)
    }

    /// Of this process, which was started with it.
    pub(super) fn here() -> Result<Self, Failure> {
        let control = std::env::var_os(CONTROL).ok_or("the shim is not loaded")?;
        let shim = Self(control.into());
        shim.arm(&Fault::NONE)?;
        shim.lose_power(0)?;
        Ok(shim)
    }

    /// Begins to count; the call that is meant fails.
    pub(super) fn arm(&self, fault: &Fault) -> Result<(), Failure> {
        let (at, error, lasting) = (fault.at, fault.error.as_str(), u8::from(fault.lasting));
        self.order(&format!("arm {at} {error} {lasting}")).map(drop)
    }

    /// Nothing fails any more.
    pub(super) fn disarm(&self) -> Result<(), Failure> {
        self.order("disarm").map(drop)
    }

    /// What has happened so far.
    pub(super) fn seen(&self) -> Result<Seen, Failure> {
        let text = self.order("status")?;
        let (numbers, calls) = text.split_once('\n').ok_or("the shim is silent")?;
        let words: Vec<&str> = numbers.split(' ').collect();
        let [_, fired, _, late_syncs, _] = words.as_slice() else {
            return Err(format!("the shim said {numbers}").into());
        };
        let fired = fired.chars().next().filter(|letter| *letter != '-');
        Ok(Seen { fired, late_syncs: late_syncs.parse()?, calls: calls.to_owned() })
    }

    /// Takes away what a loss of power may take, and counts no more.
    pub(super) fn lose_power(&self, seed: u64) -> Result<(), Failure> {
        self.order(&format!("crash {seed}")).map(drop)
    }

    fn order(&self, order: &str) -> Result<String, Failure> {
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&self.0)?;
        file.write_all(order.as_bytes())?;
        file.rewind()?;
        let mut answer = String::new();
        file.read_to_string(&mut answer)?;
        if answer == order {
            return Err("the shim is not loaded".into());
        }
        Ok(answer)
    }
}
