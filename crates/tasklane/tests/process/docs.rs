//! The examples of the documentation, run as a reader would.

use std::path::Path;
use std::process::Command;

use crate::server::Server;

/// The shell blocks of a page, as one script.
fn script(page: &str) -> String {
    let mut script = String::from("set -euo pipefail\n");
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    script
}

#[test]
fn the_examples_of_the_http_guide_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/http.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("store"), &[]);
    let script = script(&page).replace("127.0.0.1:7170", &server.address.to_string());
    assert!(script.contains("curl"), "the page has examples");
    let ran = Command::new("bash").args(["-xc", &script]).current_dir(folder.path()).output();
    let ran = ran.unwrap();
    let (shown, trace) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{shown}\n{trace}");
}
