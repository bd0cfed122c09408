//! What can be set, and how: flags, environment, a file, defaults.
//!
//! Each setting is one row of the [`table`]. Flags, names in the environment, the file that
//! `config default` prints, the output of `config print` and docs/configuration.md are made from it.
//!
//! - [`source`] where values come from; [`document`] a TOML file taken apart
//! - [`load`] puts them together; [`effective`] checks them together, for the parts of the server
//! - [`reload`] does so again while the server runs

mod client;
mod command;
mod document;
mod effective;
mod field;
mod flag;
mod kind;
mod load;
mod page;
mod print;
mod reload;
mod setting;
mod source;
mod suggest;
mod table;
mod template;
#[cfg(test)]
mod tests;
mod token;
mod values;

pub(crate) use command::{Command, EXAMPLE, run};
pub(crate) use effective::{Auth, Effective};
pub(crate) use flag::Flags;
pub(crate) use load::load;
pub(crate) use reload::Reloading;
pub(crate) use setting::without_password as shown_address;
pub(crate) use source::Sources;
