//! What operators and producers ask of a server: one file for each group of verbs.
//!
//! - tasks: [`submit`] and [`bulk`], [`look`], [`wait`], [`change`]; [`task`] how they are shown
//! - [`queue`], [`worker`], [`dead_letter`], [`stats`], [`events`]
//! - [`copy`]: backups, restores and checks of a store
//! - [`filter`] which tasks are meant; [`paging`] how many

mod bulk;
mod change;
mod copy;
mod dead_letter;
mod events;
mod filter;
mod look;
mod paging;
mod queue;
mod stats;
mod submit;
mod task;
mod wait;
mod worker;

pub(crate) use change::{Cancel, Retry};
pub(crate) use copy::{Backup, Check, Restore};
pub(crate) use dead_letter::DeadLetters;
pub(crate) use events::Events;
pub(crate) use look::{Explain, Get, History, List};
pub(crate) use queue::{Pause, Purge, Queues, Resume};
pub(crate) use stats::Stats;
pub(crate) use submit::Submit;
pub(crate) use wait::Wait;
pub(crate) use worker::{Drain, Workers};
