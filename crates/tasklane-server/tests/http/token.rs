//! Tokens: who is believed, as whom, and until when.

use std::sync::OnceLock;
use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};
use tasklane_server::token::{BadKeys, TokenAlgorithm, TokenKeys, TokenSettings};
use tasklane_server::{Authentication, Rate, Settings};

use crate::key::Keyed;
use crate::listener::Listener;
use crate::site::{Reply, Site};

/// What the clock of tests shows at the start, in seconds.
pub(crate) const NOW: i64 = 1_790_000_000;
const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

/// A pair of keys, in PEM.
pub(crate) struct Pair {
    pub(crate) private: String,
    pub(crate) public: String,
    raw: Vec<u8>,
}

impl Pair {
    pub(crate) fn of(pair: &KeyPair) -> Self {
        let raw = pair.public_key_raw().to_vec();
        Self { private: pair.serialize_pem(), public: pair.public_key_pem(), raw }
    }

    /// The public one of Ed25519 as a JSON Web Key.
    pub(crate) fn jwk(&self, id: &str) -> Jwk {
        let x = base64(&self.raw);
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "x": x});
        serde_json::from_value(jwk).unwrap()
    }
}

pub(crate) fn rsa() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::of(&KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap()))
}

pub(crate) fn rsa_key() -> EncodingKey {
    EncodingKey::from_rsa_pem(rsa().private.as_bytes()).unwrap()
}

pub(crate) fn ed() -> Pair {
    Pair::of(&KeyPair::generate_for(&PKCS_ED25519).unwrap())
}

fn settings(algorithm: TokenAlgorithm, file: &[u8]) -> TokenSettings {
    TokenSettings {
        keys: TokenKeys::read(algorithm, file).unwrap(),
        issuer: "https://login.example.org".into(),
        audience: "tasklane".into(),
        leeway: Duration::from_secs(30),
        scopes_claim: "scopes".into(),
    }
}

/// A server that believes tokens.
fn site(tokens: TokenSettings) -> Site {
    Site::with(|settings, _| {
        settings.authentication = Authentication::Keys;
        settings.tokens = Some(tokens);
    })
}

pub(crate) fn believing_rsa() -> Site {
    site(settings(TokenAlgorithm::Rs256, rsa().public.as_bytes()))
}

/// The claims of a good token, with these in their place or besides; null leaves one out.
pub(crate) fn claims(change: Value) -> Value {
    let mut claims = json!({"iss": "https://login.example.org", "aud": "tasklane", "sub": "alice",
        "exp": NOW + 600, "scopes": "read submit work openid"});
    let members = claims.as_object_mut().unwrap();
    members.extend(change.as_object().unwrap().clone());
    members.retain(|_, value| !value.is_null());
    claims
}

pub(crate) fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::RS256), claims, &rsa_key()).unwrap()
}

fn call(site: &Site, token: &str, method: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = if method == "GET" { String::new() } else { body.to_string() };
    site.send(method, path, &headers, body.as_bytes())
}

pub(crate) fn look(site: &Site, token: &str) -> Reply {
    call(site, token, "GET", "/api/v1/tasks", &Value::Null)
}

#[track_caller]
pub(crate) fn denied(site: &Site, token: &str) {
    let reply = look(site, token);
    reply.refused(401, "unauthenticated");
    assert_eq!(reply.header("www-authenticate"), Some("bearer realm=\"tasklane\""));
}

#[test]
fn each_algorithm_lets_in_who_has_the_right_signature() {
    let hs = EncodingKey::from_secret(SECRET);
    let pair = ed();
    let ed_key = EncodingKey::from_ed_pem(pair.private.as_bytes()).unwrap();
    for (algorithm, inner, file, key) in [
        (TokenAlgorithm::Hs256, Algorithm::HS256, SECRET, hs),
        (TokenAlgorithm::Rs256, Algorithm::RS256, rsa().public.as_bytes(), rsa_key()),
        (TokenAlgorithm::EdDsa, Algorithm::EdDSA, pair.public.as_bytes(), ed_key),
    ] {
        let site = site(settings(algorithm, file));
        let token = encode(&Header::new(inner), &claims(json!({})), &key).unwrap();
        for _ in 0..2 {
            assert_eq!(look(&site, &token).status, 200, "{algorithm:?}");
        }
        let body = json!({"type": "a"});
        assert_eq!(call(&site, &token, "POST", "/api/v1/tasks", &body).status, 201);
        let wrong = format!("{}A", &token[..token.len() - 4]);
        denied(&site, &wrong);
    }
}

