//! The audit log: what operators did, and who was not let in.

use std::sync::PoisonError;
use std::time::Instant;

use tasklane_core::{AuditEntry, AuditRecord};
use tasklane_store::AuditFrom;

use super::Engine;
use super::error::EngineError;
use super::refusal::Refusal;

impl Engine {
    /// Writes what somebody did. What was done stays done should this fail: the log says so.
    pub async fn record(&self, entry: AuditEntry) {
        let action = entry.action.clone();
        if let Err(error) = self.store.append_audit(vec![entry]).await {
            tracing::error!(%error, %action, "an action is missing from the audit log");
        }
    }

    /// Notes that somebody was refused; [`Self::record_refusals`] writes it.
    pub(crate) fn note_refusal(&self, refusal: Refusal) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.add(refusal, Instant::now());
    }

    /// Writes what was refused, folded; at the end all of it.
    pub async fn record_refusals(&self, end: bool) -> Result<(), EngineError> {
        let entries = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.take(Instant::now(), end)
        };
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.store.append_audit(entries.clone()).await;
        if written.is_err() {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.put_back(entries, Instant::now());
        }
        Ok(written.map(|_| ())?)
    }

    /// Records of the audit log.
    pub async fn audit(
        &self,
        from: AuditFrom,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, EngineError> {
        Ok(self.store.audit(from, limit).await?)
    }
}
