//! API keys and the audit log: rare calls.

use tasklane_core::{ApiKey, ApiKeyId, AuditEntry, AuditRecord, NewApiKey, Timestamp, limits};
use tasklane_store::{ApiKeyRefusal, codec};
use tokio_postgres::types::Type;

use super::Session;
use crate::fault::Fault;

/// One at a time: what they are measured against is more than a row.
const LOCK_KEYS: &str =
    "SELECT pg_advisory_xact_lock(hashtext('tasklane keys'), hashtext(current_schema()))";
const LOCK_AUDIT: &str =
    "SELECT pg_advisory_xact_lock(hashtext('tasklane audit'), hashtext(current_schema()))";

impl Session<'_> {
    pub(crate) async fn add_api_key(
        &mut self,
        key: &NewApiKey,
    ) -> Result<Result<ApiKey, ApiKeyRefusal>, Fault> {
        self.lock_api_keys().await?;
        let count = self.transaction.one("SELECT count(*) FROM api_key", &[]).await?;
        if count.get::<_, i64>(0) >= limits::API_KEYS_MAX as i64 {
            return Ok(Err(ApiKeyRefusal::TooMany));
        }
        if self.api_key(key.id).await?.is_some() {
            return Ok(Err(ApiKeyRefusal::Exists));
        }
        let key = match key.clone().made(self.now) {
            Ok(key) => key,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        self.write_api_key(&key).await?;
        Ok(Ok(key))
    }

    pub(crate) async fn revoke_api_key(&mut self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        self.lock_api_keys().await?;
        let Some(mut key) = self.api_key(id).await? else { return Ok(None) };
        if key.revoked_at.is_none() {
            key.revoked_at = Some(self.now);
            self.write_api_key(&key).await?;
        }
        Ok(Some(key))
    }

    pub(super) async fn lock_api_keys(&self) -> Result<(), Fault> {
        self.transaction.query(LOCK_KEYS, &[]).await.map(|_| ())
    }

    async fn api_key(&self, id: ApiKeyId) -> Result<Option<ApiKey>, Fault> {
        let id = id.as_bytes().as_slice();
        let sql = "SELECT record FROM api_key WHERE id = $1";
        let found = self.transaction.query(sql, &[(&id, Type::BYTEA)]).await?;
        Ok(found.first().map(|row| codec::decode_api_key(row.get(0))).transpose()?)
    }

    async fn write_api_key(&self, key: &ApiKey) -> Result<(), Fault> {
        let sql = "INSERT INTO api_key(id, ends_at, record) VALUES ($1, $2, $3)
                   ON CONFLICT (id) DO UPDATE SET ends_at = excluded.ends_at,
                       record = excluded.record";
        let (id, ends_at) = (key.id.as_bytes().as_slice(), key.ends_at().map(Timestamp::as_micros));
        let record = codec::encode_api_key(key);
        let parameters =
            [(&id as _, Type::BYTEA), (&ends_at as _, Type::INT8), (&record as _, Type::BYTEA)];
        self.transaction.execute(sql, &parameters).await?;
        Ok(())
    }

    pub(crate) async fn append_audit(
        &mut self,
        entries: &[AuditEntry],
    ) -> Result<Vec<AuditRecord>, Fault> {
        self.lock_audit().await?;
        let sql = "SELECT record FROM audit ORDER BY number DESC LIMIT 1";
        let found = self.transaction.query(sql, &[]).await?;
        let last = found.first().map(|row| codec::decode_audit(row.get(0))).transpose()?;
        let mut link = last.as_ref().map(AuditRecord::link);
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            let record = AuditRecord::after(link, self.now, entry.clone());
            link = Some(record.link());
            records.push(record);
        }
        let numbers: Vec<i64> = records.iter().map(|record| record.number as i64).collect();
        let packed: Vec<Vec<u8>> = records.iter().map(codec::encode_audit).collect();
        let now = self.now.as_micros();
        let sql = "INSERT INTO audit(number, at, record)
                   SELECT number, $3, record FROM unnest($1, $2) AS new(number, record)";
        let parameters = [
            (&numbers as _, Type::INT8_ARRAY),
            (&packed as _, Type::BYTEA_ARRAY),
            (&now as _, Type::INT8),
        ];
        self.transaction.execute(sql, &parameters).await?;
        Ok(records)
    }

    pub(super) async fn lock_audit(&self) -> Result<(), Fault> {
        self.transaction.query(LOCK_AUDIT, &[]).await.map(|_| ())
    }
}
