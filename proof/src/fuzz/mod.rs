//! Fuzzing on the stable toolchain: inputs that nobody would send, and what must hold for each.
//!
//! No input makes anything panic, takes longer than [`TIME_MAX`], or needs memory without bound;
//! and each target has a property of its own: what is taken is given back as it came, what is
//! refused is refused in the one form of refusals.
//!
//! - [`target`] one file per kind of input: a plain function that takes the bytes
//! - [`corpus`] where inputs begin: real requests and records, and what once went wrong
//! - [`mutate`] makes new inputs of them; [`json`] knows enough of JSON to do so by its structure
//! - [`ground`] what targets stand on: a server process, a folder, a store
//! - [`peer`] that server, and what is said to it
//! - [`run`] the loop: time and memory; failing inputs made small and kept
//! - [`watch`] panics, and inputs that do not end

pub mod corpus;
pub mod ground;
pub mod json;
pub mod mutate;
pub mod peer;
pub mod run;
pub mod target;
pub mod watch;

use std::time::Duration;

use crate::Failure;
use ground::Ground;

/// Longer than this no input may take.
pub const TIME_MAX: Duration = Duration::from_millis(100);

/// What became of an input that broke nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It made sense, and was taken.
    Taken,
    /// It was refused as it should be.
    Refused,
    /// It asked for a wait, or for a stream without an end, and got it.
    Waits,
}

/// What went wrong.
#[derive(Debug)]
pub enum Wrong {
    /// A property does not hold: what was seen instead.
    Broken(String),
    /// The test itself could not go on.
    Stuck(Failure),
}

impl<E: Into<Failure>> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self::Stuck(error.into())
    }
}

/// What a target says of an input.
pub type Verdict = Result<Seen, Wrong>;

/// Says that a property does not hold.
pub fn broken<T>(what: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Broken(what.into()))
}

/// A kind of input.
#[derive(Clone, Copy)]
pub struct Target {
    /// On the command line, and of the folder with its corpus.
    pub name: &'static str,
    /// How its inputs are put together.
    pub form: Form,
    /// What stands in its inputs now and then.
    pub words: &'static [&'static str],
    /// No input is longer.
    pub bytes_max: usize,
    /// Inputs of the short form.
    pub short: u64,
    /// Whose memory counts.
    pub memory: Memory,
    /// Inputs to begin with, besides those in files.
    pub seeds: fn(&mut Ground) -> Result<Vec<Vec<u8>>, Failure>,
    /// Checks one.
    pub check: fn(&mut Ground, &[u8]) -> Verdict,
}

/// How inputs are put together: what a change should respect now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bytes.
    Bytes,
    /// A first line that stays, and JSON.
    LineAndJson,
    /// A first line that stays, and anything.
    LineAndBytes,
}

/// Whose memory counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Of this process.
    Own,
    /// Of the server.
    Server,
    /// Of a process that ends with its input: not looked at.
    Passing,
}
