//! The audit log: who did what, each record holding the hash of the one before it.
//!
//! Changing, removing or inserting a record in the middle breaks the chain. What a chain without a
//! secret cannot show is that its end was cut off, or that all of it was written anew: for that,
//! somebody notes the last hash elsewhere and compares it later ([`Chain::expect`]).

use std::fmt;

use crate::api_key::{ApiKeyId, read_hex, write_hex};
use crate::error::{Invalid, Problem};
use crate::failure::cut;
use crate::id::Digester;
use crate::limits::AUDIT_TEXT_BYTES_MAX;
use crate::time::Timestamp;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// Nobody had to say: the server is open.
    Anyone,
    /// Whoever may run programs on the machine and open its store.
    Machine,
    /// Somebody with this key.
    Key {
        /// Which key.
        id: ApiKeyId,
        /// What it is called.
        name: Box<str>,
    },
    /// Somebody whom a token vouches for.
    Subject {
        /// As its issuer calls them.
        name: Box<str>,
    },
    /// Somebody with a certificate.
    Certificate {
        /// The name in it that counts.
        name: Box<str>,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("anyone"),
            Self::Machine => f.write_str("machine"),
            Self::Key { id, name } => write!(f, "{id} ({name})"),
            Self::Subject { name } => write!(f, "subject {name}"),
            Self::Certificate { name } => write!(f, "certificate {name}"),
        }
    }
}

/// Something worth remembering; the store adds its number, its time and its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who, as text: records outlive keys.
    pub who: Box<str>,
    /// What was asked for.
    pub action: Box<str>,
    /// Of what.
    pub target: Option<Box<str>>,
    /// From where.
    pub from: Option<Box<str>>,
    /// What came of it: `done`, or why not.
    pub outcome: Box<str>,
    /// How many times, where repetitions were folded into one record.
    pub count: u64,
}

impl AuditEntry {
    /// What came of an action that was carried out.
    pub const DONE: &str = "done";

    /// One action. Texts beyond their bound are cut.
    pub fn new(who: &Who, action: &str, outcome: &str) -> Self {
        Self {
            who: cut(&who.to_string(), AUDIT_TEXT_BYTES_MAX),
            action: cut(action, AUDIT_TEXT_BYTES_MAX),
            target: None,
            from: None,
            outcome: cut(outcome, AUDIT_TEXT_BYTES_MAX),
            count: 1,
        }
    }

    /// Of `target`.
    pub fn on(mut self, target: &str) -> Self {
        self.target = Some(cut(target, AUDIT_TEXT_BYTES_MAX));
        self
    }

    /// From `place`.
    pub fn from(mut self, place: Option<&str>) -> Self {
        self.from = place.map(|place| cut(place, AUDIT_TEXT_BYTES_MAX));
        self
    }
}

/// SHA-256 of a record and the hash of the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// What the first record of all holds as its predecessor's.
    pub const NONE: Self = Self([0; 32]);

    /// Takes what a store wrote.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ChainHash {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "64 hexadecimal digits";
        read_hex(text).map(Self).ok_or(Invalid::new("hash", Problem::Malformed { expected }))
    }
}

/// An entry in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number, from 1, without gaps.
    pub number: u64,
    /// When it was written, by the store's clock.
    pub at: Timestamp,
    /// What it says.
    pub entry: AuditEntry,
    /// The hash of the record before it; it is kept here so that the chain survives the removal of
    /// old records.
    pub previous: ChainHash,
    /// Its own.
    pub hash: ChainHash,
}

impl AuditRecord {
    /// The record of `entry` after `last`.
    pub fn after(last: Option<(u64, ChainHash)>, at: Timestamp, entry: AuditEntry) -> Self {
        let (number, previous) = last.unwrap_or((0, ChainHash::NONE));
        let mut record = Self { number: number + 1, at, entry, previous, hash: ChainHash::NONE };
        record.hash = record.computed();
        record
    }

