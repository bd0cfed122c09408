//! JSON Web Tokens: callers that somebody else vouches for.
//!
//! The algorithm is configured, never taken from a token, and each key is for one algorithm: a
//! public key cannot be used as a secret. Times are compared with the store's clock.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation};
use serde_json::{Map, Value};
use tasklane_client::wire;
use tasklane_core::limits::NAME_BYTES_MAX;
use tasklane_core::{Grants, Reach, Scope, Timestamp, Verb};

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_KEYS_MAX, TOKEN_SECRET_BYTES_MIN};

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// With a secret that both sides have.
    Hs256,
    /// With RSA.
    Rs256,
    /// With Ed25519.
    EdDsa,
}

impl TokenAlgorithm {
    fn inner(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// Which tokens are believed.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenSettings {
    /// What they are signed with.
    pub keys: TokenKeys,
    /// Who must have made them.
    pub issuer: Box<str>,
    /// Whom they must be for.
    pub audience: Box<str>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The claim that says what they allow.
    pub scopes_claim: Box<str>,
}

/// Keys that signatures are verified with.
#[derive(Clone)]
pub struct TokenKeys {
    validation: Arc<Validation>,
    keys: Arc<[Key]>,
    /// What they were read from: the same file has the same keys.
    file: Arc<[u8]>,
}

struct Key {
    id: Option<String>,
    key: DecodingKey,
}

/// What is wrong with a file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// Neither of the two forms that public keys have.
    #[error("holds no public key of that algorithm, as PEM or as a JSON Web Key Set")]
    NoKey,
    /// Who has it can make tokens; who checks them need not.
    #[error("holds a private key: give the public one")]
    Private,
    /// Public keys are known to all.
    #[error("holds a public key, which is no secret: HS256 needs one")]
    Public,
    /// It could be guessed.
    #[error("holds a secret of less than {TOKEN_SECRET_BYTES_MIN} bytes")]
    Short,
    /// Each would be tried.
    #[error("holds more than {TOKEN_KEYS_MAX} keys")]
    TooMany,
}

impl TokenKeys {
    /// Reads a file: PEM, a JSON Web Key Set, or for HS256 the secret itself.
    pub fn read(algorithm: TokenAlgorithm, file: &[u8]) -> Result<Self, BadKeys> {
        let text = file.trim_ascii();
        let keys = if text.starts_with(b"{") {
            key_set(algorithm, text)?
        } else {
            vec![Key { id: None, key: single(algorithm, text)? }]
        };
        if keys.len() > TOKEN_KEYS_MAX {
            return Err(BadKeys::TooMany);
        }
        let mut validation = Validation::new(algorithm.inner());
        // Claims are checked here, by their types too.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        Ok(Self { validation: Arc::new(validation), keys: keys.into(), file: file.into() })
    }

    /// The claims of a token that was signed with one of them.
    fn open(&self, text: &str) -> Result<Map<String, Value>, BadToken> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(BadToken::Malformed);
        }
        let header = jsonwebtoken::decode_header(text).map_err(|_| BadToken::Malformed)?;
        // What is critical has to be understood, and nothing of that kind is.
        if !self.validation.algorithms.contains(&header.alg) || header.crit.is_some() {
            return Err(BadToken::Algorithm);
        }
        let named = |key: &&Key| header.kid.is_none() || key.id.is_none() || key.id == header.kid;
        let open = |key: &Key| jsonwebtoken::decode(text, &key.key, &self.validation).ok();
        let opened = self.keys.iter().filter(named).find_map(open);
        opened.map(|token| token.claims).ok_or(BadToken::Signature)
    }
}

fn single(algorithm: TokenAlgorithm, text: &[u8]) -> Result<DecodingKey, BadKeys> {
    let holds = |part: &str| memchr::memmem::find(text, part.as_bytes()).is_some();
    let is_pem = holds("-----BEGIN");
    if is_pem && holds("PRIVATE KEY") {
        return Err(BadKeys::Private);
    }
    match algorithm {
        TokenAlgorithm::Rs256 => DecodingKey::from_rsa_pem(text).map_err(|_| BadKeys::NoKey),
        TokenAlgorithm::EdDsa => DecodingKey::from_ed_pem(text).map_err(|_| BadKeys::NoKey),
        TokenAlgorithm::Hs256 if is_pem => Err(BadKeys::Public),
        TokenAlgorithm::Hs256 => long_enough(DecodingKey::from_secret(text)),
    }
}

fn long_enough(key: DecodingKey) -> Result<DecodingKey, BadKeys> {
    let is_secret = key.family() == AlgorithmFamily::Hmac;
    let short = |secret: &[u8]| secret.len() < TOKEN_SECRET_BYTES_MIN;
    match is_secret && key.try_get_as_bytes().is_ok_and(short) {
        true => Err(BadKeys::Short),
        false => Ok(key),
    }
}

