//! What a worker process tells its parent, a line at a time.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// One line. `began` is a moment of the machine's clock, which parent and worker share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// It has a task, under this id of its own.
    Claimed { task: String, fence: u64, worker: String },
    /// It called the server.
    Called { kind: Kind, began: u64, status: u16, word: String },
    /// It wrote to the sink.
    Wrote { began: u64, taken: bool },
    /// It is through with its task.
    Done,
    /// There was no task for a long time.
    Nothing,
}

/// A call that must present a lease token. Those with `Again` are made under a new worker id, with
/// the token of the old one: a dead worker's id alone must not be what protects a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Renew,
    Progress,
    Settle,
    SettleMany,
    RenewAgain,
    ProgressAgain,
    StartAgain,
    SettleAgain,
    SettleManyAgain,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Renew,
        Self::Progress,
        Self::Settle,
        Self::SettleMany,
        Self::RenewAgain,
        Self::ProgressAgain,
        Self::StartAgain,
        Self::SettleAgain,
        Self::SettleManyAgain,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Renew => "renew",
            Self::Progress => "progress",
            Self::Settle => "settle",
            Self::SettleMany => "settle-many",
            Self::RenewAgain => "renew-again",
            Self::ProgressAgain => "progress-again",
            Self::StartAgain => "start-again",
            Self::SettleAgain => "settle-again",
            Self::SettleManyAgain => "settle-many-again",
        }
    }
}

impl Told {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        Some(match *words.as_slice() {
            ["claimed", task, fence, worker] => Self::Claimed {
                task: task.into(),
                fence: fence.parse().ok()?,
                worker: worker.into(),
            },
            ["called", kind, began, status, word] => Self::Called {
                kind: Kind::ALL.into_iter().find(|known| known.as_str() == kind)?,
                began: began.parse().ok()?,
                status: status.parse().ok()?,
                word: word.into(),
            },
            ["wrote", began, taken] => {
                Self::Wrote { began: began.parse().ok()?, taken: taken.parse().ok()? }
            }
            ["done"] => Self::Done,
            ["nothing"] => Self::Nothing,
            _ => return None,
        })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed { task, fence, worker } => write!(f, "claimed {task} {fence} {worker}"),
            Self::Called { kind, began, status, word } => {
                write!(f, "called {} {began} {status} {word}", kind.as_str())
            }
            Self::Wrote { began, taken } => write!(f, "wrote {began} {taken}"),
            Self::Done => f.write_str("done"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Now, in microseconds.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let mut lines = vec![
            Told::Claimed { task: "a".into(), fence: 1, worker: "b".into() },
            Told::Wrote { began: 2, taken: false },
            Told::Done,
            Told::Nothing,
        ];
        lines.extend(Kind::ALL.map(|kind| {
            let (status, word) = (409, "lease-lost".into());
            Told::Called { kind, began: 3, status, word }
        }));
        for line in lines {
            assert_eq!(Told::parse(&line.to_string()), Some(line));
        }
        assert_eq!(Told::parse("called settle soon 409 lease-lost"), None);
    }
}