    /// Number and hash: what the next record follows.
    pub fn link(&self) -> (u64, ChainHash) {
        (self.number, self.hash)
    }

    /// The hash of what it says. Every part carries its length, so that no two records have the
    /// same bytes.
    fn computed(&self) -> ChainHash {
        let Self { number, at, entry, previous, .. } = self;
        let AuditEntry { who, action, target, from, outcome, count } = entry;
        let digester = Digester::default()
            .part(&previous.0)
            .part(&number.to_be_bytes())
            .part(&at.as_micros().to_be_bytes())
            .part(who.as_bytes())
            .part(action.as_bytes())
            .optional(target.as_deref().map(str::as_bytes))
            .optional(from.as_deref().map(str::as_bytes))
            .part(outcome.as_bytes())
            .part(&count.to_be_bytes());
        ChainHash(digester.finish_whole())
    }
}

/// Where a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A record does not say what it said when it was written.
    #[error("record {0} was changed: its hash is not that of what it says")]
    Changed(u64),
    /// A record does not follow the one before it.
    #[error("record {0} does not follow the one before it: records were removed or changed")]
    Apart(u64),
    /// A record is not the one that was noted, or is not there.
    #[error("record {0} is not the one that was noted: the log was written anew, or cut off")]
    NotAsNoted(u64),
    /// What was noted is older than everything that is kept, so nothing can be compared with it.
    #[error(
        "record {0}, which was noted, is no longer kept: nothing could be compared; note a newer one more often than records are removed"
    )]
    NotedIsGone(u64),
}

/// Follows a chain from the oldest record that is kept.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    first: Option<u64>,
    last: Option<(u64, ChainHash)>,
    noted: Option<(u64, ChainHash)>,
    met: bool,
}

impl Chain {
    /// Compares the record of this number with a hash that was noted elsewhere.
    pub fn expect(&mut self, number: u64, hash: ChainHash) {
        self.noted = Some((number, hash));
    }

    /// Takes the next record.
    pub fn follow(&mut self, record: &AuditRecord) -> Result<(), Broken> {
        if record.computed() != record.hash {
            return Err(Broken::Changed(record.number));
        }
        let follows = match self.last {
            None => true,
            Some((number, hash)) => record.number == number + 1 && record.previous == hash,
        };
        if !follows {
            return Err(Broken::Apart(record.number));
        }
        if let Some((number, hash)) = self.noted.filter(|(number, _)| *number == record.number) {
            if hash != record.hash {
                return Err(Broken::NotAsNoted(number));
            }
            self.met = true;
        }
        // The first that is kept names the one before it, whether or not that is still there.
        let noted_before = self.noted.filter(|(number, _)| {
            self.first.is_none() && number.checked_add(1) == Some(record.number)
        });
        if let Some((number, hash)) = noted_before {
            if hash != record.previous {
                return Err(Broken::NotAsNoted(number));
            }
            self.met = true;
        }
        self.first = self.first.or(Some(record.number));
        self.last = Some(record.link());
        Ok(())
    }

