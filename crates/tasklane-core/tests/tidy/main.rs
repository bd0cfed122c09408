//! What holds of the whole workspace: who may depend on whom, which words are used, that docs
//! point at what is there. Each rule is a function over text in a module beside this one, with a
//! test that shows it catching a bad sample; here they meet the real files.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failed expectation is the test's failure"
)]

mod files;
mod lexer;
mod manifest;
mod markdown;
mod source;
mod text;

use files::{File, crates, markdown_files, rust_files, text_files, workspace};

/// Fails with every finding, one per line.
fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}\n", findings.join("\n  "));
}

/// Applies a rule to files; findings begin with the file's name.
fn apply(files: &[File], rule: impl Fn(&File) -> Vec<String>) -> Vec<String> {
    let named = |file: &File| {
        let name = file.name.clone();
        rule(file).into_iter().map(move |finding| format!("{name}: {finding}"))
    };
    files.iter().flat_map(named).collect()
}

#[test]
fn crates_depend_in_one_direction_only() {
    let manifests = crates("Cargo.toml");
    assert!(manifests.len() >= 3, "too few crates were found");
    assert_none("dependencies", &apply(&manifests, |file| manifest::misdirected(&file.text)));
}

#[test]
fn core_does_no_io_and_asks_for_no_time() {
    let core: Vec<_> = rust_files("src")
        .into_iter()
        .filter(|file| file.name.starts_with("crates/tasklane-core/"))
        .collect();
    assert!(core.len() >= 20, "too few files of core were found");
    assert_none("core is pure", &apply(&core, |file| source::impure(&file.text)));
}

#[test]
fn one_word_per_concept() {
    let files = rust_files("src");
    assert_none("words", &apply(&files, |file| source::unused_words(&file.text)));
    assert_none("file names", &apply(&files, |file| source::unused_words(&file.name)));
}

#[test]
fn no_file_is_too_long() {
    assert_none("length", &apply(&rust_files("src"), |file| source::too_long(&file.text)));
}

#[test]
fn nothing_is_left_undone() {
    let mut files = rust_files("src");
    files.extend(rust_files("tests"));
    files.extend(rust_files("examples"));
    assert_none("leftovers", &apply(&files, |file| source::leftovers(&file.text)));
}

#[test]
fn every_dependency_has_its_reason() {
    let root = File::read(&workspace().join("Cargo.toml"));
    assert_none("reasons", &manifest::unexplained(&root.text));
    let lock = File::read(&workspace().join("Cargo.lock"));
    assert_none("sources", &manifest::foreign_sources(&lock.text));
}

#[test]
fn nothing_names_a_machine() {
    let files = text_files();
    assert!(files.len() >= 50, "too few files were found");
    assert_none("machines", &apply(&files, |file| text::machines(&file.text)));
}

#[test]
fn docs_point_at_what_is_there() {
    let docs = markdown_files();
    assert!(docs.iter().any(|file| file.name == "README.md"), "no README was found");
    let missing = apply(&docs, |file| {
        let folder = file.path.parent().expect("a file is in a folder");
        let links = markdown::links(&file.text);
        let links = links.into_iter().filter(|link| !folder.join(link).exists());
        let paths = markdown::paths(&file.text);
        let paths = paths.into_iter().filter(|path| !workspace().join(path).exists());
        links.chain(paths).map(|target| format!("{target} is not there")).collect()
    });
    assert_none("links", &missing);
}

#[test]
fn the_code_map_names_every_file() {
    let map = File::read(&workspace().join("ARCHITECTURE.md"));
    let mapped = markdown::mapped_files(&map.text);
    let files: Vec<_> = rust_files("src").into_iter().map(|file| file.name).collect();
    assert_none("code map", &markdown::differences(&mapped, &files));
}
