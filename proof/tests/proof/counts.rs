//! What ordinary tests do is a number in their own files, so that they can be run without `make`. It is
//! the one in `counts.mk`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::Path;

use tasklane_proof::fuzz::target::TARGETS;

/// The counts of model tests, in the order in which their file has them.
const MODEL_TESTS: [(&str, &[&str]); 4] = [
    ("tasklane-store/tests/conformance.rs", &["MODEL_STEPS_short"]),
    ("tasklane-sqlite/tests/store/model.rs", &["SIM_STEPS_short", "STORE_STEPS_short"]),
    ("tasklane-postgres/tests/postgres/model.rs", &["STORE_STEPS_short"]),
    ("tasklane-redis/tests/store/model.rs", &["STORE_STEPS_short"]),
];

fn read(path: &str) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(workspace.join(path)).unwrap()
}

/// What stands behind a name in `counts.mk`.
fn count(name: &str) -> String {
    let counts = read("proof/counts.mk").replace("\\\n", "");
    let mut pairs = counts.lines().filter_map(|line| line.split_once('='));
    let (_, value) = pairs.find(|(named, _)| named.trim() == name).unwrap();
    value.trim().to_owned()
}

#[test]
fn model_tests_make_as_many_steps_as_is_written_down() {
    for (file, names) in MODEL_TESTS {
        let text = read(&format!("crates/{file}"));
        let calls = text.split("seed_and_steps(").skip(1);
        let steps = calls.map(|call| call.split_once(')').unwrap().0.split_once(',').unwrap().1);
        let steps: Vec<_> = steps.map(|steps| steps.trim().replace('_', "")).collect();
        let written: Vec<_> = names.iter().map(|name| count(name)).collect();
        assert_eq!(steps, written, "{file} and counts.mk");
    }
}

#[test]
fn fuzzing_makes_as_many_inputs_as_is_written_down() {
    let own = TARGETS.map(|target| format!("{}={}", target.name, target.short)).join(",");
    assert!(count("FUZZ_short").ends_with(&own), "{own} and counts.mk");
}
