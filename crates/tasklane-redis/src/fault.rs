//! What stops a call.

use redis::RedisError;
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

/// A command that changes nothing failed.
pub(crate) fn refused(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}

/// A write failed. Where Redis refused it before it began, nothing was written; where no answer
/// came, nobody knows; where it stopped half way, the store contradicts itself.
pub(crate) fn unwritten(error: &RedisError) -> StoreError {
    let text = format!("Redis: {error}");
    match error.code() {
        Some("OOM") => StoreError::Full(text),
        Some(
            "READONLY" | "MISCONF" | "NOREPLICAS" | "LOADING" | "BUSY" | "CLUSTERDOWN" | "TRYAGAIN"
            | "MASTERDOWN" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "MOVED" | "ASK" | "NOSCRIPT"
            // What our script itself says before it writes anything.
            | "TASKLANE",
        ) => StoreError::Unavailable(text),
        Some(_) => StoreError::Corrupt(format!("a write stopped half way: {text}")),
        None if error.is_connection_refusal() => StoreError::Unavailable(text),
        None => StoreError::OutcomeUnknown(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> StoreError {
        let answer = redis::parse_redis_value(text.as_bytes()).unwrap();
        unwritten(&answer.extract_error().unwrap_err())
    }

    #[test]
    fn what_was_refused_before_it_began_was_not_written() {
        for text in ["-TASKLANE ERR no right\r\n", "-NOREPLICAS too few\r\n", "-BUSY other\r\n"] {
            assert!(matches!(said(text), StoreError::Unavailable(_)), "{text}");
        }
        assert!(matches!(said("-OOM no memory\r\n"), StoreError::Full(_)));
    }

    #[test]
    fn what_failed_otherwise_stopped_half_way() {
        for text in ["-WRONGTYPE no hash\r\n", "-ERR no such command\r\n"] {
            assert!(matches!(said(text), StoreError::Corrupt(_)), "{text}");
        }
    }
}