    /// The numbers of the first and the last record and the last one's hash, if there are any.
    /// What was noted must have been among them, or just before them.
    pub fn finish(self) -> Result<Option<(u64, u64, ChainHash)>, Broken> {
        if let Some((number, _)) = self.noted.filter(|_| !self.met) {
            let removed_since = self.first.is_some_and(|first| number < first);
            return Err(match removed_since {
                true => Broken::NotedIsGone(number),
                false => Broken::NotAsNoted(number),
            });
        }
        Ok(self.first.zip(self.last).map(|(first, (last, hash))| (first, last, hash)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(count: u64) -> Vec<AuditRecord> {
        let mut records: Vec<AuditRecord> = Vec::new();
        for n in 0..count {
            let entry = AuditEntry::new(&Who::Anyone, "pause a queue", AuditEntry::DONE)
                .on(&format!("q{n}"))
                .from(Some("127.0.0.1"));
            let last = records.last().map(AuditRecord::link);
            records.push(AuditRecord::after(last, Timestamp::from_millis(n as i64), entry));
        }
        records
    }

    fn verify(records: &[AuditRecord]) -> Result<Option<(u64, u64, ChainHash)>, Broken> {
        let mut chain = Chain::default();
        records.iter().try_for_each(|record| chain.follow(record))?;
        chain.finish()
    }

    #[test]
    fn an_untouched_log_is_whole_also_after_its_beginning_was_removed() {
        let records = log(5);
        let last = records[4].hash;
        assert_eq!(verify(&records), Ok(Some((1, 5, last))));
        assert_eq!(verify(&records[3..]), Ok(Some((4, 5, last))));
        assert_eq!(verify(&[]), Ok(None));
    }

    #[test]
    fn every_change_of_a_record_breaks_the_chain() {
        let changes: [fn(&mut AuditRecord); 8] = [
            |record| record.entry.who = "somebody".into(),
            |record| record.entry.action = "resume a queue".into(),
            |record| record.entry.target = None,
            |record| record.entry.from = Some("192.0.2.1".into()),
            |record| record.entry.outcome = "forbidden".into(),
            |record| record.entry.count = 2,
            |record| record.at = Timestamp::from_millis(9),
            |record| record.previous = ChainHash::NONE,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut records = log(5);
            change(&mut records[2]);
            assert_eq!(verify(&records), Err(Broken::Changed(3)), "change {n}");
            // Somebody who knows how makes its hash fit: then the next record gives it away.
            records[2].hash = records[2].computed();
            assert!(verify(&records).is_err(), "change {n} with a hash that fits");
        }
    }

    #[test]
    fn removed_swapped_and_inserted_records_break_the_chain() {
        let mut removed = log(5);
        removed.remove(2);
        assert_eq!(verify(&removed), Err(Broken::Apart(4)));
        let mut swapped = log(5);
        swapped.swap(2, 3);
        assert_eq!(verify(&swapped), Err(Broken::Apart(4)));
        let mut inserted = log(5);
        inserted.insert(2, inserted[1].clone());
        assert_eq!(verify(&inserted), Err(Broken::Apart(2)));
    }

    #[test]
    fn a_noted_hash_shows_that_the_end_was_cut_off_or_all_was_written_anew() {
        let records = log(6);
        let (number, hash) = records[3].link();
        let noted = |records: &[AuditRecord]| {
            let mut chain = Chain::default();
            chain.expect(number, hash);
            records.iter().try_for_each(|record| chain.follow(record))?;
            chain.finish()
        };
        assert!(noted(&records).is_ok());
        assert_eq!(noted(&records[..3]), Err(Broken::NotAsNoted(4)));
        assert_eq!(noted(&[]), Err(Broken::NotAsNoted(4)));
        let mut anew = log(5);
        for record in &mut anew {
            record.at = Timestamp::from_millis(77);
        }
        let mut last = None;
        for record in &mut anew {
            *record = AuditRecord::after(last, record.at, record.entry.clone());
            last = Some(record.link());
        }
        assert!(verify(&anew).is_ok());
        assert_eq!(noted(&anew), Err(Broken::NotAsNoted(4)));
        assert!(noted(&records[4..]).is_ok(), "the first that is kept names it");
        assert_eq!(noted(&records[5..]), Err(Broken::NotedIsGone(4)));
        assert_eq!(noted(&anew[4..]), Err(Broken::NotAsNoted(4)));
    }

    #[test]
    fn long_texts_are_cut() {
        let entry = AuditEntry::new(&Who::Anyone, &"é".repeat(600), "done").on(&"x".repeat(600));
        assert!(entry.action.len() <= AUDIT_TEXT_BYTES_MAX);
        assert_eq!(entry.target.unwrap().len(), AUDIT_TEXT_BYTES_MAX);
    }
}
