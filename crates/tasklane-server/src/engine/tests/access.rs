//! Keys in memory, whatever happens to the store.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tasklane_core::{Credential, Grants, NewApiKey, SeededRandom, is_same_secret};

use super::faulty::Faulty;
use crate::engine::{Denied, Engine};
use crate::settings::{Authentication, Settings};

#[tokio::test]
async fn a_revocation_counts_although_keys_cannot_be_read_anew() {
    let store = Faulty::new();
    let authentication = Authentication::Keys;
    let engine = Engine::new(store.clone(), Settings { authentication, ..Settings::default() });
    engine.refresh_keys().await.unwrap();
    let [kept, lost] = [1, 2].map(|seed| Credential::generate(&mut SeededRandom::new(seed)));
    for credential in [&kept, &lost] {
        let key = NewApiKey::new(credential, "k", Grants::everything(), None).unwrap();
        engine.add_key(key).await.unwrap();
        assert!(engine.admit(Some(&credential.reveal())).is_ok());
    }
    store.fails.store(true, Ordering::Relaxed);
    assert!(engine.refresh_keys().await.is_err());
    let mut changes = engine.keys_changed();
    changes.mark_unchanged();
    let revoked = engine.revoke_key(lost.id).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert_eq!(engine.admit(Some(&lost.reveal())).unwrap_err(), Denied::Ended(lost.id));
    assert!(changes.has_changed().unwrap(), "who reads with it is told");
    assert!(engine.admit(Some(&kept.reveal())).is_ok());
}

/// On a form so long that a comparison that ends early would be thousands of times faster, and with
/// a bound so wide that a busy machine does not break it.
#[test]
fn to_compare_secrets_takes_the_same_time_wherever_they_differ() {
    let one = vec![0x5a; 1 << 20];
    let differing = |at: usize| {
        let mut other = one.clone();
        other[at] ^= 1;
        other
    };
    let others = [differing(0), differing(1 << 19), differing((1 << 20) - 1), one.clone()];
    let mut fastest = [Duration::MAX; 4];
    for _ in 0..40 {
        for (other, fastest) in others.iter().zip(&mut fastest) {
            let started = Instant::now();
            let same = is_same_secret(black_box(&one), black_box(other));
            *fastest = (*fastest).min(started.elapsed());
            assert_eq!(same, one == *other);
        }
    }
    let (least, most) = (fastest.iter().min().unwrap(), fastest.iter().max().unwrap());
    assert!(*most < *least * 4, "{fastest:?}");
    assert!(!is_same_secret(b"a", b"ab") && !is_same_secret(b"ab", b"a"));
}
