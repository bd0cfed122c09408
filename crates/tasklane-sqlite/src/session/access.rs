//! API keys and the audit log: rare calls, so that nothing of them is kept in memory.

use rusqlite::{OptionalExtension, params};
use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, ChainHash, NewApiKey, Timestamp, limits,
};
use tasklane_store::{ApiKeyRefusal, Prune, Pruned, codec};

use super::Session;
use crate::fault::Fault;
use crate::rows;

/// Records removed in one slice.
const ROWS_MAX: usize = 1_000;

impl Session<'_> {
    pub(crate) fn add_api_key(
        &mut self,
        key: NewApiKey,
    ) -> Result<Result<ApiKey, ApiKeyRefusal>, Fault> {
        let count = "SELECT count(*) FROM api_key";
        let count: u64 = self.connection.query_row(count, [], |row| row.get(0))?;
        if count >= limits::API_KEYS_MAX as u64 {
            return Ok(Err(ApiKeyRefusal::TooMany));
        }
        if self.api_key(key.id)?.is_some() {
            return Ok(Err(ApiKeyRefusal::Exists));
        }
        let key = match key.made(self.now) {
            Ok(key) => key,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        self.write_api_key(&key)?;
        Ok(Ok(key))
    }

    pub(crate) fn revoke_api_key(&mut self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        let Some(mut key) = self.api_key(id)? else { return Ok(None) };
        if key.revoked_at.is_none() {
            key.revoked_at = Some(self.now);
            self.write_api_key(&key)?;
        }
        Ok(Some(key))
    }

    fn api_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        let mut statement =
            self.connection.prepare_cached("SELECT record FROM api_key WHERE id = ?")?;
        let mut found = statement.query([id.as_bytes()])?;
        let Some(row) = found.next()? else { return Ok(None) };
        Ok(Some(codec::decode_api_key(rows::blob(row, 0)?)?))
    }

    fn write_api_key(&self, key: &ApiKey) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO api_key(id, ends_at, record) VALUES (?, ?, ?)";
        let ends_at = key.ends_at().map(Timestamp::as_micros);
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.execute(params![key.id.as_bytes(), ends_at, codec::encode_api_key(key)])?;
        Ok(())
    }

    pub(crate) fn append_audit(
        &mut self,
        entries: Vec<AuditEntry>,
    ) -> Result<Vec<AuditRecord>, Fault> {
        let mut last = self.last_audit()?;
        let sql = "INSERT INTO audit(number, at, record) VALUES (?, ?, ?)";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            let record = AuditRecord::after(last, self.now, entry);
            let (number, at) = (record.number, record.at.as_micros());
            statement.execute(params![number, at, codec::encode_audit(&record)])?;
            last = Some(record.link());
            records.push(record);
        }
        Ok(records)
    }

    /// What the next record follows.
    fn last_audit(&self) -> Result<Option<(u64, ChainHash)>, Fault> {
        let sql = "SELECT record FROM audit ORDER BY number DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let bytes: Option<Vec<u8>> = statement.query_row([], |row| row.get(0)).optional()?;
        let record = bytes.map(|bytes| codec::decode_audit(&bytes)).transpose()?;
        Ok(record.map(|record| record.link()))
    }

    pub(super) fn prune_api_keys(
        &mut self,
        prune: &Prune,
        pruned: &mut Pruned,
    ) -> Result<(), Fault> {
        let over = self.now.minus(prune.api_keys_for).as_micros();
        // One always stays: a store that had keys must not be taken for one that needs none.
        let mut statement = self.connection.prepare_cached(
            "DELETE FROM api_key WHERE ends_at <= ?1
             AND (EXISTS (SELECT 1 FROM api_key WHERE ends_at IS NULL OR ends_at > ?1)
                  OR id <> (SELECT max(id) FROM api_key))",
        )?;
        pruned.api_keys += statement.execute([over])? as u64;
        Ok(())
    }

    /// From the old end on, as long as each record is too old or too many. The newest stays: the
    /// next one follows it.
    pub(super) fn prune_audit(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let Some((newest, _)) = self.last_audit()? else { return Ok(()) };
        let over = self.now.minus(prune.audit_for).as_micros();
        let surplus = newest.saturating_sub(prune.audit_max);
        let mut statement = self.connection.prepare_cached(
            "SELECT number, at <= ?1 OR number <= ?2 FROM audit WHERE number < ?3
             ORDER BY number LIMIT ?4",
        )?;
        let mut found = statement.query(params![over, surplus, newest, ROWS_MAX])?;
        let mut last = None;
        while let Some(row) = found.next()? {
            if !row.get::<_, bool>(1)? {
                break;
            }
            last = Some(row.get::<_, u64>(0)?);
        }
        let Some(last) = last else { return Ok(()) };
        let mut statement =
            self.connection.prepare_cached("DELETE FROM audit WHERE number <= ?")?;
        let removed = statement.execute([last])?;
        pruned.audit_records += removed as u64;
        pruned.more |= removed >= ROWS_MAX;
        Ok(())
    }
}
