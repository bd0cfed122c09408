//! Whether may be written to the server at the other end, and whether it is still the right one.

use std::sync::{Arc, MutexGuard, PoisonError};

use tasklane_store::StoreError;
use tokio::sync::Notify;

use crate::condition::{self, Condition};
use crate::fault::Fault;
use crate::line::Open;
use crate::link::Link;
use crate::wait::Wait;

/// A connection on which may be written, and what the answer waits for.
pub(crate) struct Ready {
    pub(super) open: Open,
    pub(super) wait: Wait,
}

impl Link {
    /// Looks at the server's settings and its role, and remembers what it found.
    pub(crate) async fn look(&self) -> Result<(), Fault> {
        let number = self.writing.open().await?.number;
        let condition = condition::look(self, self.mode, self.replicas).await?;
        let mut looked = self.looked();
        // Somebody has looked at a later connection meanwhile.
        if looked.0 > number {
            return Ok(());
        }
        news(&looked.1, &condition).for_each(|warning| tracing::warn!("{warning}"));
        if condition.is_replica {
            let why = StoreError::Unavailable(condition.refused.clone().unwrap_or_default());
            let lines = [&self.writing, &self.reading, &self.watching];
            lines.iter().for_each(|line| line.leave(why.clone()));
        } else if looked.0 != number {
            // The others may still lead to where this one did.
            [&self.reading, &self.watching].iter().for_each(|line| line.renew());
        }
        *looked = (number, condition);
        Ok(())
    }

    /// Why nothing may be written, as of the last look.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.looked().1.refused.clone()
    }

    /// Whether an answer to a write waits for anything, or may not be given, as of the last look; or
    /// nobody has looked at this connection yet.
    pub(crate) fn waits(&self) -> bool {
        let looked = self.looked();
        let Condition { wait, refused, .. } = &looked.1;
        *wait != Wait::Nothing || refused.is_some() || self.writing.number() != Some(looked.0)
    }

    /// A connection on which may be written; an error where none may be made.
    pub(crate) async fn ready(&self) -> Result<Ready, Fault> {
        loop {
            let open = self.writing.open().await?;
            let wait = {
                let looked = self.looked();
                (looked.0 == open.number).then_some(looked.1.wait)
            };
            if wait.is_none() {
                self.look().await?;
            }
            if let Some(text) = self.refusal() {
                return Err(StoreError::Unavailable(text).into());
            }
            if let Some(wait) = wait {
                return Ok(Ready { open, wait });
            }
        }
    }

    /// Leaves a server that most of the sentinels or nodes do not name any more. An old primary that is
    /// cut off from them, and not from here, still takes itself for one, and what it takes will be lost.
    pub(crate) async fn leave_if_replaced(&self) {
        let Some(place) = self.writing.agreed().await else { return };
        let lines = [&self.writing, &self.reading, &self.watching];
        let left = lines.iter().filter(|line| line.leave_unless_at(&place)).count();
        if left > 0 {
            let (host, port) = place;
            tracing::warn!(host, port, "another Redis server is the primary now: this one is left");
        }
    }

    /// What is told when it should be looked at once more, and soon.
    pub(crate) fn doubt(&self) -> Arc<Notify> {
        Arc::clone(&self.doubt)
    }

    fn looked(&self) -> MutexGuard<'_, (u64, Condition)> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Warnings that were not given before.
fn news<'c>(before: &'c Condition, now: &'c Condition) -> impl Iterator<Item = &'c String> {
    now.warnings.iter().filter(|warning| !before.warnings.contains(*warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_given_when_it_becomes_so_and_not_again() {
        let with = |warnings: &[&str]| Condition {
            warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
            ..Condition::default()
        };
        let given = |before: &[&str], now: &[&str]| -> Vec<String> {
            news(&with(before), &with(now)).cloned().collect()
        };
        assert_eq!(given(&[], &["a"]), ["a"]);
        assert_eq!(given(&["a"], &["a", "b"]), ["b"]);
        assert!(given(&["a", "b"], &["b"]).is_empty());
    }
}
