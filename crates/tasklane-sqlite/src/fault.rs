//! What can go wrong inside a transaction, and what the caller is told.

use rusqlite::ErrorCode;
use tasklane_core::lifecycle::Illegal;
use tasklane_store::StoreError;
use tasklane_store::codec::Damaged;

/// Ends the transaction it happens in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The commit itself failed: its frames may be in the log all the same (S2).
    #[error("the commit failed: {0}")]
    Commit(rusqlite::Error),
    #[error("{0}")]
    Corrupt(String),
    #[error(transparent)]
    Damaged(#[from] Damaged),
    #[error(transparent)]
    Illegal(#[from] Illegal),
    #[error(transparent)]
    Refused(#[from] StoreError),
}

impl Fault {
    /// The disk, or the file, can no longer be trusted: nothing more may be written through it.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::SystemIoFailure
                        | ErrorCode::DatabaseCorrupt
                        | ErrorCode::NotADatabase
                        | ErrorCode::CannotOpen
                        | ErrorCode::ReadOnly
                )
            ),
            Self::Commit(error) => error.sqlite_error_code() != Some(ErrorCode::DiskFull),
            Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => true,
            Self::Refused(_) => false,
        }
    }

    /// A thread could not be started.
    pub(crate) fn no_thread(error: std::io::Error) -> Self {
        Self::Refused(StoreError::Unavailable(format!("no thread: {error}")))
    }

    /// What a caller is told.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let text = self.to_string();
        match self {
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full(text),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    StoreError::Corrupt(text)
                }
                _ => StoreError::Unavailable(text),
            },
            Self::Commit(error) => match error.sqlite_error_code() {
                // Without room for the commit record there is no commit.
                Some(ErrorCode::DiskFull) => StoreError::Full(text),
                _ => StoreError::OutcomeUnknown(text),
            },
            Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => StoreError::Corrupt(text),
            Self::Refused(error) => error.clone(),
        }
    }
}
