//! Keys: made, shown, taken back.

use std::time::Duration;

use tasklane_core::{
    ApiKey, Credential, Grants, NewApiKey, Reach, Scope, SeededRandom, Verb, When, limits,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{days, matching, secs};
use crate::conformance::scene::Scene;
use crate::{ApiKeyRefusal, Prune};

fn new_key(seed: u64, expires: Option<When>) -> NewApiKey {
    let credential = Credential::generate(&mut SeededRandom::new(seed));
    NewApiKey::new(&credential, "the mailer", Grants::everything(), expires).unwrap()
}

fn add<F: Fixture>(scene: &Scene<'_, F>, key: NewApiKey) -> Result<ApiKey, ApiKeyRefusal> {
    scene.ask(|store| store.add_api_key(key))
}

fn keys<F: Fixture>(scene: &Scene<'_, F>) -> Vec<ApiKey> {
    scene.ask(|store| store.api_keys())
}

pub fn a_key_is_kept_as_it_was_made(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let reach = Reach { queues: matching(&["mail*", "größe"]), types: matching(&[]) };
    let everywhere = Scope { verb: Verb::Read, reach: Reach::default() };
    let grants = Grants::new([Scope { verb: Verb::Work, reach }, everywhere]).unwrap();
    let mut made = Vec::new();
    for seed in 0..5 {
        let key = NewApiKey { grants: grants.clone(), ..new_key(seed, None) };
        let kept = add(&scene, key.clone()).unwrap();
        assert_eq!((kept.id, kept.hash, &kept.name), (key.id, key.hash, &key.name));
        assert_eq!((&kept.grants, kept.created_at), (&key.grants, scene.now()));
        assert_eq!((kept.expires_at, kept.revoked_at), (None, None));
        made.push(kept);
    }
    made.sort_by_key(|key| key.id);
    assert_eq!(keys(&scene), made);
}

pub fn a_key_ends_by_the_stores_clock(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let after = add(&scene, new_key(1, Some(When::After(secs(60))))).unwrap();
    assert_eq!(after.expires_at, Some(scene.now().plus(secs(60))));
    let at = scene.now().plus(days(9_000));
    let key = add(&scene, new_key(2, Some(When::At(at)))).unwrap();
    assert_eq!(key.expires_at, Some(at));
}

pub fn a_key_that_would_have_ended_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for when in [When::At(scene.now()), When::After(Duration::ZERO)] {
        let refused = add(&scene, new_key(1, Some(when)));
        assert!(matches!(refused, Err(ApiKeyRefusal::Invalid(_))), "{refused:?}");
    }
    assert_eq!(keys(&scene), []);
}

pub fn an_id_belongs_to_one_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = add(&scene, new_key(1, None)).unwrap();
    let again = NewApiKey { hash: new_key(2, None).hash, ..new_key(1, None) };
    assert_eq!(add(&scene, again.clone()), Err(ApiKeyRefusal::Exists));
    scene.ask(|store| store.revoke_api_key(first.id));
    assert_eq!(add(&scene, again), Err(ApiKeyRefusal::Exists));
    assert_eq!(keys(&scene)[0].hash, first.hash);
}

pub fn a_revoked_key_says_since_when(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let key = add(&scene, new_key(1, None)).unwrap();
    let other = add(&scene, new_key(2, None)).unwrap();
    scene.pass(secs(5));
    let revoked = scene.ask(|store| store.revoke_api_key(key.id)).unwrap();
    assert_eq!(revoked, ApiKey { revoked_at: Some(scene.now()), ..key });
    let shown = keys(&scene);
    assert!(shown.contains(&revoked) && shown.contains(&other), "{shown:?}");
}

pub fn revoking_again_changes_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let key = add(&scene, new_key(1, None)).unwrap();
    let revoked = scene.ask(|store| store.revoke_api_key(key.id));
    scene.pass(secs(5));
    assert_eq!(scene.ask(|store| store.revoke_api_key(key.id)), revoked);
}

pub fn an_unknown_key_cannot_be_revoked(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    add(&scene, new_key(1, None)).unwrap();
    assert_eq!(scene.ask(|store| store.revoke_api_key(new_key(2, None).id)), None);
    assert_eq!(keys(&scene)[0].revoked_at, None);
}

pub fn keys_that_ended_are_shown_for_thirty_days(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let revoked = add(&scene, new_key(1, None)).unwrap();
    scene.ask(|store| store.revoke_api_key(revoked.id));
    add(&scene, new_key(2, Some(When::After(days(1))))).unwrap();
    let good = add(&scene, new_key(3, None)).unwrap();
    scene.pass(days(30) - secs(1));
    assert_eq!(scene.prune(Prune::default()).api_keys, 0);
    scene.pass(secs(1));
    assert_eq!(scene.prune(Prune::default()).api_keys, 1);
    assert_eq!(keys(&scene).len(), 2);
    scene.pass(days(1));
    assert_eq!(scene.prune(Prune::default()).api_keys, 1);
    assert_eq!(keys(&scene), [good]);
}

pub fn the_last_key_is_never_pruned(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for number in 1..=3 {
        let key = add(&scene, new_key(number, None)).unwrap();
        scene.ask(|store| store.revoke_api_key(key.id));
    }
    scene.pass(days(1_000));
    assert_eq!(scene.prune(Prune::emergency()).api_keys, 2);
    assert_eq!(keys(&scene).len(), 1, "so that it is known that there were keys");
    assert_eq!(scene.prune(Prune::emergency()).api_keys, 0);
}

pub fn a_key_that_is_good_is_never_pruned(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let key = add(&scene, new_key(1, None)).unwrap();
    let long = add(&scene, new_key(2, Some(When::After(days(2_000))))).unwrap();
    scene.pass(days(1_000));
    assert_eq!(scene.prune(Prune::emergency()).api_keys, 0);
    let mut kept = [key, long];
    kept.sort_by_key(|key| key.id);
    assert_eq!(keys(&scene), kept);
}

pub fn keys_and_revocations_survive_a_restart(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    let key = add(&scene, new_key(1, Some(When::After(days(9))))).unwrap();
    add(&scene, new_key(2, None)).unwrap();
    scene.ask(|store| store.revoke_api_key(key.id));
    let before = keys(&scene);
    scene.reopen();
    let expected = if scene.differences().survives_reopen { before } else { Vec::new() };
    assert_eq!(keys(&scene), expected);
}

pub fn there_may_be_only_so_many_keys(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let store = scene.store();
    let seeds: Vec<_> = (0..limits::API_KEYS_MAX as u64).collect();
    // Many at once, but not so many that the last would wait longer than a store lets anybody wait.
    for some in seeds.chunks(500) {
        let added: Vec<_> =
            some.iter().map(|seed| store.add_api_key(new_key(*seed, None))).collect();
        for answer in added {
            scene.wait(answer).unwrap();
        }
    }
    assert_eq!(add(&scene, new_key(u64::MAX, None)), Err(ApiKeyRefusal::TooMany));
}
