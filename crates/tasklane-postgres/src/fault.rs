//! What can go wrong inside a transaction, and what the caller is told.

use tasklane_core::lifecycle::Illegal;
use tasklane_store::StoreError;
use tasklane_store::codec::Damaged;
use tokio_postgres::error::SqlState;

/// Ends the transaction it happens in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A statement failed: nothing was written.
    #[error("{}", told(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// The commit was sent and not answered: it may have happened (S2).
    #[error("the commit was not answered: {}", told(.0))]
    Commit(tokio_postgres::Error),
    /// There is no connection to be had.
    #[error("{0}")]
    NoConnection(String),
    /// Another transaction was faster; to be tried again on what it left.
    #[error("another transaction was faster")]
    Overtaken,
    #[error("{0}")]
    Corrupt(String),
    #[error(transparent)]
    Damaged(#[from] Damaged),
    #[error(transparent)]
    Illegal(#[from] Illegal),
    #[error(transparent)]
    Refused(#[from] StoreError),
}

/// The database's own words, where they are the database's. Never a password: errors hold none.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}

impl Fault {
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) | Self::Commit(error) => error.code(),
            _ => None,
        }
    }

    /// The connection broke, or the server at its other end was stopped, before the commit: nothing
    /// was written.
    pub(crate) fn is_lost_connection(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        let broken =
            std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
        let stopped = [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN];
        error.is_closed() || broken || error.code().is_some_and(|code| stopped.contains(&code))
    }

    /// The same call may succeed at once: nothing of it was written.
    pub(crate) fn may_pass(&self) -> bool {
        if matches!(self, Self::Overtaken) || self.is_lost_connection() {
            return true;
        }
        let passing = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::LOCK_NOT_AVAILABLE,
            &SqlState::UNIQUE_VIOLATION,
        ];
        self.code().is_some_and(|code| passing.contains(&code))
    }

    /// What a caller is told.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let text = self.to_string();
        match self {
            // A commit that the database refused in words did not happen.
            Self::Commit(error) if error.as_db_error().is_none() => {
                StoreError::OutcomeUnknown(text)
            }
            Self::Postgres(_) | Self::Commit(_) => match self.code() {
                Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(text),
                Some(code)
                    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED =>
                {
                    StoreError::Corrupt(text)
                }
                _ => StoreError::Unavailable(text),
            },
            Self::NoConnection(_) | Self::Overtaken => StoreError::Unavailable(text),
            Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => StoreError::Corrupt(text),
            Self::Refused(error) => error.clone(),
        }
    }
}
