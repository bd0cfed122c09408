//! Its keys and its audit log.

use std::collections::btree_map::Entry;

use tasklane_core::{ApiKey, ApiKeyId, AuditEntry, AuditRecord, NewApiKey, limits};

use super::memory::{Memory, Now};
use crate::error::ApiKeyRefusal;
use crate::query::AuditFrom;

impl Memory {
    pub(super) fn add_api_key(
        &mut self,
        key: NewApiKey,
        now: Now,
    ) -> Result<ApiKey, ApiKeyRefusal> {
        if self.api_keys.len() >= limits::API_KEYS_MAX {
            return Err(ApiKeyRefusal::TooMany);
        }
        let Entry::Vacant(place) = self.api_keys.entry(key.id) else {
            return Err(ApiKeyRefusal::Exists);
        };
        Ok(place.insert(key.made(now.wall)?).clone())
    }

    pub(super) fn revoke_api_key(&mut self, id: ApiKeyId, now: Now) -> Option<ApiKey> {
        let key = self.api_keys.get_mut(&id)?;
        key.revoked_at.get_or_insert(now.wall);
        Some(key.clone())
    }

    pub(super) fn append_audit(&mut self, entries: Vec<AuditEntry>, now: Now) -> Vec<AuditRecord> {
        let before = self.audit.len();
        for entry in entries {
            let last = self.audit.last().map(AuditRecord::link);
            self.audit.push(AuditRecord::after(last, now.wall, entry));
        }
        self.audit[before..].to_vec()
    }

    pub(super) fn audit(&self, from: AuditFrom, limit: usize) -> Vec<AuditRecord> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        let back = |before: u64| {
            let wanted = self.audit.iter().rev().filter(move |record| record.number < before);
            wanted.take(limit).cloned().collect()
        };
        match from {
            AuditFrom::After(after) => {
                let wanted = self.audit.iter().filter(|record| record.number > after);
                wanted.take(limit).cloned().collect()
            }
            AuditFrom::Before(before) => back(before),
            AuditFrom::Newest => back(u64::MAX),
        }
    }
}
