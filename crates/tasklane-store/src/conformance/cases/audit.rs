//! The audit log: one chain.

use tasklane_core::{AuditEntry, AuditRecord, Chain, ChainHash, Who};

use crate::conformance::Fixture;
use crate::conformance::drafting::{days, secs};
use crate::conformance::scene::Scene;
use crate::{AuditFrom, Prune};

fn entry(action: &str) -> AuditEntry {
    AuditEntry::new(&Who::Anyone, action, AuditEntry::DONE).on("q").from(Some("192.0.2.1"))
}

fn append<F: Fixture>(scene: &Scene<'_, F>, actions: &[&str]) -> Vec<AuditRecord> {
    let entries = actions.iter().map(|action| entry(action)).collect();
    scene.ask(|store| store.append_audit(entries))
}

fn whole<F: Fixture>(scene: &Scene<'_, F>) -> Vec<AuditRecord> {
    let (mut records, mut after) = (Vec::<AuditRecord>::new(), 0);
    loop {
        let page = scene.ask(|store| store.audit(AuditFrom::After(after), 7));
        let Some(last) = page.last() else { return records };
        after = last.number;
        records.extend(page);
    }
}

/// Follows the chain; says how many records there are.
fn verified<F: Fixture>(scene: &Scene<'_, F>) -> usize {
    let (records, mut chain) = (whole(scene), Chain::default());
    for record in &records {
        chain.follow(record).unwrap();
    }
    records.len()
}

fn numbers(records: &[AuditRecord]) -> Vec<u64> {
    records.iter().map(|record| record.number).collect()
}

pub fn records_are_numbered_timed_and_chained(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = append(&scene, &["pause"]).remove(0);
    scene.pass(secs(1));
    let second = append(&scene, &["resume"]).remove(0);
    assert_eq!((first.number, first.previous), (1, ChainHash::NONE));
    assert_eq!((second.number, second.previous, second.at), (2, first.hash, scene.now()));
    assert_eq!(second.entry, entry("resume"));
    assert_eq!(whole(&scene), [first, second]);
    assert_eq!(verified(&scene), 2);
}

pub fn records_of_one_call_follow_each_other(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let made = append(&scene, &["a", "b", "c"]);
    assert_eq!(numbers(&made), [1, 2, 3]);
    assert_eq!(whole(&scene), made);
    assert_eq!(append(&scene, &[]), []);
    assert_eq!(verified(&scene), 3);
}

pub fn appends_under_way_together_make_one_chain(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let store = scene.store();
    let answers: Vec<_> =
        (0..20).map(|n| store.append_audit(vec![entry(&format!("a{n}")), entry("b")])).collect();
    for answer in answers {
        scene.wait(answer);
    }
    assert_eq!(verified(&scene), 40);
}

pub fn the_log_is_read_in_both_directions_a_page_at_a_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    append(&scene, &["a", "b", "c", "d", "e"]);
    let read = |from, limit| numbers(&scene.ask(|store| store.audit(from, limit)));
    assert_eq!(read(AuditFrom::After(0), 2), [1, 2]);
    assert_eq!(read(AuditFrom::After(2), 9), [3, 4, 5]);
    assert_eq!(read(AuditFrom::Newest, 2), [5, 4]);
    assert_eq!(read(AuditFrom::Before(4), 2), [3, 2]);
    assert_eq!(read(AuditFrom::Before(1), 9), [0; 0]);
    assert_eq!(read(AuditFrom::After(u64::MAX), 9), [0; 0]);
    assert_eq!(read(AuditFrom::Before(u64::MAX), 1), [5]);
}

pub fn the_chain_goes_on_after_a_restart(fixture: &mut impl Fixture) {
    let mut scene = Scene::new(fixture);
    append(&scene, &["a", "b"]);
    scene.reopen();
    append(&scene, &["c"]);
    let there = if scene.differences().survives_reopen { 3 } else { 1 };
    assert_eq!(verified(&scene), there);
}

pub fn records_are_kept_for_a_year(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    append(&scene, &["a", "b"]);
    scene.pass(secs(1));
    append(&scene, &["c"]);
    scene.pass(days(365) - secs(2));
    assert_eq!(scene.prune(Prune::default()).audit_records, 0);
    scene.pass(secs(1));
    assert_eq!(scene.prune(Prune::default()).audit_records, 2);
    assert_eq!(numbers(&whole(&scene)), [3]);
}

pub fn records_are_kept_by_number_too(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    append(&scene, &["a", "b", "c", "d", "e"]);
    let prune = Prune { audit_max: 2, ..Prune::default() };
    assert_eq!(scene.prune(prune).audit_records, 3);
    assert_eq!(numbers(&whole(&scene)), [4, 5]);
    assert_eq!(scene.prune(prune).audit_records, 0);
}

pub fn the_chain_survives_a_cut(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let made = append(&scene, &["a", "b", "c", "d"]);
    scene.prune(Prune { audit_max: 2, ..Prune::default() });
    append(&scene, &["e"]);
    let kept = whole(&scene);
    assert_eq!((kept[0].number, kept[0].previous), (3, made[1].hash));
    assert_eq!(verified(&scene), 3);
}

pub fn the_newest_record_stays_so_that_the_chain_goes_on(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let last = append(&scene, &["a", "b"]).remove(1);
    scene.pass(days(9_000));
    scene.prune(Prune { audit_max: 0, ..Prune::default() });
    assert_eq!(whole(&scene), std::slice::from_ref(&last));
    let next = append(&scene, &["c"]).remove(0);
    assert_eq!((next.number, next.previous), (3, last.hash));
}

pub fn an_emergency_leaves_the_log_alone(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    append(&scene, &["a", "b"]);
    assert_eq!(scene.prune(Prune::emergency()).audit_records, 0);
    assert_eq!(verified(&scene), 2);
}

pub fn a_clock_that_steps_back_breaks_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    append(&scene, &["a"]);
    scene.set_wall(scene.now().minus(days(2)));
    append(&scene, &["b"]);
    assert_eq!(verified(&scene), 2);
    assert_eq!(whole(&scene)[1].at, scene.now());
}

pub fn odd_texts_are_kept_as_they_are(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let odd = AuditEntry {
        who: "".into(),
        action: "a\0b\n'\"; --".into(),
        target: Some("".into()),
        from: None,
        outcome: "größe".into(),
        count: u64::MAX,
    };
    let entries = vec![odd.clone()];
    scene.ask(|store| store.append_audit(entries));
    assert_eq!(whole(&scene)[0].entry, odd);
    assert_eq!(verified(&scene), 1);
}
