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
];
