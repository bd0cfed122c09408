//! How far a long command is, for whoever watches.

use std::process::Command;

use super::{Site, printed, said};

/// Everything that a command draws on a terminal.
fn drawn(site: &Site, arguments: &str) -> String {
    let line = format!("stty rows 24 cols 80; {} {arguments}", env!("CARGO_BIN_EXE_tasklane"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
    command.current_dir(site.folder.path());
    command.env("TASKLANE_SERVER", format!("http://{}", site.address()));
    printed(&command.output().unwrap(), 0)
}

fn tasks(site: &Site, count: usize) {
    let lines = "{\"type\":\"a\"}\n".repeat(count);
    std::fs::write(site.folder.path().join("tasks.ndjson"), lines).unwrap();
}

#[test]
fn many_tasks_from_a_file_move_a_bar_that_leaves_no_trace() {
    let site = Site::new();
    tasks(&site, 10_000);
    let drawn = drawn(&site, "submit --bulk tasks.ndjson");
    assert!(drawn.contains('█') && drawn.contains(" tasks  "), "{drawn:?}");
    let percents = drawn.split(" %").filter_map(|part| part.rsplit(' ').next()?.parse().ok());
    let percents: Vec<u32> = percents.collect();
    assert!(percents.is_sorted() && percents.iter().any(|percent| *percent > 0), "{drawn:?}");
    // The bar is wiped away before the answer.
    let last = drawn.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap();
    assert!(last.contains("10000 tasks submitted in ") && !last.contains('█'), "{drawn:?}");
}

#[test]
fn a_load_shows_how_far_it_is() {
    let site = Site::new();
    let drawn = drawn(&site, "bench submit --tasks 2000 --connections 2 -o line");
    assert!(
        drawn.contains("submit ") && drawn.contains(" % ") && drawn.contains("/s"),
        "{drawn:?}"
    );
    assert!(drawn.contains("submit by 1: tasks=2000"), "{drawn:?}");
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let site = Site::new();
    tasks(&site, 2_000);
    let output = site.command(&["submit", "--bulk", "tasks.ndjson"]).output().unwrap();
    assert_eq!(said(&output, 0), "");
    assert!(printed(&output, 0).starts_with("2000 tasks submitted in "));
}