#[test]
fn a_set_of_keys_holds_the_present_and_the_next() {
    let (pair, other, foreign) = (ed(), ed(), ed());
    let key = |pair: &Pair| EncodingKey::from_ed_pem(pair.private.as_bytes()).unwrap();
    let rsa_jwk = Jwk::from_encoding_key(&rsa_key(), Algorithm::RS256).unwrap();
    let set = JwkSet { keys: vec![rsa_jwk, pair.jwk("1"), other.jwk("2")] };
    let file = serde_json::to_vec(&set).unwrap();
    let site = site(settings(TokenAlgorithm::EdDsa, &file));
    let token = |pair: &Pair, id: Option<&str>| {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims(json!({})), &key(pair)).unwrap()
    };
    for good in [token(&pair, Some("1")), token(&other, Some("2")), token(&other, None)] {
        assert_eq!(look(&site, &good).status, 200);
    }
    for bad in [token(&pair, Some("2")), token(&pair, Some("3")), token(&foreign, None)] {
        denied(&site, &bad);
    }
    // One in the set is of another kind.
    denied(&site, &signed(&claims(json!({}))));
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let padded = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for digit in 0..=chunk.len() {
            text.push(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63] as char);
        }
    }
    text
}

#[test]
fn a_token_ends_by_the_stores_clock_also_for_who_is_known() {
    let site = believing_rsa();
    let token = signed(&claims(json!({"exp": NOW + 60})));
    assert_eq!(look(&site, &token).status, 200);
    site.pass(Duration::from_secs(89));
    assert_eq!(look(&site, &token).status, 200);
    site.pass(Duration::from_secs(1));
    denied(&site, &token);
}

#[test]
fn what_a_token_must_say_is_as_it_is_set() {
    let site = site(TokenSettings {
        issuer: "https://other.example.org".into(),
        audience: "queue".into(),
        leeway: Duration::ZERO,
        scopes_claim: "may".into(),
        ..settings(TokenAlgorithm::Rs256, rsa().public.as_bytes())
    });
    let other = |change: Value| {
        let mut other = claims(json!({"iss": "https://other.example.org", "aud": "queue",
            "exp": NOW + 60, "may": "read", "scopes": null}));
        other.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        signed(&other)
    };
    for change in [
        json!({"iss": "https://login.example.org"}),
        json!({"aud": "tasklane"}),
        json!({"may": null, "scopes": "read"}),
    ] {
        denied(&site, &other(change));
    }
    let token = other(json!({}));
    assert_eq!(look(&site, &token).status, 200);
    site.pass(Duration::from_secs(60));
    denied(&site, &token);
}

#[test]
fn a_token_reaches_as_far_as_its_scopes_say() {
    let site = believing_rsa();
    let scopes = json!([{"verb": "submit", "queues": ["mail*"]}, {"verb": "read", "types": ["a"]}]);
    let token = signed(&claims(json!({"scopes": scopes})));
    let submit = |task: Value| call(&site, &token, "POST", "/api/v1/tasks", &task);
    assert_eq!(submit(json!({"type": "a", "queue": "mail.eu"})).status, 201);
    assert_eq!(submit(json!({"type": "b", "queue": "mail"})).status, 201);
    submit(json!({"type": "a", "queue": "video"})).refused(403, "insufficient-scope");
    let seen = look(&site, &token).json();
    assert_eq!(seen["tasks"].as_array().unwrap().len(), 1, "{seen}");
    let path = "/admin/queues/mail/pause";
    call(&site, &token, "POST", path, &json!({})).refused(403, "insufficient-scope");
}

#[test]
fn a_worker_belongs_to_the_subject() {
    let site = believing_rsa();
    let token = |change: Value| signed(&claims(change));
    let mail = json!([{"verb": "work", "queues": ["mail"]}]);
    let (alice, bob) = (token(json!({})), token(json!({"sub": "bob"})));
    let registered = call(&site, &alice, "POST", "/internal/workers/register", &json!({}));
    let path = format!("/internal/workers/{}", registered.string("/worker_id"));
    let beat = |token: &str| call(&site, token, "POST", &format!("{path}/heartbeat"), &json!({}));
    assert_eq!(beat(&alice).status, 200);
    assert_eq!(beat(&token(json!({"exp": NOW + 900}))).status, 200, "the next one of hers");
    beat(&bob).refused(403, "insufficient-scope");
    beat(&token(json!({"scopes": mail}))).refused(403, "insufficient-scope");
    // No key passes for a subject, and no subject for a key.
    let keyed = Keyed::on(site);
    let reply = keyed.post(&keyed.root, &format!("{path}/heartbeat"), &json!({}));
    reply.refused(403, "insufficient-scope");
}

#[test]
fn what_a_subject_does_is_recorded_under_its_name() {
    let site = believing_rsa();
    let token = signed(&claims(json!({"scopes": "operate admin"})));
    call(&site, &token, "POST", "/admin/queues/mail/pause", &json!({}));
    denied(&site, &signed(&claims(json!({"aud": "other", "sub": "mallory"}))));
    let records = || call(&site, &token, "GET", "/admin/audit", &Value::Null).json();
    site.eventually("the refusal is recorded", || {
        records()["records"][0]["outcome"] == "token for another audience"
    });
    let records = records();
    assert_eq!(records["records"][0]["who"], "nobody");
    assert_eq!(records["records"][1]["who"], "subject alice");
}

