//! The examples of the documentation, run as a reader would.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::masked;
use crate::server::Server;

/// Runs the program of this test, with somebody at a terminal who watches `top` and quits when there
/// is something to see, or after 30 s.
const TASKLANE: &str = r#"#!/bin/sh
case "$1" in
  top)
    shown="$XDG_CONFIG_HOME/shown"
    : > "$shown"
    {
      for look in $(seq 300); do
        grep -q "Queues " "$shown" && break
        sleep 0.1
      done
      printf q
    } | script -qefc "stty rows 24 cols 80; $PROGRAM top" "$shown" ;;
  dev) shift; exec "$PROGRAM" dev --listen "$TASKLANE_LISTEN" "$@" ;;
  *) exec "$PROGRAM" "$@" ;;
esac
"#;
/// What it builds is there already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
  "build --release") ;;
  "run --release -- "*) shift 3; exec tasklane "$@" ;;
  *) echo "not in these examples: cargo $*" >&2; exit 1 ;;
esac
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The blocks of a page in one language, also those inside lists.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.find(|line| line.trim_start() == fence) {
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim_start() != "```");
        let inside = inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()));
        found.push(inside.collect());
    }
    assert!(!found.is_empty(), "no {language} on the page");
    found
}

/// Runs a script in a folder like a clone whose server is to be at this address; gives what it
/// prints.
fn run(script: &str, address: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (home, bin) = (folder.path(), folder.path().join("target/release"));
    std::fs::create_dir_all(&bin).unwrap();
    symlink(root().join("docs"), home.join("docs")).unwrap();
    for (name, text) in [("tasklane", TASKLANE), ("cargo", CARGO)] {
        std::fs::write(bin.join(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join(name), mode).unwrap();
    }
    let script = script.replace("127.0.0.1:7170", address);
    // Whatever goes wrong, nothing that was started stays.
    let script =
        format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TASKLANE_")) {
        command.env_remove(name);
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ran = command
        .args(["-xc", &script])
        .current_dir(home)
        .env("PATH", path)
        .env("PROGRAM", env!("CARGO_BIN_EXE_tasklane"))
        .env("TERM", "xterm")
        .env("XDG_CONFIG_HOME", home)
        .env("TASKLANE_LISTEN", address)
        .env("TASKLANE_SERVER", format!("http://{address}"))
        .output()
        .unwrap();
    let (shown, trace) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{shown}\n{trace}");
    shown.into_owned()
}

/// An address that nobody listens on.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// What a page says it shows came out, in order.
fn assert_shown(page: &str, output: &str) {
    let output = masked(output);
    let mut rest = output.as_str();
    for line in blocks(page, "text").iter().flat_map(|block| block.lines()) {
        let line = masked(line);
        let at = rest.find(&line);
        let at = at.unwrap_or_else(|| panic!("not shown: {line}\n--- in\n{rest}"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn the_examples_of_the_http_guide_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("store"), &[]);
    run(&blocks(&page("docs/http.md"), "sh").concat(), &server.address.to_string());
}

#[test]
fn the_quickstart_works_and_shows_what_it_says() {
    let page = page("docs/quickstart.md");
    let output = run(&blocks(&page, "sh").concat(), &free());
    assert!(output.contains("Queues "), "the dashboard was drawn");
    assert_shown(&page, &output);
}

#[test]
fn the_examples_of_the_readme_work() {
    let blocks = blocks(&page("README.md"), "sh");
    let [dev, try_it, curl, worker] = blocks.as_slice() else { panic!("other blocks: {blocks:?}") };
    // What goes on until it is stopped is beside the rest.
    let (dev, worker) = (dev.trim_end(), worker.trim_end());
    let output = run(
        &format!(
            "{dev} > dev.log &\nuntil curl -sf http://127.0.0.1:7170/readyz; do sleep 0.1; done\n\
             {try_it}{curl}{worker} 2> worker.log &\nBUILT_IN=$!\n\
             until tasklane workers | grep -q webhook; do sleep 0.1; done\n\
             kill $BUILT_IN\nwait $BUILT_IN\nkill -INT %1\nwait %1\n"
        ),
        &free(),
    );
    assert!(output.contains(r#"{"hello": "world"}"#), "{output}");
    assert!(output.contains("Queues "), "the dashboard was drawn");
    assert!(output.contains(r#""state":"completed","attempts":1"#), "{output}");
}
