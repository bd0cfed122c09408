//! What can go wrong inside a transaction, and what the caller is told.

use tasklane_core::lifecycle::Illegal;
use tasklane_store::StoreError;
use tasklane_store::codec::Damaged;
use tokio_postgres::error::{Severity, SqlState};

/// Ends the transaction it happens in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A statement failed: nothing was written.
    #[error("{}", told(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// The commit was sent and not answered: it may have happened (S2).
    #[error("the commit was not answered: {}", told(.0))]
    Commit(tokio_postgres::Error),
    /// The commit was sent and not answered in time: it may have happened, or may yet (S2).
    #[error("the commit was not answered in time")]
    Unanswered,
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
    /// What the database said of a statement, or of a commit that it refused. A session that it
    /// ended meanwhile says nothing of a commit.
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            Self::Commit(error) => {
                let error = error.as_db_error()?;
                (error.parsed_severity() == Some(Severity::Error)).then(|| error.code())
            }
            _ => None,
        }
    }

    fn is(&self, codes: &[&SqlState]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// The connection broke, or the server at its other end was stopped or gave it up, before the
    /// commit: nothing was written.
    pub(crate) fn is_lost_connection(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        let broken =
            std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
        let stopped = [
            &SqlState::ADMIN_SHUTDOWN,
            &SqlState::CRASH_SHUTDOWN,
            &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        error.is_closed() || broken || self.is(&stopped)
    }

    /// A lock that somebody else kept for longer than this call waits.
    pub(crate) fn is_lock(&self) -> bool {
        self.is(&[&SqlState::LOCK_NOT_AVAILABLE])
    }

    /// A type is not the one that was known when the store was opened: the tables were made anew since, by
    /// a restore perhaps, and nothing that is remembered of them counts.
    fn is_strange_type(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        let Some(error) = error.as_db_error() else { return false };
        // Words for programmers, the same in every language.
        let unknown = error.message().starts_with("cache lookup failed for type");
        unknown && *error.code() == SqlState::INTERNAL_ERROR
            || *error.code() == SqlState::DATATYPE_MISMATCH
    }

    /// Its connection is of no use any more, though it works: what is there takes no writes.
    pub(crate) fn is_useless_connection(&self) -> bool {
        self.is(&[&SqlState::READ_ONLY_SQL_TRANSACTION])
    }

    /// The same call may succeed at once: nothing of it was written.
    pub(crate) fn may_pass(&self) -> bool {
        let passing = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::UNIQUE_VIOLATION,
        ];
        matches!(self, Self::Overtaken)
            || self.is_lost_connection()
            || self.is_lock()
            || self.is(&passing)
    }

    /// One unit may be at fault, and the others of its call carried out without it: nothing was
    /// written. Not so where there is no database, or no room in it.
    pub(crate) fn may_be_of_one_unit(&self) -> bool {
        // By classes: data, integrity, rolled back, out of a limit, object in use.
        let classes = ["22", "23", "40", "54", "55"];
        match self {
            Self::Overtaken | Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => true,
            Self::Postgres(_) | Self::Commit(_) => self.code().is_some_and(|code| {
                *code == SqlState::QUERY_CANCELED
                    || classes.iter().any(|class| code.code().starts_with(class))
            }),
            Self::Unanswered | Self::NoConnection(_) | Self::Refused(_) => false,
        }
    }

    /// What a caller is told.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let text = self.to_string();
        let crowded = [
            &SqlState::QUERY_CANCELED,
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::UNIQUE_VIOLATION,
        ];
        match self {
            Self::Unanswered => StoreError::OutcomeUnknown(text),
            // A commit that the database refused in words did not happen.
            Self::Commit(_) if self.code().is_none() => StoreError::OutcomeUnknown(text),
            Self::Postgres(_) if self.is_strange_type() => StoreError::Unavailable(format!(
                "the tables were made anew since this server was started: start it again ({text})"
            )),
            Self::Postgres(_) | Self::Commit(_) => match self.code() {
                Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(text),
                Some(code)
                    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED =>
                {
                    StoreError::Corrupt(text)
                }
                _ if self.is_lock() || self.is(&crowded) => StoreError::Overloaded(text),
                _ => StoreError::Unavailable(text),
            },
            Self::Overtaken => StoreError::Overloaded(text),
            Self::NoConnection(_) => StoreError::Unavailable(text),
            Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => StoreError::Corrupt(text),
            Self::Refused(error) => error.clone(),
        }
    }
}
