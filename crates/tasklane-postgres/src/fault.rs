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

/// What a pooler says whose server has gone: it knows no more than who waits for an answer.
fn is_of_the_way(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("08"))
}

/// The database itself said so, of what it did not do.
pub(crate) fn is_own_word(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some() && !is_of_the_way(error)
}

impl Fault {
    /// What the database said of a statement, or of a commit that it refused. A session that it
    /// ended meanwhile says nothing of a commit, and neither does a pooler.
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            Self::Commit(error) => {
                let refused = error.as_db_error().filter(|_| is_own_word(error))?;
                (refused.parsed_severity() == Some(Severity::Error)).then(|| refused.code())
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
        error.is_closed() || broken || is_of_the_way(error) || self.is(&stopped)
    }

    /// A lock that somebody else kept for longer than this call waits.
    pub(crate) fn is_lock(&self) -> bool {
        self.is(&[&SqlState::LOCK_NOT_AVAILABLE])
    }

    /// A type is not the one that was known when the store was opened: the tables were made anew since, by
    /// a restore perhaps, and nothing that is remembered of them counts.
    pub(crate) fn is_strange_type(&self) -> bool {
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

    /// It says something of the database, not only of what a call was about or came upon.
    pub(crate) fn is_trouble(&self) -> bool {
        match self.to_store_error() {
            // What is damaged is told to those who ask for it (S18).
            StoreError::Corrupt(_) => false,
            _ if matches!(self, Self::Refused(_)) => false,
            _ => self.is_lost_connection() || !self.may_pass(),
        }
    }

    /// A look may be tried again.
    pub(crate) fn may_look_again(&self) -> bool {
        matches!(self, Self::Overtaken) || self.is_lost_connection()
    }

    /// One unit may be at fault, and the others of its call carried out without it: nothing was
    /// written. Not so where there is no database, or no room in it.
    pub(crate) fn may_be_of_one_unit(&self) -> bool {
        // By classes: data, integrity, rolled back, out of a limit, object in use, damage that the
        // database came upon.
        let classes = ["22", "23", "40", "54", "55", "XX"];
        match self {
            Self::Overtaken | Self::Corrupt(_) | Self::Damaged(_) | Self::Illegal(_) => true,
            Self::Postgres(_) if self.is_strange_type() => false,
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use tokio_postgres::NoTls;

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    /// Lets somebody in, and says one thing to whatever is asked.
    fn answer(mut client: TcpStream, says: &[u8]) {
        let ready = message(b'Z', b"I");
        let mut asked = [0; 1024];
        let hello = [message(b'R', &[0; 4]), ready.clone()].concat();
        for answer in [hello, [says, &ready].concat()] {
            if client.read(&mut asked).is_ok_and(|count| count > 0) {
                client.write_all(&answer).unwrap();
            }
        }
    }

    /// The error that a client has when it is told this by whatever is at the other end.
    async fn said(severity: &str, code: &str, words: &str) -> tokio_postgres::Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fields = format!("S{severity}\0V{severity}\0C{code}\0M{words}\0\0");
        let says = message(b'E', fields.as_bytes());
        let other_end = std::thread::spawn(move || answer(listener.accept().unwrap().0, &says));
        let address = format!("postgres://me@127.0.0.1:{port}/tasks");
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let error = client.batch_execute("COMMIT").await.unwrap_err();
        drop(client);
        let _ = connection.await;
        other_end.join().unwrap();
        error
    }

    #[tokio::test]
    async fn what_a_pooler_says_of_a_lost_server_leaves_a_commit_open() {
        let words = "server closed the connection unexpectedly";
        for code in ["08P01", "08006"] {
            for severity in ["ERROR", "FATAL"] {
                let fault = Fault::Postgres(said(severity, code, words).await);
                assert!(fault.is_lost_connection() && fault.may_pass(), "{fault}");
                let error = said(severity, code, words).await;
                assert!(!is_own_word(&error), "it may have been carried out: {error}");
                let fault = Fault::Commit(error);
                assert!(matches!(fault.to_store_error(), StoreError::OutcomeUnknown(_)), "{fault}");
                assert!(!fault.may_pass() && !fault.may_be_of_one_unit(), "{fault}");
            }
        }
    }

    #[tokio::test]
    async fn a_commit_that_the_database_refused_did_not_happen() {
        let refused = Fault::Commit(said("ERROR", "53100", "no space left on device").await);
        assert!(matches!(refused.to_store_error(), StoreError::Full(_)), "{refused}");
        assert!(refused.is_trouble(), "{refused}");
        let ended = Fault::Commit(said("FATAL", "57P01", "terminating connection").await);
        assert!(matches!(ended.to_store_error(), StoreError::OutcomeUnknown(_)), "{ended}");
    }

    #[tokio::test]
    async fn damage_may_be_of_one_unit_and_is_no_trouble_of_all() {
        let damaged = Fault::Postgres(said("ERROR", "XX001", "missing chunk number 0").await);
        assert!(damaged.may_be_of_one_unit() && !damaged.is_trouble(), "{damaged}");
        let words = "unexpected chunk number 1 (expected 0) for toast value 7";
        let damaged = Fault::Postgres(said("ERROR", "XX000", words).await);
        assert!(damaged.may_be_of_one_unit(), "{damaged}");
        let words = "cache lookup failed for type 70000";
        let replaced = Fault::Postgres(said("ERROR", "XX000", words).await);
        assert!(!replaced.may_be_of_one_unit() && replaced.is_trouble(), "{replaced}");
    }
}