/// The keys of a set that are for signatures of that algorithm; a set may hold others too.
fn key_set(algorithm: TokenAlgorithm, text: &[u8]) -> Result<Vec<Key>, BadKeys> {
    let set: JwkSet = serde_json::from_slice(text).map_err(|_| BadKeys::NoKey)?;
    let inner = algorithm.inner();
    let fits = |jwk: &&Jwk| {
        let family = match jwk.algorithm {
            AlgorithmParameters::RSA(_) => Some(AlgorithmFamily::Rsa),
            AlgorithmParameters::OctetKeyPair(_) => Some(AlgorithmFamily::Ed),
            AlgorithmParameters::OctetKey(_) => Some(AlgorithmFamily::Hmac),
            _ => None,
        };
        let signs = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
        let named = jwk.common.key_algorithm.is_none_or(|own| own == inner.into());
        family == Some(inner.family()) && signs && named
    };
    let mut keys = Vec::new();
    for jwk in set.keys.iter().filter(fits) {
        let key = long_enough(DecodingKey::from_jwk(jwk).map_err(|_| BadKeys::NoKey)?)?;
        keys.push(Key { id: jwk.common.key_id.clone(), key });
    }
    if keys.is_empty() { Err(BadKeys::NoKey) } else { Ok(keys) }
}

impl PartialEq for TokenKeys {
    fn eq(&self, other: &Self) -> bool {
        self.validation.algorithms == other.validation.algorithms && self.file == other.file
    }
}

/// Keys do not show themselves in debug output, which ends in logs.
impl std::fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKeys({:?}, {} keys)", self.validation.algorithms, self.keys.len())
    }
}

/// Why a token is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadToken {
    /// It is none, or far too long.
    Malformed,
    /// It is signed in another way, or not at all.
    Algorithm,
    /// None of the keys made its signature.
    Signature,
    /// A claim is missing or of the wrong type.
    Claim,
    /// Somebody else made it.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    Early,
}

impl BadToken {
    /// Its word in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "not a token",
            Self::Algorithm => "token signed in another way",
            Self::Signature => "token with a wrong signature",
            Self::Claim => "token with a wrong claim",
            Self::Issuer => "token of another issuer",
            Self::Audience => "token for another audience",
            Self::Expired => "expired token",
            Self::Early => "token that is not valid yet",
        }
    }
}

/// A token that is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Who it is about.
    pub subject: Box<str>,
    /// What it allows; a token need not be for anything here.
    pub grants: Option<Grants>,
    /// Until when, with the leeway.
    pub ends_at: Timestamp,
}

impl TokenSettings {
    /// Reads a token and checks everything about it.
    pub fn verify(&self, text: &str, now: Timestamp) -> Result<Token, BadToken> {
        let claims = self.keys.open(text)?;
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(BadToken::Issuer);
        }
        if !self.is_for_us(claims.get("aud"))? {
            return Err(BadToken::Audience);
        }
        let ends_at = date(claims.get("exp"))?.ok_or(BadToken::Claim)?.plus(self.leeway);
        if now >= ends_at {
            return Err(BadToken::Expired);
        }
        if date(claims.get("nbf"))?.is_some_and(|begins| now < begins.minus(self.leeway)) {
            return Err(BadToken::Early);
        }
        let subject = claims.get("sub").and_then(Value::as_str).ok_or(BadToken::Claim)?;
        let odd = subject.is_empty() || subject.len() > NAME_BYTES_MAX;
        if odd || subject.chars().any(char::is_control) {
            return Err(BadToken::Claim);
        }
        let grants = claims.get(&*self.scopes_claim).map_or(Ok(None), grants)?;
        Ok(Token { subject: subject.into(), grants, ends_at })
    }

    fn is_for_us(&self, audience: Option<&Value>) -> Result<bool, BadToken> {
        match audience {
            Some(Value::String(one)) => Ok(**one == *self.audience),
            Some(Value::Array(many)) => {
                let text = |one: &Value| one.as_str().map(|one| *one == *self.audience);
                let many: Option<Vec<bool>> = many.iter().map(text).collect();
                Ok(many.ok_or(BadToken::Claim)?.contains(&true))
            }
            _ => Err(BadToken::Claim),
        }
    }
}

/// Seconds since 1970 as a number, perhaps with decimals; nothing else counts as a time.
fn date(claim: Option<&Value>) -> Result<Option<Timestamp>, BadToken> {
    let Some(claim) = claim else { return Ok(None) };
    let seconds = claim.as_f64().ok_or(BadToken::Claim)?;
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| BadToken::Claim)?;
    Ok(Some(Timestamp::EPOCH.plus(span)))
}

/// What a claim allows: verbs in a text, or a list of verbs and scopes as keys have them. Words that
/// are none of ours are meant for others.
fn grants(claim: &Value) -> Result<Option<Grants>, BadToken> {
    let everywhere = |verb: Verb| Scope { verb, reach: Reach::default() };
    let mut scopes = Vec::new();
    match claim {
        Value::String(words) => {
            let verbs = words.split_ascii_whitespace().filter_map(|word| word.parse().ok());
            scopes.extend(verbs.map(everywhere));
        }
        Value::Array(list) => {
            for entry in list {
                match entry {
                    Value::String(word) => scopes.extend(word.parse().ok().map(everywhere)),
                    Value::Object(_) => {
                        let scope = serde_json::from_value::<wire::Scope>(entry.clone());
                        let scope = scope.map_err(|_| BadToken::Claim)?;
                        scopes.push(scope.read().map_err(|_| BadToken::Claim)?);
                    }
                    _ => return Err(BadToken::Claim),
                }
            }
        }
        _ => return Err(BadToken::Claim),
    }
    if scopes.is_empty() {
        return Ok(None);
    }
    Grants::new(scopes).map(Some).map_err(|_| BadToken::Claim)
}
