//! Why the engine could not do it, by what the caller can do about it.

use tasklane_core::{Invalid, Refusal};
use tasklane_store::{StoreError, SubmitRefusal, WorkerRefusal};

/// Why a verb was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The submission is refused.
    #[error(transparent)]
    Submit(#[from] SubmitRefusal),
    /// The worker is not known.
    #[error(transparent)]
    Worker(#[from] WorkerRefusal),
    /// The command is refused.
    #[error(transparent)]
    Task(#[from] Refusal),
    /// A value is not acceptable.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// What is configured is wrong: a line for each fault.
    #[error("the configuration is wrong: {}", .0.join("; "))]
    Configuration(Vec<String>),
    /// Nobody here reads a configuration.
    #[error("this server reads no configuration")]
    NoConfiguration,
    /// There is nothing by that name.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// Another key registered the worker.
    #[error("the worker answers to the key that registered it alone")]
    NotOwned,
}
