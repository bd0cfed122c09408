//! API keys and the audit log.

use tasklane_core::{ApiKey, ApiKeyId, AuditEntry, AuditRecord, ChainHash, NewApiKey, limits};
use tasklane_store::{ApiKeyRefusal, Prune, Pruned, codec};

use super::Session;
use super::prune::ROWS_MAX;
use crate::fault::Fault;
use crate::keys::Key;
use crate::read::Read;
use crate::value;

impl Session<'_> {
    pub(crate) fn add_api_key(
        &mut self,
        key: &NewApiKey,
    ) -> Result<Result<ApiKey, ApiKeyRefusal>, Fault> {
        let count = value::integer(self.plain(Read::plain("HLEN", Key::ApiKeys, [])))?;
        if count + self.writes.set_count(&Key::ApiKeys) >= limits::API_KEYS_MAX as i64 {
            return Ok(Err(ApiKeyRefusal::TooMany));
        }
        if self.api_key(key.id)?.is_some() {
            return Ok(Err(ApiKeyRefusal::Exists));
        }
        let key = match key.clone().made(self.now) {
            Ok(key) => key,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        self.write_api_key(&key);
        Ok(Ok(key))
    }

    pub(crate) fn revoke_api_key(&mut self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        let Some(mut key) = self.api_key(id)? else { return Ok(None) };
        if key.revoked_at.is_none() {
            key.revoked_at = Some(self.now);
            self.write_api_key(&key);
        }
        Ok(Some(key))
    }

    fn api_key(&mut self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        let packed = self.field(&Key::ApiKeys, id.as_bytes());
        Ok(packed.map(|packed| codec::decode_api_key(&packed)).transpose()?)
    }

    fn write_api_key(&mut self, key: &ApiKey) {
        self.writes.set(Key::ApiKeys, *key.id.as_bytes(), codec::encode_api_key(key));
    }

    pub(crate) fn append_audit(
        &mut self,
        entries: &[AuditEntry],
    ) -> Result<Vec<AuditRecord>, Fault> {
        let mut last = match self.audited {
            Some(last) => Some(last),
            None => self.last_audit()?,
        };
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            let record = AuditRecord::after(last, self.now, entry.clone());
            self.writes.entry(Key::Audit, record.number, codec::encode_audit(&record));
            last = Some(record.link());
            records.push(record);
        }
        self.audited = last;
        Ok(records)
    }

    /// What the next record follows, before anything this group appends.
    fn last_audit(&mut self) -> Result<Option<(u64, ChainHash)>, Fault> {
        let read = Read::plain("XREVRANGE", Key::Audit, ["+", "-", "COUNT", "1"]);
        let newest = value::entries(self.plain(read))?.into_iter().next();
        let record = newest.map(|bytes| codec::decode_audit(&bytes)).transpose()?;
        Ok(record.map(|record| record.link()))
    }

    /// One always stays: a store that had keys must not be taken for one that needs none.
    pub(super) fn prune_api_keys(
        &mut self,
        prune: &Prune,
        pruned: &mut Pruned,
    ) -> Result<(), Fault> {
        let over = self.now.minus(prune.api_keys_for);
        let packed = value::pairs(self.plain(Read::plain("HGETALL", Key::ApiKeys, [])))?;
        let mut keys = Vec::with_capacity(packed.len());
        for (_, packed) in packed {
            keys.push(codec::decode_api_key(&packed)?);
        }
        let stays = |key: &ApiKey| key.ends_at().is_none_or(|ended| ended > over);
        let none_stays = !keys.iter().any(stays);
        let last = keys.iter().map(|key| key.id).max().filter(|_| none_stays);
        for key in keys.iter().filter(|key| !stays(key) && Some(key.id) != last) {
            self.writes.unset(Key::ApiKeys, *key.id.as_bytes());
            pruned.api_keys += 1;
        }
        Ok(())
    }

    /// From the old end on, as long as each record is too old or too many. The newest stays: the
    /// next one follows it.
    pub(super) fn prune_audit(&mut self, prune: &Prune, pruned: &mut Pruned) -> Result<(), Fault> {
        let Some((newest, _)) = self.last_audit()? else { return Ok(()) };
        let over = self.now.minus(prune.audit_for);
        let surplus = newest.saturating_sub(prune.audit_max);
        let count = ROWS_MAX.to_string();
        let read = Read::plain("XRANGE", Key::Audit, ["-", "+", "COUNT", &count]);
        let mut removed = 0;
        let mut last = None;
        for packed in value::entries(self.plain(read))? {
            let record = codec::decode_audit(&packed)?;
            let goes = record.at <= over || record.number <= surplus;
            if record.number >= newest || !goes {
                break;
            }
            last = Some(record.number);
            removed += 1;
        }
        if let Some(last) = last {
            self.writes.trim(Key::Audit, last + 1);
            pruned.audit_records += removed;
            pruned.more |= removed as usize >= ROWS_MAX;
        }
        Ok(())
    }
}
