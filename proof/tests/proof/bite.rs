//! The catalogue of bugs fits the code that is here. Whether each is caught is what `proof bite`
//! shows, which takes longer.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeSet;
use std::path::Path;

use tasklane_proof::bite::catalogue::Catalogue;
use tasklane_proof::bite::tree::replace_once;

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn catalogue() -> Catalogue {
    Catalogue::read(&workspace().join("proof/bite")).unwrap()
}

#[test]
fn every_bug_can_be_put_in() {
    let mut stale = Vec::new();
    for bug in catalogue().bugs {
        let text = std::fs::read_to_string(workspace().join(&bug.file)).unwrap_or_default();
        if let Err(why) = replace_once(&text, &bug.find, &bug.put) {
            stale.push(format!("{}: {}: {why}", bug.name, bug.file));
        }
    }
    assert!(stale.is_empty(), "stale bugs:\n{}", stale.join("\n"));
}

#[test]
fn there_are_enough_of_many_kinds_in_every_crate_that_keeps_or_serves() {
    let catalogue = catalogue();
    let classes: BTreeSet<_> = catalogue.bugs.iter().map(|bug| bug.class.as_str()).collect();
    let areas: BTreeSet<_> = catalogue.bugs.iter().map(|bug| bug.area.as_str()).collect();
    assert!(catalogue.bugs.len() >= 40 && classes.len() >= 20, "{classes:?}");
    assert_eq!(areas, BTreeSet::from(["core", "postgres", "redis", "server", "sqlite"]));
}
