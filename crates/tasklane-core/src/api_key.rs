//! API keys: random secrets, of which only a hash is kept.

use std::fmt;

use crate::access::Grants;
use crate::error::{Invalid, Problem};
use crate::id::Digester;
use crate::limits;
use crate::name::{check_characters, check_length};
use crate::random::Random;
use crate::spec::When;
use crate::time::Timestamp;

/// What every key begins with, so that people and scanners for leaked secrets know one.
const MARK: &str = "tl_";

/// The part of a key that is shown: which key, not the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKeyId([u8; 6]);

impl ApiKeyId {
    /// Takes six bytes that a store wrote.
    pub const fn from_bytes(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The six bytes.
    pub const fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }
}

impl fmt::Display for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MARK)?;
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ApiKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ApiKeyId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "tl_ and twelve hexadecimal digits";
        let bytes = text.strip_prefix(MARK).and_then(read_hex);
        bytes.map(Self).ok_or(Invalid::new("key", Problem::Malformed { expected }))
    }
}

/// A key as its owner has it: the id and 256 random bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Which key.
    pub id: ApiKeyId,
    secret: [u8; 32],
}

impl Credential {
    /// A fresh one. The source must be unpredictable.
    pub fn generate(random: &mut impl Random) -> Self {
        let [_, _, id @ ..] = random.next_u64().to_be_bytes();
        let mut secret = [0; 32];
        for part in secret.chunks_mut(8) {
            part.copy_from_slice(&random.next_u64().to_be_bytes());
        }
        Self::from_parts(id, secret)
    }

    /// One of bits that were drawn before.
    pub const fn from_parts(id: [u8; 6], secret: [u8; 32]) -> Self {
        Self { id: ApiKeyId(id), secret }
    }

    /// What is kept of it.
    pub fn hash(&self) -> SecretHash {
        SecretHash(Digester::default().part(&self.secret).finish_whole())
    }

    /// The whole key as text, for its owner's eyes.
    pub fn reveal(&self) -> String {
        struct Whole<'a>(&'a Credential);
        impl fmt::Display for Whole<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_", self.0.id)?;
                write_hex(f, &self.0.secret)
            }
        }
        Whole(self).to_string()
    }
}

/// A credential does not show itself in debug output, which ends in logs.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}_..)", self.id)
    }
}

impl std::str::FromStr for Credential {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let malformed = || {
            let expected = "a key as it was shown when it was made";
            Invalid::new("key", Problem::Malformed { expected })
        };
        let (id, secret) = text.rsplit_once('_').ok_or_else(malformed)?;
        Ok(Self { id: id.parse()?, secret: read_hex(secret).ok_or_else(malformed)? })
    }
}

/// SHA-256 of a key's secret.
///
/// A slow hash with a salt protects passwords, because people choose them from few. This secret is
/// 256 random bits: nobody can try them all, whatever the hash costs, and no two keys share one.
/// So one round is enough, and letting somebody in stays cheap.
#[derive(Debug, Clone, Copy)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Takes what a store wrote.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        is_same_secret(&self.0, &other.0)
    }
}

/// Whether two secrets are the same. Takes the same time wherever two of one length differ.
pub fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(difference) == 0 && one.len() == other.len()
}

impl Eq for SecretHash {}

/// A key to be made; the store adds the times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApiKey {
    /// Which.
    pub id: ApiKeyId,
    /// Of its secret.
    pub hash: SecretHash,
    /// What it is for, in people's words.
    pub name: Box<str>,
    /// What it may do.
    pub grants: Grants,
    /// When it stops being good, if ever.
    pub expires: Option<When>,
}

impl NewApiKey {
    /// What is kept of `credential`, under a checked name.
    pub fn new(
        credential: &Credential,
        name: &str,
        grants: Grants,
        expires: Option<When>,
    ) -> Result<Self, Invalid> {
        check_length("name", name, limits::NAME_BYTES_MAX)?;
        check_characters("name", name, char::is_control)?;
        Ok(Self { id: credential.id, hash: credential.hash(), name: name.into(), grants, expires })
    }

    /// The key as it is kept from `now` on. An end in the past is a mistake.
    pub fn made(self, now: Timestamp) -> Result<ApiKey, Invalid> {
        let Self { id, hash, name, grants, expires } = self;
        let expires_at = expires.map(|when| when.resolve(now));
        if expires_at.is_some_and(|at| at <= now) {
            return Err(Invalid::out_of_range("expires_at", "in the future"));
        }
        Ok(ApiKey { id, hash, name, grants, created_at: now, expires_at, revoked_at: None })
    }
}

