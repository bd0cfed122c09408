//! Kinds of input, one file each.

mod body;
mod config;
mod flag;
mod query;
mod raw;
mod record;
pub mod shelf;
mod socket;
mod store;
mod token;

use super::Target;
use super::ground::Ground;
use crate::Failure;

/// All of them.
pub const TARGETS: [Target; 9] = [
    token::TARGET,
    record::TARGET,
    store::TARGET,
    body::TARGET,
    query::TARGET,
    raw::TARGET,
    socket::TARGET,
    config::TARGET,
    flag::TARGET,
];

/// For targets whose seeds are all in files.
fn none(_: &mut Ground) -> Result<Vec<Vec<u8>>, Failure> {
    Ok(Vec::new())
}

/// A first line and what follows it.
fn divide(input: &[u8]) -> (&str, &[u8]) {
    let ends = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at(ends);
    (std::str::from_utf8(line).unwrap_or_default(), rest.get(1..).unwrap_or_default())
}
