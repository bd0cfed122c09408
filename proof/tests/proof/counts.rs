//! What ordinary tests and short benchmarks do is a number in their own files, so that they can be run
//! without `make`. It is the one in `counts.mk`.
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

/// Counts of other tests: the file, what is written before the number, and its name.
const TESTS: [(&str, &str, &str); 4] = [
    (
        "tasklane-postgres/tests/postgres/failover.rs",
        "const FAILOVERS: usize = ",
        "FAILOVERS_postgres_short",
    ),
    ("tasklane-redis/tests/store/sentinel.rs", "const FAILOVERS: u32 = ", "FAILOVERS_2_short"),
    ("tasklane-server/tests/http/events.rs", "\"TASKLANE_EVENTS_TASKS\", ", "EVENTS_TASKS_short"),
    (
        "tasklane-server/tests/http/events.rs",
        "\"TASKLANE_EVENTS_RECONNECTS\", ",
        "EVENTS_RECONNECTS_short",
    ),
];

/// Scripts with the names of what their short forms do.
const BENCHMARKS: [(&str, &str); 4] = [
    ("bench/core", "BENCH_CORE_short"),
    ("bench/growth", "BENCH_GROWTH_short"),
    ("bench/http", "BENCH_HTTP_short"),
    ("bench/run", "BENCH_RUN_short"),
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
fn other_tests_do_as_much_as_is_written_down() {
    for (file, before, name) in TESTS {
        let text = read(&format!("crates/{file}"));
        let number = text.split_once(before).unwrap().1;
        let end = number.find(|letter: char| !letter.is_ascii_digit() && letter != '_').unwrap();
        assert_eq!(number.split_at(end).0.replace('_', ""), count(name), "{file} and {name}");
    }
}

#[test]
fn short_benchmarks_do_as_much_as_is_written_down() {
    for (script, name) in BENCHMARKS {
        let text = read(script);
        let short = text.lines().find(|line| line.contains("= short ]")).unwrap();
        assert!(short.contains(&count(name)), "{script} and {name}");
    }
}

#[test]
fn fuzzing_makes_as_many_inputs_as_is_written_down() {
    let own = TARGETS.map(|target| format!("{}={}", target.name, target.short)).join(",");
    assert!(count("FUZZ_short").ends_with(&own), "{own} and counts.mk");
}
