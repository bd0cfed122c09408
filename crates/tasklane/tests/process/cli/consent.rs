//! What cannot be undone is asked about.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::Site;

/// Runs a command at a terminal, where somebody answers.
fn answered(site: &Site, arguments: &str, answer: &str) -> Output {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_tasklane"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    command.env("TASKLANE_SERVER", format!("http://{}", site.address()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{answer}\n").as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn waiting(site: &Site) -> u64 {
    site.json(&["list", "--state", "pending", "--count"])["matched"].as_u64().unwrap()
}

#[test]
fn without_a_terminal_nothing_is_done_unless_it_is_meant() {
    let site = Site::new();
    let dead = site.dead_letter("b");
    for _ in 0..3 {
        site.submit(&["a", "--queue", "mail"]);
    }
    for arguments in [
        &["purge", "normal"][..],
        &["cancel", "--queue", "mail"],
        &["dlq", "discard", &dead],
        &["dlq", "discard", "--all"],
        &["keys", "revoke", "tl_0123456789ab"],
    ] {
        let text = site.said(arguments, 2);
        assert!(text.contains("→ give --yes"), "{arguments:?}: {text}");
    }
    assert_eq!(waiting(&site), 3);
    let dry = site.json(&["purge", "normal", "high", "--queue", "mail", "--dry-run"]);
    assert_eq!(dry, json!({"matched": 3, "exact": true}));
    assert_eq!(site.done(&["cancel", "--queue", "mail", "--yes"]), "3 tasks cancelled\n");
    assert_eq!(waiting(&site), 0);
}

#[test]
fn at_a_terminal_an_answer_decides() {
    let site = Site::new();
    site.submit(&["a"]);
    let no = answered(&site, "purge normal", "n");
    let text = String::from_utf8_lossy(&no.stdout).into_owned();
    assert_eq!(no.status.code(), Some(1), "{text}");
    assert!(
        text.contains("1 task in all queues will be cancelled. This cannot be undone."),
        "{text}"
    );
    assert!(text.contains("nothing was done"), "{text}");
    assert_eq!(waiting(&site), 1);
    let yes = answered(&site, "purge normal", "y");
    assert_eq!(yes.status.code(), Some(0), "{yes:?}");
    assert_eq!(waiting(&site), 0);
}
