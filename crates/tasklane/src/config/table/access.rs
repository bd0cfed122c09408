//! Settings of who may call, and how often.

use super::whole;
use crate::config::kind::{Kind, Value};
use crate::config::setting::Setting;
use crate::config::values::RateValues;

const PER_SECOND: Kind = Kind::Decimal { min: 0.0, max: 1_000_000.0 };
const BURST: Kind = whole(1, 1_000_000_000);

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        "rate_limits.key_per_second",
        PER_SECOND,
        "Calls that one key may make in a second, each task of a batch as one; more get 429. Calls that keep or settle leases are not counted. 0 for no limit.",
        |v, _| &mut v.rates.key,
    ),
    Setting::new(
        "rate_limits.key_burst",
        BURST,
        "Calls that one key may make at once, if it has made few before: those of a second unless set.",
        |v, _| &mut v.rates.key_burst,
    )
    .derived(|values| Value::Whole(RateValues::burst(values.rates.key).into())),
    Setting::new(
        "rate_limits.address_per_second",
        PER_SECOND,
        "The same for one address, whatever its keys; of IPv6 a network of 64 bits is one. 0 for no limit.",
        |v, _| &mut v.rates.address,
    ),
    Setting::new(
        "rate_limits.address_burst",
        BURST,
        "Calls from one address at once: those of a second unless set.",
        |v, _| &mut v.rates.address_burst,
    )
    .derived(|values| Value::Whole(RateValues::burst(values.rates.address).into())),
    Setting::new(
        "rate_limits.failures_per_second",
        PER_SECOND,
        "Calls without a good key that one address may make in a second; more get 429 instead of 401 and are not recorded. 0 for no limit.",
        |v, _| &mut v.rates.failures,
    ),
    Setting::new(
        "rate_limits.failures_burst",
        BURST,
        "Calls without a good key from one address at once.",
        |v, _| &mut v.rates.failures_burst,
    ),
    Setting::new(
        "jwt.key_file",
        Kind::Optional("FILE"),
        "Believe JSON Web Tokens that were signed with a key of this file, apart from keys of the store: the public key in PEM, a JSON Web Key Set, or for HS256 the secret itself. Every reload reads it anew. Whether tokens are asked for is settled at the start.",
        |v, _| &mut v.tokens.key_file,
    )
    .example("/etc/tasklane/issuer.pem"),
    Setting::new(
        "jwt.algorithm",
        Kind::Choice(&["RS256", "EdDSA", "HS256"]),
        "How tokens are signed; those signed in another way are refused.",
        |v, _| &mut v.tokens.algorithm,
    ),
    Setting::new(
        "jwt.issuer",
        Kind::Optional("TEXT"),
        "What the claim iss must be; needed with jwt.key_file.",
        |v, _| &mut v.tokens.issuer,
    )
    .example("https://login.example.org"),
    Setting::new(
        "jwt.audience",
        Kind::Text("TEXT"),
        "What the claim aud must be or hold.",
        |v, _| &mut v.tokens.audience,
    )
    .example("queue"),
    Setting::new(
        "jwt.leeway_seconds",
        Kind::Seconds { min: 0.0, max: 3_600.0 },
        "How far the clocks of issuer and server may be apart.",
        |v, _| &mut v.tokens.leeway,
    ),
    Setting::new(
        "jwt.scopes_claim",
        Kind::Text("NAME"),
        "The claim that says what a token allows: verbs in a text, or a list of scopes as keys have them.",
        |v, _| &mut v.tokens.scopes_claim,
    )
    .example("scope"),
];
