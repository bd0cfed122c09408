//! Tokens that nobody should believe.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use crate::token::{
    NOW, Pair, base64, believing_rsa, claims, denied, ed, look, rsa, rsa_key, signed,
};

/// Header and claims as somebody wrote them, and no signature, or this one.
fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| base64(value.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

#[test]
fn unsigned_tokens_and_public_keys_as_secrets_are_refused() {
    let site = believing_rsa();
    let good = signed(&claims(json!({})));
    assert_eq!(look(&site, &good).status, 200);
    let signature = good.rsplit('.').next().unwrap();
    for algorithm in ["none", "None", "NONE", "nOnE", "HS256", "RS384", ""] {
        for signature in ["", signature] {
            let header = json!({"typ": "JWT", "alg": algorithm});
            denied(&site, &by_hand(&header, &claims(json!({})), signature));
        }
    }
    denied(&site, &by_hand(&json!({"typ": "JWT"}), &claims(json!({})), signature));
    // The classic: what all know, used as what nobody should.
    for secret in [rsa().public.as_bytes(), rsa().public.trim().as_bytes()] {
        let key = EncodingKey::from_secret(secret);
        let forged = encode(&Header::new(Algorithm::HS256), &claims(json!({})), &key).unwrap();
        denied(&site, &forged);
    }
    // A key that the token itself brings.
    let pair = ed();
    let own = EncodingKey::from_ed_pem(pair.private.as_bytes()).unwrap();
    let header = Header { jwk: Some(pair.jwk("1")), ..Header::new(Algorithm::EdDSA) };
    denied(&site, &encode(&header, &claims(json!({})), &own).unwrap());
    let other = Pair::of(&KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap());
    let other = EncodingKey::from_rsa_pem(other.private.as_bytes()).unwrap();
    let header = Header::new(Algorithm::RS256);
    denied(&site, &encode(&header, &claims(json!({})), &other).unwrap());
    let header = Header { crit: Some(vec!["exp".into()]), ..Header::new(Algorithm::RS256) };
    denied(&site, &encode(&header, &claims(json!({})), &rsa_key()).unwrap());
}

#[test]
fn claims_of_the_wrong_type_or_meaning_are_refused() {
    let site = believing_rsa();
    let long = "x".repeat(129);
    for change in [
        json!({"exp": null}),
        json!({"exp": (NOW + 600).to_string()}),
        json!({"exp": true}),
        json!({"exp": [NOW + 600]}),
        json!({"exp": -1}),
        json!({"exp": 1e300}),
        json!({"exp": NOW - 30}),
        json!({"nbf": NOW + 31}),
        json!({"nbf": NOW.to_string()}),
        json!({"nbf": {}}),
        json!({"aud": null}),
        json!({"aud": "other"}),
        json!({"aud": ["other", "tasklane.evil"]}),
        json!({"aud": ["tasklane", 5]}),
        json!({"aud": {"tasklane": true}}),
        json!({"aud": []}),
        json!({"iss": null}),
        json!({"iss": "https://login.example.org/"}),
        json!({"iss": ["https://login.example.org"]}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": "a\u{0}b"}),
        json!({"sub": long}),
        json!({"scopes": 7}),
        json!({"scopes": [7]}),
        json!({"scopes": [{"verb": "rule"}]}),
        json!({"scopes": [{"verb": "read", "queues": []}]}),
        json!({"scopes": [{"verb": "read", "queue": "mail"}]}),
        json!({"scopes": [{"verb": "admin", "queues": ["mail"]}]}),
        json!({"scopes": "read read"}),
    ] {
        let reply = look(&site, &signed(&claims(change.clone())));
        assert_eq!(reply.status, 401, "{change}: {reply:?}");
        assert_eq!(reply.header("www-authenticate"), Some("bearer realm=\"tasklane\""));
    }
    for change in [
        json!({"exp": NOW - 29}),
        json!({"exp": NOW as f64 + 0.5}),
        json!({"nbf": NOW + 30}),
        json!({"aud": ["other", "tasklane"]}),
        json!({"scopes": ["read", "profile", {"verb": "submit"}]}),
    ] {
        let reply = look(&site, &signed(&claims(change.clone())));
        assert_eq!(reply.status, 200, "{change}: {reply:?}");
    }
    for none in [json!({"scopes": null}), json!({"scopes": "openid"}), json!({"scopes": []})] {
        look(&site, &signed(&claims(none))).refused(403, "insufficient-scope");
    }
}

#[test]
fn what_is_garbled_or_huge_is_refused() {
    let site = believing_rsa();
    let good = signed(&claims(json!({})));
    let parts: Vec<&str> = good.split('.').collect();
    let halves = &good[..good.len() / 2];
    let swapped = format!("{}.{}.{}", parts[1], parts[0], parts[2]);
    let other = signed(&claims(json!({"sub": "root"})));
    let mixed = format!("{}.{}.{}", parts[0], other.split('.').nth(1).unwrap(), parts[2]);
    let unsigned = format!("{}.{}.", parts[0], parts[1]);
    let four = format!("{good}.x");
    let padded = format!("{good}==");
    for bad in [".", "..", "a.b.c", halves, &swapped, &mixed, &unsigned, &four, &padded] {
        denied(&site, bad);
    }
    let huge = signed(&claims(json!({"filler": "x".repeat(9_000)})));
    denied(&site, &huge);
    let giant = signed(&claims(json!({"filler": "x".repeat(20_000)})));
    look(&site, &giant).refused(431, "headers-too-large");
    let deep = format!("{}1{}", "[".repeat(3_000), "]".repeat(3_000));
    let deep = format!("{}.{}.{}", parts[0], base64(deep.as_bytes()), parts[2]);
    denied(&site, &deep);
    assert_eq!(look(&site, &good).status, 200);
}
