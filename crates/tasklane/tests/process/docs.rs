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

/// Runs the examples of a page against a server of their own; gives what they print.
fn run(page: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("store"), &[]);
    let script = script(page).replace("127.0.0.1:7170", &server.address.to_string());
    assert!(script.contains("curl"), "the page has examples");
    let ran = Command::new("bash").args(["-xc", &script]).current_dir(folder.path()).output();
    let ran = ran.unwrap();
    let (shown, trace) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{shown}\n{trace}");
    shown.into_owned()
}

fn page(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_examples_of_the_http_guide_work() {
    run(&page("docs/http.md"));
}

#[test]
fn the_first_task_of_the_readme_is_completed() {
    let readme = page("README.md");
    // Its other examples build, start and test things.
    let curls = readme.split("```sh").find(|block| block.contains("curl ")).unwrap();
    let block = curls.split("```").next().unwrap();
    let shown = run(&format!("```sh{block}```"));
    assert!(shown.contains(r#""state":"completed","attempts":1"#), "{shown}");
}
