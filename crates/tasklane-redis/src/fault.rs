//! What stops a call.

use tasklane_core::lifecycle::Illegal;
use tasklane_store::StoreError;
use tasklane_store::codec::Damaged;

#[derive(Debug)]
pub(crate) enum Fault {
    /// What is stored contradicts itself.
    Corrupt(String),
    /// As the caller is told.
    Store(StoreError),
}

impl Fault {
    pub(crate) fn to_store_error(&self) -> StoreError {
        match self {
            Self::Corrupt(text) => StoreError::Corrupt(text.clone()),
            Self::Store(error) => error.clone(),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Damaged> for Fault {
    fn from(damaged: Damaged) -> Self {
        Self::Corrupt(format!("a record is damaged: {}", damaged.0))
    }
}

impl From<Illegal> for Fault {
    fn from(illegal: Illegal) -> Self {
        Self::Corrupt(illegal.to_string())
    }
}

/// Says of a task what is wrong with it.
pub(crate) fn corrupt(id: tasklane_core::TaskId, problem: &str) -> Fault {
    Fault::Corrupt(format!("task {id} is {problem}"))
}
