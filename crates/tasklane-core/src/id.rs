//! Ids, tokens and numbers that order things.

use std::fmt;

use uuid::Uuid;

use crate::error::{Invalid, Problem};
use crate::limits;
use crate::random::Random;
use crate::time::Timestamp;

const COUNTER_BITS: u32 = 20;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
const MILLIS_MASK: u64 = (1 << 43) - 1;

/// A task's id: a UUIDv7, made by the store or chosen by the client (S2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId([u8; 16]);

impl TaskId {
    /// An id for `millis`: the counter keeps ids of one millisecond apart and in order, the
    /// remaining 54 bits are random.
    pub fn generate(millis: u64, counter: u64, random: &mut impl Random) -> Self {
        let counter = counter & COUNTER_MASK;
        let high = (millis << 16) | 0x7000 | (counter >> 8);
        let low = (0b10 << 62) | ((counter & 0xFF) << 54) | (random.next_u64() >> 10);
        Self(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }

    /// Takes the bytes of a UUIDv7.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, Invalid> {
        let uuid = Uuid::from_bytes(bytes);
        let is_v7 = uuid.get_version_num() == 7 && uuid.get_variant() == uuid::Variant::RFC4122;
        let expected = "a UUID of version 7";
        is_v7.then_some(Self(bytes)).ok_or(Invalid::new("id", Problem::Malformed { expected }))
    }

    /// The sixteen bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Milliseconds and the next twenty bits as one number that rises with ids of one source:
    /// an integer row key. Client-chosen ids may collide in it, so a store must compare ids.
    pub const fn row_key(&self) -> i64 {
        let bits = u128::from_be_bytes(self.0);
        let millis = (bits >> 80) as u64 & MILLIS_MASK;
        let counter = ((((bits >> 64) as u64) & 0xFFF) << 8) | (((bits as u64) >> 54) & 0xFF);
        ((millis << COUNTER_BITS) | counter) as i64
    }
}

impl std::str::FromStr for TaskId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let uuid = Uuid::try_parse(text)
            .map_err(|_| Invalid::new("id", Problem::Malformed { expected: "a UUID" }))?;
        Self::from_bytes(uuid.into_bytes())
    }
}

/// A worker process. Made anew at each registration, so that no two processes share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId([u8; 16]);

impl WorkerId {
    /// A fresh id.
    pub fn generate(now: Timestamp, random: &mut impl Random) -> Self {
        let counter = random.next_u64();
        Self(TaskId::generate(now.as_millis().unsigned_abs(), counter, random).0)
    }

    /// The sixteen bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Takes sixteen bytes that a store wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl std::str::FromStr for WorkerId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "a UUID";
        let uuid = Uuid::try_parse(text)
            .map_err(|_| Invalid::new("worker_id", Problem::Malformed { expected }))?;
        Ok(Self(uuid.into_bytes()))
    }
}

/// Proof of holding a lease: 128 random bits (S5).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken([u8; 16]);

impl LeaseToken {
    /// A fresh token.
    pub fn generate(random: &mut impl Random) -> Self {
        Self(random.next_u128().to_be_bytes())
    }

    /// Takes sixteen bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::str::FromStr for LeaseToken {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "32 hexadecimal digits";
        let bad = || Invalid::new("lease_token", Problem::Malformed { expected });
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        u128::from_str_radix(text, 16).map(|bits| Self(bits.to_be_bytes())).map_err(|_| bad())
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A token is a credential: debug output, which ends in logs, does not show it.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

macro_rules! shown_as_uuid {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Uuid::from_bytes(self.0), f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
shown_as_uuid!(TaskId, WorkerId);

/// A number that only rises from one claim of a task to the next, for outside systems to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fence(u64);

impl Fence {
    /// The fence of a claim at `now` (S5): above the previous one even if the clock stepped back,
    /// above everything issued before a restore or failover because it follows the wall clock.
    pub fn next(self, now: Timestamp) -> Self {
        let clock = u64::try_from(now.as_micros()).unwrap_or(0);
        Self((self.0 + 1).max(clock).min(limits::FENCE_MAX))
    }

    /// As a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From a number that a store wrote.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }
}

/// The number of an event: unique in its store, and rising from one event of a task to the next.
/// Places use it to tell equal times apart. A feed may have numbers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// When something happened and as which event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// The store's wall time.
    pub at: Timestamp,
    /// The event's number.
    pub sequence: Sequence,
}

/// Where a task stands among tasks of equal effective priority (S8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// When it became ready: submission, `scheduled_at`, or the end of what it waited for.
    pub ready_at: Timestamp,
    /// The event that gave it this place.
    pub sequence: Sequence,
}

/// 128 bits of SHA-256, to tell a repeated request from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    /// Takes sixteen bytes that a store wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Feeds length-prefixed parts to a hash, so that no two lists of parts look alike.
#[derive(Default)]
pub(crate) struct Digester(sha2::Sha256);

impl Digester {
    pub(crate) fn part(mut self, bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn optional(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.part(&[1]).part(bytes),
            None => self.part(&[0]),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        let mut short = [0; 16];
        short.copy_from_slice(self.finish_whole().split_at(16).0);
        Digest(short)
    }

    /// All 256 bits.
    pub(crate) fn finish_whole(self) -> [u8; 32] {
        use sha2::Digest as _;
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn generated_ids_are_version_7_and_rise_with_time_and_counter() {
        let mut random = SeededRandom::new(1);
        let first = TaskId::generate(1_700_000_000_000, 41, &mut random);
        let second = TaskId::generate(1_700_000_000_000, 42, &mut random);
        let later = TaskId::generate(1_700_000_000_001, 0, &mut random);
        assert!(TaskId::from_bytes(*first.as_bytes()).is_ok());
        assert!(first < second && second < later);
        assert_eq!(second.row_key() - first.row_key(), 1);
        assert_eq!(later.row_key() >> 20, 1_700_000_000_001);
        assert_eq!(first.to_string().parse::<TaskId>().unwrap(), first);
    }

    #[test]
    fn ids_of_another_version_are_refused() {
        assert!("not an id".parse::<TaskId>().is_err());
        assert!("9b2f8a1e-3c4d-4e5f-8a6b-7c8d9e0f1a2b".parse::<TaskId>().is_err());
        assert!(TaskId::from_bytes([0xFF; 16]).is_err());
    }

    #[test]
    fn fences_rise_whatever_the_clock_does() {
        let high = Fence::default().next(Timestamp::from_micros(5_000));
        assert_eq!(high.as_u64(), 5_000);
        assert_eq!(high.next(Timestamp::from_micros(10)).as_u64(), 5_001);
        assert_eq!(high.next(Timestamp::from_micros(-10)).as_u64(), 5_001);
        assert_eq!(high.next(Timestamp::MAX).as_u64(), limits::FENCE_MAX);
    }

    #[test]
    fn tokens_survive_text_and_hide_from_logs() {
        let token = LeaseToken::generate(&mut SeededRandom::new(7));
        assert_eq!(token.to_string().parse::<LeaseToken>().unwrap(), token);
        assert!(!format!("{token:?}").contains(&token.to_string()[..6]));
        for bad in ["", "zz", "+0000000000000000000000000000001", &"0".repeat(33)] {
            assert!(bad.parse::<LeaseToken>().is_err(), "{bad}");
        }
    }
}