fn change(site: &Site, change: impl FnOnce(&mut Settings)) {
    let mut settings = (*site.engine.settings()).clone();
    change(&mut settings);
    site.run(site.engine.change_settings(settings)).unwrap();
}

#[test]
fn new_keys_count_at_once_and_end_what_the_old_ones_opened() {
    let site = believing_rsa();
    let token = signed(&claims(json!({})));
    let header = format!("authorization: Bearer {token}\r\n");
    let mut stream = Listener::with(&site, "", &header);
    assert_eq!(stream.expect().kind, "system.hello");
    // The same keys again change nothing.
    change(&site, |settings| settings.breaker.failures += 1);
    let next = ed();
    let tokens = self::settings(TokenAlgorithm::EdDsa, next.public.as_bytes());
    change(&site, |settings| settings.tokens = Some(tokens));
    assert_eq!(stream.expect().kind, "system.denied");
    denied(&site, &token);
    let key = EncodingKey::from_ed_pem(next.private.as_bytes()).unwrap();
    let token = encode(&Header::new(Algorithm::EdDSA), &claims(json!({})), &key).unwrap();
    assert_eq!(look(&site, &token).status, 200);
    change(&site, |settings| settings.tokens = None);
    denied(&site, &token);
}

#[test]
fn where_too_much_was_tried_only_what_is_known_is_let_in() {
    let site = believing_rsa();
    let (known, fresh) = (signed(&claims(json!({}))), signed(&claims(json!({"exp": NOW + 700}))));
    assert_eq!(look(&site, &known).status, 200);
    let failures = Rate { per_second: 1.0, burst: 2.0 };
    change(&site, |settings| settings.rate_limits.failures = failures);
    for _ in 0..2 {
        denied(&site, "a.b.c");
    }
    look(&site, "a.b.c").refused(429, "rate-limited");
    look(&site, &fresh).refused(429, "rate-limited");
    assert_eq!(look(&site, &known).status, 200);
    site.pass(Duration::from_secs(1));
    assert_eq!(look(&site, &fresh).status, 200);
}

#[test]
fn callers_with_one_subject_are_counted_together() {
    let site = believing_rsa();
    let key = Rate { per_second: 1.0, burst: 2.0 };
    change(&site, |settings| settings.rate_limits.key = key);
    assert_eq!(look(&site, &signed(&claims(json!({})))).status, 200);
    assert_eq!(look(&site, &signed(&claims(json!({"exp": NOW + 5})))).status, 200);
    look(&site, &signed(&claims(json!({"exp": NOW + 6})))).refused(429, "rate-limited");
    assert_eq!(look(&site, &signed(&claims(json!({"sub": "bob"})))).status, 200);
}

#[test]
fn a_file_of_keys_is_taken_for_what_it_is() {
    let read = |algorithm, file: &[u8]| TokenKeys::read(algorithm, file).err();
    let (pair, public) = (ed(), rsa().public.as_bytes());
    assert_eq!(read(TokenAlgorithm::Hs256, public), Some(BadKeys::Public));
    assert_eq!(read(TokenAlgorithm::Rs256, rsa().private.as_bytes()), Some(BadKeys::Private));
    assert_eq!(read(TokenAlgorithm::EdDsa, pair.private.as_bytes()), Some(BadKeys::Private));
    assert_eq!(read(TokenAlgorithm::EdDsa, public), Some(BadKeys::NoKey));
    assert_eq!(read(TokenAlgorithm::Rs256, pair.public.as_bytes()), Some(BadKeys::NoKey));
    assert_eq!(read(TokenAlgorithm::Rs256, SECRET), Some(BadKeys::NoKey));
    assert_eq!(read(TokenAlgorithm::Hs256, b"too short\n"), Some(BadKeys::Short));
    assert_eq!(read(TokenAlgorithm::Rs256, b""), Some(BadKeys::NoKey));
    assert_eq!(read(TokenAlgorithm::Rs256, b"{}"), Some(BadKeys::NoKey));
    let set = JwkSet { keys: vec![Jwk::from_encoding_key(&rsa_key(), Algorithm::RS256).unwrap()] };
    let set = serde_json::to_vec(&set).unwrap();
    assert_eq!(read(TokenAlgorithm::Rs256, &set), None);
    assert_eq!(read(TokenAlgorithm::Hs256, &set), Some(BadKeys::NoKey));
    let many =
        JwkSet { keys: vec![Jwk::from_encoding_key(&rsa_key(), Algorithm::RS256).unwrap(); 17] };
    let many = serde_json::to_vec(&many).unwrap();
    assert_eq!(read(TokenAlgorithm::Rs256, &many), Some(BadKeys::TooMany));
    let shown = format!("{:?}", TokenKeys::read(TokenAlgorithm::Hs256, SECRET).unwrap());
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn an_open_server_and_one_without_tokens_believe_nobody() {
    let token = signed(&claims(json!({})));
    let site = Site::with(|settings, _| settings.authentication = Authentication::Keys);
    denied(&site, &token);
    assert_eq!(look(&Site::new(), &token).status, 200, "it asks nobody");
}
