//! Rules for docs.

/// Folders whose files are named in backticks.
const ROOTS: [&str; 3] = ["crates/", "docs/", "bench/"];

/// Targets of links to local files.
pub(crate) fn links(text: &str) -> Vec<String> {
    let links = prose(text).into_iter().flat_map(|line| line.split("](").skip(1));
    let targets = links.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    let local =
        |file: &&str| !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:");
    files.filter(local).map(str::to_owned).collect()
}

/// Paths in backticks, from the workspace's folder. Patterns are not paths.
pub(crate) fn paths(text: &str) -> Vec<String> {
    let quoted = prose(text).into_iter().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |text: &&str| {
        let plain = |c: char| c.is_alphanumeric() || "/_-.".contains(c);
        ROOTS.iter().any(|root| text.starts_with(root)) && text.chars().all(plain)
    };
    quoted.filter(is_path).map(str::to_owned).collect()
}

/// Files of a code map: under a heading that is a folder in backticks, the first cells of tables.
pub(crate) fn mapped_files(text: &str) -> Vec<String> {
    let mut folder = None;
    let mut files = Vec::new();
    for line in prose(text) {
        if line.starts_with('#') {
            folder = line.split('`').nth(1).filter(|name| name.starts_with("crates/"));
        } else if let (Some(folder), Some(row)) = (folder, line.strip_prefix("| `")) {
            let name = row.split('`').next().unwrap_or_default();
            files.push(format!("{}/{name}", folder.trim_end_matches('/')));
        }
    }
    files
}

/// What a code map lacks, and what it names in vain. Files that only gather others, and tests,
/// need no line.
pub(crate) fn differences(mapped: &[String], files: &[String]) -> Vec<String> {
    let gathers = |name: &str| name.ends_with("/mod.rs") || name.ends_with("/lib.rs");
    let tests = |name: &str| name.ends_with("/tests.rs") || name.contains("/tests/");
    let unnamed = |file: &&String| !gathers(file) && !tests(file) && !mapped.contains(file);
    let lacking = files.iter().filter(unnamed);
    let vain = mapped.iter().filter(|file| !files.contains(file));
    let lacking = lacking.map(|file| format!("{file} has no line in ARCHITECTURE.md"));
    lacking.chain(vain.map(|file| format!("{file} has a line, but is not there"))).collect()
}

/// Lines outside of code blocks.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_local_files_are_read() {
        let text = "See [a](docs/a.md), [b](../b.md#part) and [c](https://example.org/c).\n\
                    [here](#there) [mail](mailto:a@example.org)\n```\n[no](link.md)\n```\n";
        assert_eq!(links(text), ["docs/a.md", "../b.md"]);
    }

    #[test]
    fn paths_in_backticks_are_read() {
        let text = "`crates/x/src/a.rs`, `cargo test`, `crates/*/src`, `docs/a.md` `src/b.rs`\n";
        assert_eq!(paths(text), ["crates/x/src/a.rs", "docs/a.md"]);
    }

    #[test]
    fn a_code_map_that_differs_from_the_files_is_found() {
        let text = "## Map\n| `not/this.rs` | x |\n### `crates/x/src`\n| file | what |\n|---|---|\n\
                    | `a.rs` | one |\n| `b.rs` | two |\n## More\n| `c.rs` | no |\n";
        let mapped = mapped_files(text);
        assert_eq!(mapped, ["crates/x/src/a.rs", "crates/x/src/b.rs"]);
        let files = ["crates/x/src/a.rs", "crates/x/src/lib.rs", "crates/x/src/d.rs"];
        let found = differences(&mapped, &files.map(str::to_owned));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|finding| finding.starts_with("crates/x/src/d.rs")));
        assert!(found.iter().any(|finding| finding.starts_with("crates/x/src/b.rs")));
    }
}
