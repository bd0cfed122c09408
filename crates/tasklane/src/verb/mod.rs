//! What operators and producers ask of a server: one file for each group of verbs.
//!
//! - tasks: [`submit`] and [`bulk`], [`look`], [`wait`], [`change`]; [`task`] how they are shown
//! - [`queue`] and [`setting`], [`pause`], [`purge`], [`worker`], [`dead_letter`], [`stats`],
//!   [`events`]
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
mod pause;
mod purge;
mod queue;
mod setting;
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
pub(crate) use pause::{Pause, Resume};
pub(crate) use purge::Purge;
pub(crate) use queue::Queues;
pub(crate) use stats::Stats;
pub(crate) use submit::Submit;
pub(crate) use wait::Wait;
pub(crate) use worker::{Drain, Workers};
