//! What becomes of settings that differ.

use super::super::reload::merge;
use super::super::values::Values;
use super::of_file;

#[test]
fn live_settings_are_taken_over_and_the_others_are_named() {
    let fresh = of_file(
        "listen = \"0.0.0.0:1\"\nlease_ms = 60000\n[breaker]\nfailures = 9\n\
         [queues.mail]\nweight = 2\n[priorities.low]\nmax_retries = 1\n",
    );
    let fresh = fresh.unwrap().values;
    let (next, reloaded) = merge(&Values::default(), &fresh);
    assert_eq!(
        reloaded.applied,
        ["breaker.failures", "priorities.low.max_retries", "queues.mail.weight"]
    );
    assert_eq!(reloaded.needs_restart, ["listen", "lease_ms", "heartbeat_ms"]);
    assert_eq!((next.server.breaker.failures, next.listen.as_str()), (9, "127.0.0.1:7170"));
    assert_eq!(next.rules, Values::default().rules);
    // The restart is still needed the next time; what was applied is not told again.
    let (next, again) = merge(&next, &fresh);
    assert_eq!((again.applied.len(), again.needs_restart), (0, reloaded.needs_restart));
    // What is gone from the file is gone.
    let (next, back) = merge(&next, &Values::default());
    assert_eq!(back.applied, reloaded.applied);
    assert!(next.queues.is_empty());
    assert_eq!(merge(&next, &Values::default()).1, Default::default());
}
