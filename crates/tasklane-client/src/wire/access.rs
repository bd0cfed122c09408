//! Keys, and the audit log.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tasklane_core::{ApiKey, AuditEntry, Invalid, Names, Pattern, Problem, Reach, Timestamp};

use super::shape;
use super::value::{Seconds, Time};

/// One verb and where it may be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// `submit`, `read`, `work`, `operate` or `admin`.
    pub verb: Box<str>,
    /// In these queues, or queues that begin so with `*`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Box<str>>>,
    /// On tasks of these types, or types that begin so with `*`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<Box<str>>>,
}

/// A key to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What it is for, in people's words.
    pub name: Box<str>,
    /// What it may do; each verb at most once.
    #[serde(deserialize_with = "shape::objects")]
    pub scopes: Vec<Scope>,
    /// When it stops being good; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The same, from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<Seconds>,
}

/// A key as it is shown: never its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Key {
    /// Its beginning, by which it is known.
    pub id: Box<str>,
    /// What it is for.
    pub name: Box<str>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// `active`, `expired` or `revoked`.
    pub state: Cow<'static, str>,
    /// When it was made.
    pub created_at: Time,
    /// When it stops being good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl Scope {
    /// The scope that is meant.
    pub fn read(&self) -> Result<tasklane_core::Scope, Invalid> {
        let reach = Reach {
            queues: names("queues", self.queues.as_deref())?,
            types: names("types", self.types.as_deref())?,
        };
        Ok(tasklane_core::Scope { verb: self.verb.parse()?, reach })
    }

    /// A scope as it is shown.
    pub fn of(scope: &tasklane_core::Scope) -> Self {
        let names = |names: &Names| match names {
            Names::All => None,
            Names::Matching(patterns) => {
                Some(patterns.iter().map(|pattern| pattern.to_string().into()).collect())
            }
        };
        Self {
            verb: scope.verb.as_str().into(),
            queues: names(&scope.reach.queues),
            types: names(&scope.reach.types),
        }
    }
}

/// Patterns that bound a scope. None at all would be a scope that opens nothing: a mistake.
fn names(field: &'static str, patterns: Option<&[Box<str>]>) -> Result<Names, Invalid> {
    let Some(patterns) = patterns else { return Ok(Names::All) };
    if patterns.is_empty() {
        return Err(Invalid::new(field, Problem::Empty));
    }
    let patterns = patterns.iter().map(|pattern| Pattern::new(pattern)).collect::<Result<_, _>>();
    let named = |invalid: Invalid| Invalid::new(field, invalid.problem);
    Names::matching(patterns.map_err(named)?).map_err(named)
}

impl Key {
    /// A key as it is shown at `now`.
    pub fn of(key: &ApiKey, now: Timestamp) -> Self {
        let state = match key.revoked_at {
            Some(_) => "revoked",
            None if key.is_good(now) => "active",
            None => "expired",
        };
        Self {
            id: key.id.to_string().into(),
            name: key.name.clone(),
            scopes: key.grants.scopes().map(|scope| Scope::of(&scope)).collect(),
            state: state.into(),
            created_at: Time(key.created_at),
            expires_at: key.expires_at.map(Time),
            revoked_at: key.revoked_at.map(Time),
        }
    }
}

/// A key that was just made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MadeKey {
    /// The whole key, shown this once: it is not kept.
    pub secret: Box<str>,
    /// The key as it will be shown.
    pub key: Key,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeyPage {
    /// By id.
    pub keys: Vec<Key>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

/// A record of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditRecord {
    /// Its number, without gaps.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Who.
    pub who: Box<str>,
    /// What was asked for.
    pub action: Box<str>,
    /// Of what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Box<str>>,
    /// From where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<str>>,
    /// `done`, or why not.
    pub outcome: Box<str>,
    /// How many times, where repetitions are one record.
    pub count: u64,
    /// The hash of the record before it.
    pub previous: Box<str>,
    /// Its own: SHA-256 of what it says and of `previous`.
    pub hash: Box<str>,
}

impl AuditRecord {
    /// A record as it is shown.
    pub fn of(record: tasklane_core::AuditRecord) -> Self {
        let tasklane_core::AuditRecord { number, at, entry, previous, hash } = record;
        Self {
            number,
            at: Time(at),
            who: entry.who,
            action: entry.action,
            target: entry.target,
            from: entry.from,
            outcome: entry.outcome,
            count: entry.count,
            previous: previous.to_string().into(),
            hash: hash.to_string().into(),
        }
    }

    /// The record that is shown, to follow its chain.
    pub fn read(self) -> Result<tasklane_core::AuditRecord, Invalid> {
        let Self { number, at, who, action, target, from, outcome, count, previous, hash } = self;
        Ok(tasklane_core::AuditRecord {
            number,
            at: at.0,
            entry: AuditEntry { who, action, target, from, outcome, count },
            previous: previous.parse()?,
            hash: hash.parse()?,
        })
    }
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The newest first, or the oldest first where that was asked for.
    pub records: Vec<AuditRecord>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::{Chain, Who};

    #[test]
    fn a_record_that_was_shown_is_still_the_same() {
        let entry = AuditEntry::new(&Who::Anyone, "größe", "done").on("").from(Some("::1"));
        let at = Timestamp::from_micros(1_800_000_000_123_456);
        let record = tasklane_core::AuditRecord::after(None, at, entry);
        let text = serde_json::to_string(&AuditRecord::of(record.clone())).unwrap();
        let read = serde_json::from_str::<AuditRecord>(&text).unwrap().read().unwrap();
        assert_eq!(read, record);
        assert!(Chain::default().follow(&read).is_ok());
    }
}
