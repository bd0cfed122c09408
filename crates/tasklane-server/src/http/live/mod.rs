//! Live events: a filter, a reader that knows what comes next, and two ways to send it.
//!
//! Nothing is kept for a reader but its cursor and the piece that is being written. One that does
//! not keep up is told so and dropped; it may come back with its cursor.

mod bulletin;
mod filter;
mod frame;
mod kind;
mod reader;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use bulletin::run as tell;
// With what the macro for paths makes beside each.
pub(crate) use socket::*;
pub(crate) use stream::*;
