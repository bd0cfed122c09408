//! Long tests of what Tasklane promises, with an oracle outside of what is tested.
//!
//! They are called through one program, `proof`, whose first argument names one of them. The crash
//! test (`proof crash`): a child process serves a store through pipes and is killed again and again;
//! the parent makes every call and writes down, in a file of its own, what it asked for and what it
//! was answered.
//!
//! - [`history`] that file: intents before the store can have acted on them, answers once read
//! - [`content`] what the store holds in the end, with each task's own trail
//! - [`checker`] compares the two: Jepsen's total-queue check, with leases and idempotency keys
//! - [`place`] where the store is: in files, or in a database that several children share
//! - [`child`] the process that is killed; [`parent`] the one that kills, restarts and looks
//! - [`report`] the figures of a run
//!
//! The checker knows nothing of SQLite, of processes or of time: it is given two lists.
//!
//! The faults test (`proof faults`): [`faults`] has the disk of the embedded store fail, fill up, and
//! change what was written. Churn (`proof churn`): tasks come and go on PostgreSQL beside an open
//! snapshot.
//!
//! The overload test (`proof overload`): [`http`] presses a real server with ten times what it can
//! take, while workers go on beside.
//!
//! Fuzzing (`proof fuzz`): [`fuzz`] makes inputs that nobody would send, and checks what becomes of
//! each.
//!
//! Further parts of the crash test, each against a real server: [`zombie`] stops workers past their
//! lease and lets them go on; [`idempotency`] submits the same task many times at once while the
//! server is killed. The soak test (`proof soak`): [`soak`] has tasks come and go for a long time,
//! and measures whether anything grows. [`options`], [`terminal`] and [`exit`] are what they share;
//! [`still`] tells whether this machine was the one that was late.
//!
//! The network test (`proof net`): [`net`] puts servers, store and clients in network namespaces and
//! cuts the links between them.
//!
//! Whether the ordinary tests would notice anything (`proof bite`): [`bite`] puts bugs into a copy of
//! the workspace.

pub mod bite;
pub mod checker;
pub mod child;
pub mod content;
pub mod exit;
pub mod faults;
pub mod fuzz;
pub mod history;
pub mod http;
pub mod idempotency;
pub mod net;
pub mod options;
pub mod parent;
mod perform;
pub mod place;
mod process;
pub mod report;
pub mod soak;
pub mod still;
pub mod terminal;
pub mod zombie;

/// Why a run could not go on; a violation of a promise is not a failure but a result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
