//! Operators' calls on keys and the audit log.

use super::client::Client;
use super::error::Error;
use super::request::{Call, part};
use crate::wire::{AuditPage, Key, KeyPage, MadeKey, NewKey};

/// Which records of the audit log to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListAudit {
    /// From the oldest record on, to follow the chain.
    pub oldest_first: bool,
    /// How many at most: up to 1,000; 50 if absent.
    pub limit: Option<u32>,
    /// Go on after an earlier page: its `next_cursor`.
    pub cursor: Option<Box<str>>,
}

impl Client {
    /// Lists keys, by id.
    pub async fn list_keys(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<KeyPage, Error> {
        let call = Call::get("/admin/keys");
        self.ask(call.with_some("limit", limit).with_some("cursor", cursor)).await
    }

    /// Makes a key. Its secret is in this answer and nowhere else.
    pub async fn create_key(&self, key: &NewKey) -> Result<MadeKey, Error> {
        self.ask(Call::post("/admin/keys").json(key)?).await
    }

    /// Revokes a key, by its visible beginning.
    pub async fn revoke_key(&self, id: &str) -> Result<Key, Error> {
        self.ask(Call::delete(format!("/admin/keys/{}", part(id))).safe()).await
    }

    /// Lists what operators did and who was refused.
    pub async fn list_audit(&self, list: &ListAudit) -> Result<AuditPage, Error> {
        let call = Call::get("/admin/audit")
            .with_flag("oldest_first", list.oldest_first)
            .with_some("limit", list.limit)
            .with_some("cursor", list.cursor.as_ref());
        self.ask(call).await
    }
}
