//! API keys and records of the audit log.

use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, ChainHash, Grants, Reach, Scope, SecretHash, Verb,
};

use super::primitive::{Damaged, Reader, Writer, one_of};
use super::settings::{read_names, write_names};

/// Packs a key.
pub fn encode_api_key(key: &ApiKey) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::new());
    w.bytes(key.id.as_bytes());
    w.bytes(key.hash.as_bytes());
    w.text(&key.name);
    w.number(key.grants.scopes().count() as u64);
    for Scope { verb, reach } in key.grants.scopes() {
        w.byte(verb as u8);
        write_names(&mut w, &reach.queues);
        write_names(&mut w, &reach.types);
    }
    w.time(key.created_at);
    w.option(key.expires_at, Writer::time);
    w.option(key.revoked_at, Writer::time);
    w.0
}

/// Unpacks a key.
pub fn decode_api_key(bytes: &[u8]) -> Result<ApiKey, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let id = ApiKeyId::from_bytes(fixed(&mut r)?);
    let hash = SecretHash::from_bytes(fixed(&mut r)?);
    let name = r.boxed()?;
    let scope = |r: &mut Reader<'_>| {
        let verb = one_of(&Verb::ALL, r.byte()?)?;
        let reach = Reach { queues: read_names(r)?, types: read_names(r)? };
        Ok(Scope { verb, reach })
    };
    let scopes = (0..r.number()?).map(|_| scope(&mut r)).collect::<Result<Vec<_>, Damaged>>()?;
    let grants = Grants::new(scopes).map_err(|_| Damaged("not grants"))?;
    let created_at = r.time()?;
    let (expires_at, revoked_at) = (r.option(Reader::time)?, r.option(Reader::time)?);
    r.finish()?;
    Ok(ApiKey { id, hash, name, grants, created_at, expires_at, revoked_at })
}

/// Packs a record of the audit log.
pub fn encode_audit(record: &AuditRecord) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::new());
    w.number(record.number);
    w.time(record.at);
    let AuditEntry { who, action, target, from, outcome, count } = &record.entry;
    w.text(who);
    w.text(action);
    w.option(target.as_deref(), Writer::text);
    w.option(from.as_deref(), Writer::text);
    w.text(outcome);
    w.number(*count);
    w.bytes(record.previous.as_bytes());
    w.bytes(record.hash.as_bytes());
    w.0
}

/// Unpacks a record of the audit log.
pub fn decode_audit(bytes: &[u8]) -> Result<AuditRecord, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let (number, at) = (r.number()?, r.time()?);
    let entry = AuditEntry {
        who: r.boxed()?,
        action: r.boxed()?,
        target: r.option(Reader::boxed)?,
        from: r.option(Reader::boxed)?,
        outcome: r.boxed()?,
        count: r.number()?,
    };
    let previous = ChainHash::from_bytes(fixed(&mut r)?);
    let hash = ChainHash::from_bytes(fixed(&mut r)?);
    r.finish()?;
    Ok(AuditRecord { number, at, entry, previous, hash })
}

fn fixed<const N: usize>(r: &mut Reader<'_>) -> Result<[u8; N], Damaged> {
    r.bytes()?.try_into().map_err(|_| Damaged("of another length"))
}
