//! Rules for Rust files.

use super::lexer::code_only;

/// A file that passes this should be split.
const LINES_MAX: usize = 400;
/// What core must not do: it is handed time, randomness and bytes.
const IMPURE: [&str; 13] = [
    "SystemTime",
    "Instant",
    "std::fs",
    "std::net",
    "std::io",
    "std::thread",
    "std::process",
    "std::env",
    "async fn",
    "async move",
    ".await",
    "println!",
    "unsafe ",
];
/// Other systems' words for what has a word here. Not listed, because they are right elsewhere:
/// `message` (the text of an error) and `lock` (of a mutex or a file).
const UNUSED_WORDS: [&str; 10] =
    ["job", "jobs", "ack", "acks", "reserve", "reserved", "morgue", "manager", "util", "utils"];
/// Where such a word is right after all: what must stand in the line.
const ALLOWED: [(&str, &str); 4] = [
    ("reserve", ".reserve("),
    ("util", "_util::"),
    ("manager", "ConnectionManager"),
    ("manager", "deadpool_postgres::"),
];
const LEFTOVERS: [&str; 5] = ["todo!", "unimplemented!", "dbg!", "#[ignore", ", ignore)"];

/// I/O, clocks, threads and async.
pub(crate) fn impure(source: &str) -> Vec<String> {
    occurrences(source, &IMPURE)
}

/// What was meant for a moment only, and tests that do not run.
pub(crate) fn leftovers(source: &str) -> Vec<String> {
    occurrences(source, &LEFTOVERS)
}

/// Words that are not used, in names, comments and text alike.
pub(crate) fn unused_words(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.lines().enumerate() {
        for word in words(line) {
            let allowed = |(known, sign): &(&str, &str)| *known == word && line.contains(sign);
            if UNUSED_WORDS.contains(&word.as_str()) && !ALLOWED.iter().any(allowed) {
                found.push(format!("line {}: the word \"{word}\" is not used", number + 1));
            }
        }
    }
    found
}

/// Too many lines.
pub(crate) fn too_long(source: &str) -> Vec<String> {
    let lines = source.lines().count();
    let finding = || format!("{lines} lines; split what passes {LINES_MAX}");
    (lines > LINES_MAX).then(finding).into_iter().collect()
}

fn occurrences(source: &str, forbidden: &[&str]) -> Vec<String> {
    let code = code_only(source);
    let lines = code.lines().enumerate();
    let finding = |(number, line): (usize, &str)| {
        let found = forbidden.iter().filter(|text| line.contains(**text));
        found.map(|text| format!("line {}: {text}", number + 1)).collect::<Vec<_>>()
    };
    lines.flat_map(finding).collect()
}

/// The words of a line in lower case; names are taken apart at `_` and at capitals.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in line.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && after_small);
        if begins {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_threads_and_files_are_found_in_core() {
        assert_eq!(impure("fn now() { let t = Instant::now(); }"), ["line 1: Instant"]);
        assert_eq!(impure("\nuse std::time::SystemTime;").len(), 1);
        assert_eq!(impure("use std::fs;\nuse std::net::IpAddr;").len(), 2);
        assert_eq!(impure("async fn f() { g().await; std::thread::yield_now() }").len(), 3);
        assert_eq!(impure("//! Nothing here is an async fn.\nlet x = \"std::fs\";").len(), 0);
    }

    #[test]
    fn words_of_other_systems_are_found_in_names_and_comments() {
        for bad in ["struct JobQueue;", "fn ack_task() {}", "/// The manager.", "mod util;"] {
            assert_eq!(unused_words(bad).len(), 1, "{bad}");
        }
        for good in
            ["use tokio_util::sync::Token;", "buffer.reserve(5);", "/// An error's message."]
        {
            assert_eq!(unused_words(good).len(), 0, "{good}");
        }
        assert_eq!(unused_words("crates/tasklane-core/src/util.rs").len(), 1);
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(too_long(&"line\n".repeat(LINES_MAX)).len(), 0);
        assert_eq!(too_long(&"line\n".repeat(LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn what_is_left_undone_is_found() {
        for bad in ["todo!()", "dbg!(x)", "#[ignore]", "#[ignore = \"slow\"]"] {
            assert_eq!(leftovers(bad).len(), 1, "{bad}");
        }
        assert_eq!(leftovers("// todo! is not allowed\nlet x = \"dbg!\";").len(), 0);
    }
}