/// A key as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Which.
    pub id: ApiKeyId,
    /// Of its secret.
    pub hash: SecretHash,
    /// What it is for, in people's words.
    pub name: Box<str>,
    /// What it may do.
    pub grants: Grants,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops being good.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it opens anything at `now`.
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }

    /// When it stopped, or will stop, being good.
    pub fn ends_at(&self) -> Option<Timestamp> {
        match (self.expires_at, self.revoked_at) {
            (Some(expires), Some(revoked)) => Some(expires.min(revoked)),
            (expires, revoked) => expires.or(revoked),
        }
    }
}

pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

pub(crate) fn read_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::SeededRandom;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn made(expires: Option<When>) -> Result<ApiKey, Invalid> {
        let credential = Credential::generate(&mut SeededRandom::new(1));
        NewApiKey::new(&credential, "ci", Grants::everything(), expires)?.made(at(100))
    }

    #[test]
    fn a_key_survives_text_and_hides_its_secret_from_logs() {
        let key = Credential::generate(&mut SeededRandom::new(7));
        let text = key.reveal();
        assert_eq!(text.len(), 3 + 12 + 1 + 64);
        assert_eq!(text.parse::<Credential>().unwrap(), key);
        assert!(text.starts_with(&key.id.to_string()));
        assert_eq!(key.id.to_string().parse::<ApiKeyId>().unwrap(), key.id);
        let secret = text.rsplit_once('_').unwrap().1;
        assert!(!format!("{key:?}").contains(&secret[..8]));
        for bad in ["", "tl_", "tl_0123456789ab", &text[1..], &format!("{text}0"), "é_é"] {
            assert!(bad.parse::<Credential>().is_err(), "{bad}");
        }
        let plus = format!("tl_0123456789ab_+{}", "0".repeat(63));
        assert!(plus.parse::<Credential>().is_err());
    }

    #[test]
    fn only_the_same_secret_has_the_same_hash() {
        let mut random = SeededRandom::new(7);
        let (one, other) = (Credential::generate(&mut random), Credential::generate(&mut random));
        assert_eq!(one.hash(), one.reveal().parse::<Credential>().unwrap().hash());
        assert_ne!(one.hash(), other.hash());
        for bit in 0..256 {
            let mut bytes = *one.hash().as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(SecretHash::from_bytes(bytes), one.hash(), "bit {bit}");
        }
    }

    /// What is compared is a hash of the whole secret. Whoever has found a beginning of the secret is
    /// no nearer to the hash, so that no comparison, however it is made, tells them so.
    #[test]
    fn a_right_beginning_brings_nobody_nearer_to_the_hash() {
        let key = Credential::generate(&mut SeededRandom::new(7));
        let whole = *key.hash().as_bytes();
        for right in 0..32 {
            let mut secret = key.secret;
            for byte in &mut secret[right..] {
                *byte = !*byte;
            }
            let near = *Credential { secret, ..key.clone() }.hash().as_bytes();
            let same = whole.iter().zip(near).take_while(|(one, other)| *one == other).count();
            assert!(same <= 1, "{right} right bytes give {same} of the hash");
        }
    }

    #[test]
    fn a_key_is_good_until_it_expires_or_is_revoked() {
        let key = made(Some(When::After(Duration::from_secs(10)))).unwrap();
        assert!(key.is_good(at(109)) && !key.is_good(at(110)));
        let revoked = ApiKey { revoked_at: Some(at(105)), ..key };
        assert!(!revoked.is_good(at(105)));
        assert_eq!(revoked.ends_at(), Some(at(105)));
        assert!(made(None).unwrap().is_good(Timestamp::MAX));
        assert!(made(Some(When::At(at(100)))).is_err());
    }

    #[test]
    fn names_are_short_and_printable() {
        let key = Credential::generate(&mut SeededRandom::new(1));
        let named = |name: &str| NewApiKey::new(&key, name, Grants::everything(), None);
        assert!(named("the mailer, EU").is_ok());
        for bad in ["", "a\nb", &"x".repeat(129)] {
            assert!(named(bad).is_err(), "{bad:?}");
        }
    }
}
